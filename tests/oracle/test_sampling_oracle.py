"""Filtered probabilities equal those of the processors that the official generate calls configure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rtts_engine.sampling import Draw, FirstCode, Sampling, probabilities

from .cases import cases_of
from .conftest import Pair, Pairs
from .parity import FloatArray

pytestmark = pytest.mark.oracle

SETTINGS = (
    Sampling(),
    Sampling(Draw(temperature=1.0), Draw(temperature=1.0), 1.0),
    Sampling(Draw(temperature=0.6, top_k=0), Draw(temperature=0.7, top_k=10), 1.3),
    Sampling(Draw(top_p=0.8), Draw(top_p=0.8), 1.05),
    Sampling(Draw(temperature=1.4, top_k=20, top_p=0.95), Draw(top_k=0, top_p=0.5), 1.1),
    Sampling(Draw(top_k=1), Draw(top_k=1), 1.05),
)


@dataclass
class OfficialProcessors:
    """The two processor lists of one official call."""

    talker: Any
    predictor: Any


def _official_processors(pair: Pair, sampling: Sampling) -> OfficialProcessors:
    """Runs two frames and keeps the processor lists that ``generate`` builds from its arguments."""
    caught: dict[str, Any] = {}
    models = {"talker": pair.official.talker, "predictor": pair.official.talker.code_predictor}

    def catch(name: str, build: Any) -> Any:
        def built(*args: Any, **kwargs: Any) -> Any:
            caught[name] = build(*args, **kwargs)
            return caught[name]

        return built

    for name, model in models.items():
        model._get_logits_processor = catch(name, model._get_logits_processor)
    try:
        case = cases_of("voice_design", 2)[0]
        ours, theirs = sampling.talker, sampling.predictor
        pair.official.wrapper.generate_voice_design(
            case.text,
            case.instruct,
            do_sample=True,
            subtalker_dosample=True,
            max_new_tokens=3,
            temperature=ours.temperature,
            top_k=ours.top_k,
            top_p=ours.top_p,
            repetition_penalty=sampling.repetition_penalty,
            subtalker_temperature=theirs.temperature,
            subtalker_top_k=theirs.top_k,
            subtalker_top_p=theirs.top_p,
        )
    finally:
        for model in models.values():
            del model._get_logits_processor
    return OfficialProcessors(**caught)


def _official_probabilities(module: Any, processors: Any, history: list[int], logits: FloatArray) -> Any:
    torch = module.torch
    ids = torch.tensor([history], dtype=torch.long).reshape(1, -1)
    scores = processors(ids, torch.from_numpy(logits.copy())[None])
    return torch.softmax(scores[0].double(), dim=-1).numpy()


def _dense(size: int, logits: FloatArray, draw: Draw) -> Any:
    ids, values = probabilities(logits, draw)
    dense = np.zeros(size)
    dense[ids] = values
    return dense


@pytest.mark.parametrize("preset", ["tiny", "small"])
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_random_logits_and_histories(pairs: Pairs, official_module: Any, preset: str, number: int) -> None:
    sampling = SETTINGS[number]
    pair = pairs.get(preset, "voice_design")
    processors = _official_processors(pair, sampling)
    config = pair.model.manifest.config.talker
    rng = np.random.default_rng(number)
    for frame in (0, 1, 2, 5, 40):
        for scale in (0.5, 3.0, 12.0):
            logits = (rng.standard_normal(config.vocab_size) * scale).astype(np.float32)
            history = [int(i) for i in rng.integers(0, config.predictor.vocab_size, frame)]
            rule = FirstCode(config, sampling)
            for past in history:  # remembered as chosen, whatever the scores were
                rule.choose(np.where(np.arange(config.vocab_size) == past, np.float32(1e6), 0), 2, 0.5)
            ours = _dense(config.vocab_size, rule.process(logits, frame), sampling.talker)
            theirs = _official_probabilities(official_module, processors.talker, history, logits)
            assert np.abs(ours - theirs).max() <= 1e-6

            logits = (rng.standard_normal(config.predictor.vocab_size) * scale).astype(np.float32)
            ours = _dense(len(logits), logits, sampling.predictor)
            theirs = _official_probabilities(official_module, processors.predictor, history[:15], logits)
            assert np.abs(ours - theirs).max() <= 1e-6


def test_ties_at_the_kth_score_stay(pairs: Pairs, official_module: Any) -> None:
    pair = pairs.get("tiny", "voice_design")
    processors = _official_processors(pair, Sampling())
    logits = np.repeat(np.array([3.0, 2.0, 1.0, 0.0], np.float32), 16)
    theirs = _official_probabilities(official_module, processors.predictor, [], logits)
    assert np.abs(_dense(64, logits, Draw()) - theirs).max() <= 1e-6
    assert np.count_nonzero(theirs) == 64


def test_real_logits_of_a_sampled_run(pairs: Pairs, official_module: Any) -> None:
    """Every choice of a seeded official run, with the history that run made."""
    sampling = Sampling()
    pair = pairs.get("tiny", "voice_design")
    processors = _official_processors(pair, sampling)
    config = pair.model.manifest.config.talker
    run = pair.official.generate(cases_of("voice_design", 24)[0], seed=7)
    rule = FirstCode(config, sampling)
    history: list[int] = []
    for frame, (first, logits) in enumerate(zip(run.codes[:, 0], run.logits, strict=False)):
        ours = _dense(config.vocab_size, rule.process(logits, frame), sampling.talker)
        theirs = _official_probabilities(official_module, processors.talker, history, logits)
        assert np.abs(ours - theirs).max() <= 1e-6
        assert ours[first] > 0
        history.append(int(first))
        rule.choose(np.where(np.arange(config.vocab_size) == first, np.float32(1e6), 0), 2, 0.5)
    assert len(set(history)) > 5
    for number, logits in enumerate(run.predictor_logits):
        ours = _dense(len(logits), logits, sampling.predictor)
        theirs = _official_probabilities(official_module, processors.predictor, [], logits)
        assert np.abs(ours - theirs).max() <= 1e-6
        assert ours[run.codes[number // 15, number % 15 + 1]] > 0
