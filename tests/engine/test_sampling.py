"""The processor order against a slow restatement of the rules, and draws that nothing but their key decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts_engine.config import GenerationDefaults
from rtts_engine.errors import ModelError, RequestError
from rtts_engine.sampling import Draw, FirstCode, Sampling, choose, probabilities, uniforms

from .conftest import Models


def slow_probabilities(logits: np.ndarray, draw: Draw) -> np.ndarray:
    """The full distribution, rule by rule, one entry at a time."""
    scores = [float(np.float32(x) / np.float32(draw.temperature)) for x in logits]
    if 0 < draw.top_k < len(scores):
        limit = sorted(scores, reverse=True)[draw.top_k - 1]
        scores = [x if x >= limit else -np.inf for x in scores]
    weights = np.exp(np.array(scores) - max(scores))
    weights /= weights.sum()
    if draw.top_p < 1.0:
        total = 0.0
        order = np.argsort(weights, kind="stable")
        for index in order[:-1]:
            total += weights[index]
            if total <= 1.0 - draw.top_p:
                weights[index] = 0.0
        weights /= weights.sum()
    return weights


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 200),
    temperature=st.sampled_from([0.3, 0.9, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 5, 50, 1000]),
    top_p=st.sampled_from([0.0, 0.3, 0.8, 0.95, 1.0]),
    ties=st.booleans(),
)
def test_probabilities(
    seed: int, size: int, temperature: float, top_k: int, top_p: float, ties: bool
) -> None:
    logits = np.random.default_rng(seed).normal(0, 4, size).astype(np.float32)
    if ties:
        logits = np.round(logits)
    draw = Draw(True, temperature, top_k, top_p)
    ids, values = probabilities(logits, draw)
    dense = np.zeros(size)
    dense[ids] = values
    if ties and top_p < 1.0:
        # Which of several equal entries top-p keeps is not defined; how much it keeps is.
        np.testing.assert_allclose(np.sort(dense), np.sort(slow_probabilities(logits, draw)), atol=1e-9)
    else:
        np.testing.assert_allclose(dense, slow_probabilities(logits, draw), atol=1e-9)
    assert values.sum() == pytest.approx(1.0)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    temperature=st.sampled_from([0.3, 0.9, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 50, 5000]),
    top_p=st.sampled_from([0.8, 1.0]),
    ties=st.booleans(),
)
def test_choice_inverts_the_distribution(
    seed: int, temperature: float, top_k: int, top_p: float, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, 300).astype(np.float32)
    logits[rng.random(300) < 0.2] = -np.inf
    if ties:
        logits = np.round(logits)
    draw = Draw(True, temperature, top_k, top_p)
    ids, values = probabilities(logits, draw)
    cumulative = np.cumsum(values)
    for uniform in rng.random(20):
        want = ids[
            min(int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right")), len(ids) - 1)
        ]
        assert choose(logits, draw, uniform) == want


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", [Draw(), Draw(top_k=0), Draw(top_p=0.8), Draw(do_sample=False)])
@pytest.mark.parametrize("damage", [[np.nan], [np.inf], [np.nan] * 100, [-np.inf] * 200])
def test_what_is_not_a_number_is_never_drawn(draw: Draw, damage: list[float]) -> None:
    logits = np.random.default_rng(0).normal(0, 4, 200).astype(np.float32)
    logits[: len(damage)] = damage
    with pytest.raises(ModelError, match="not finite"):
        choose(logits, draw, 0.5)


def test_masked_ids_are_never_drawn() -> None:
    logits = np.full(10, -np.inf, np.float32)
    logits[[2, 7]] = [0.5, 0.1]
    drawn = {choose(logits, Draw(top_k=0), u) for u in np.linspace(0, 1, 50, endpoint=False)}
    assert drawn == {2, 7}


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.2, 0.2, 0.1], np.float32))
    draws = [choose(logits, Draw(temperature=1.0, top_k=0), uniforms(7, i, 1)[0]) for i in range(20_000)]
    np.testing.assert_allclose(np.bincount(draws) / len(draws), [0.5, 0.2, 0.2, 0.1], atol=0.012)


def test_uniforms_depend_on_seed_and_frame_only() -> None:
    whole = np.stack([uniforms(3, frame, 16) for frame in range(100)])
    np.testing.assert_array_equal(uniforms(3, 41, 16), whole[41])
    np.testing.assert_array_equal(uniforms(3, 41, 3), whole[41, :3])
    assert len(np.unique(whole)) == whole.size
    assert not np.array_equal(uniforms(4, 41, 16), whole[41])
    # Pinned: a change here changes what every user's seed sounds like.
    np.testing.assert_allclose(
        uniforms(1, 0, 3), [0.3035680343067586, 0.8487087496857769, 0.1561347780434731], rtol=1e-15
    )


def test_greedy_takes_the_lowest_of_equal_maxima() -> None:
    assert choose(np.array([1, 3, 3, 0], np.float32), Draw(do_sample=False), 0.99) == 1


def test_first_code_rules(models: Models) -> None:
    config = models.get().manifest.config.talker
    first = FirstCode(config, Sampling().greedy())
    logits = np.zeros(config.vocab_size, np.float32)
    logits[config.ids.eos] = 9.0
    logits[config.vocab_size - 1] = 10.0  # a control id
    logits[[4, 5]] = [2.0, 1.95]
    # EOS is masked for two frames, control ids for ever; the penalty of 1.05 counts once however often 4 was seen.
    assert first.choose(logits, 0, 0.0) == 4
    scores = first.process(logits, 1)
    assert scores[4] == np.float32(2.0) / np.float32(1.05)
    assert first.choose(logits, 1, 0.0) == 5
    assert first.process(logits, 2)[config.ids.eos] == 9.0
    assert first.choose(logits, 2, 0.0) == config.ids.eos
    negative = np.full(config.vocab_size, -1.0, np.float32)
    assert first.process(negative, 3)[4] == np.float32(-1.0) * np.float32(1.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sampling(Draw(temperature=0.0)), "temperature is 0.0"),
        (lambda: Sampling(Draw(temperature=1e-30)), "temperature is 1e-30, expected 1e-05 to 1e"),
        (lambda: Sampling(Draw(temperature=1e39)), r"temperature is 1e\+39"),
        (lambda: Sampling(Draw(temperature="hot")), "temperature is 'hot'"),  # type: ignore[arg-type]
        (lambda: Sampling(Draw(top_k=1.5)), "top_k is 1.5"),  # type: ignore[arg-type]
        (lambda: Sampling().with_talker(top_k=-2), "top_k is -2"),
        (lambda: Sampling().with_talker(repetition_penalty=1e39), r"repetition_penalty is 1e\+39"),
        (lambda: Sampling(predictor=Draw(top_k=-1)), "subtalker_top_k is -1"),
        (lambda: Sampling(Draw(top_p=1.5)), "top_p is 1.5"),
        (lambda: Sampling(Draw(temperature=float("nan"))), "temperature is nan"),
        (lambda: Sampling(repetition_penalty=-1.0), "repetition_penalty is -1.0"),
    ],
)
def test_out_of_range_values_are_named(make: object, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        make()  # type: ignore[operator]


def test_defaults_come_from_the_generation_config() -> None:
    sampling = Sampling.from_defaults(GenerationDefaults(temperature=0.7, subtalker_top_k=9, do_sample=False))
    assert sampling.talker == Draw(False, 0.7, 50, 1.0)
    assert sampling.predictor == Draw(True, 0.9, 9, 1.0)


def test_what_is_not_given_stays_with_the_model() -> None:
    """An explicit argument goes before generation_config.json, and that before the built-in values."""
    model = Sampling.from_defaults(GenerationDefaults(temperature=0.7, repetition_penalty=1.2, top_k=9))
    changed = model.with_talker(temperature=0.5, top_p=0.8)
    assert changed.talker == Draw(True, 0.5, 9, 0.8)
    assert changed.repetition_penalty == 1.2
    assert changed.predictor == model.predictor
    assert model.with_talker(repetition_penalty=1.0).repetition_penalty == 1.0
    assert model.with_talker() == model


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [1e-5, 1e30])
@pytest.mark.parametrize("penalty", [1e-3, 1e3])
def test_the_ends_of_the_ranges_still_draw(models: Models, temperature: float, penalty: float) -> None:
    config = models.get().manifest.config.talker
    first = FirstCode(config, Sampling(Draw(temperature=temperature), repetition_penalty=penalty))
    logits = np.random.default_rng(1).normal(0, 50, config.vocab_size).astype(np.float32)
    for frame in range(5):
        code = first.choose(logits, frame, 0.5)
        assert code < config.vocab_size - 1024 or code == config.ids.eos
