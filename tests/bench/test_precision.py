"""How exact a precision is: the measures, what they are taken of, and what is published."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bench.machine import RESULTS
from bench.precision import figures, page, words
from bench.precision.__main__ import PLAIN, VOICES, converted
from bench.precision.networks import Script, compare, look, speak, whole
from rtts import store
from rtts_engine import int8_loss
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import convert, source_hash
from rtts_engine.manifest import Manifest
from rtts_engine.model import Model
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("c") / "c", preset="tiny", kind="custom_voice")


@pytest.fixture(scope="module")
def exact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model.load(convert(checkpoint, tmp_path_factory.mktemp("m") / "fp32"))


@pytest.fixture(scope="module")
def scripts(exact: Model) -> list[Script]:
    return [Script(text, "eric", speak(exact, text, "eric", 5)) for text in ("hello world", "one")]


def test_cosines_and_divergences_of_known_rows() -> None:
    a = np.array([[1, 0], [3, 4]], np.float32)
    np.testing.assert_allclose(figures.cosines(a, np.array([[0, 2], [6, 8]], np.float32)), [0, 1], atol=1e-12)
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    logits = [np.log(x)[None].astype(np.float32) + 7 for x in (p, q)]
    np.testing.assert_allclose(figures.divergences(*logits), [(p * np.log(p / q)).sum()], rtol=1e-5)
    np.testing.assert_array_equal(figures.divergences(a, a), 0)


def test_noise_and_frames() -> None:
    wave = np.ones(1000, np.float32)
    assert figures.snr_db(wave, wave * np.float32(1.1)) == pytest.approx(20, abs=0.01)
    assert figures.snr_db(wave, wave) == float("inf")
    a, b = np.zeros((4, 16), np.int32), np.zeros((6, 16), np.int32)
    b[2, 5] = 1
    assert figures.equal_frames(a, b) == 3
    assert figures.first_difference(a, b) == 2
    assert figures.first_difference(a, a) == 4


def test_one_pass_over_all_rows_says_what_the_talker_says(exact: Model) -> None:
    rows = np.random.default_rng(0).normal(0, 0.5, (9, exact.tables.hidden_size)).astype(np.float32)
    stack = exact.manifest.config.talker.stack
    layers, (hidden, logits) = whole(exact.talker._stack, stack, rows, ["hidden", "logits"])
    want = exact.talker.prefill(rows)[1]
    assert len(layers) == stack.num_layers
    np.testing.assert_allclose(hidden[-1], want.hidden, atol=1e-5)
    np.testing.assert_allclose(logits[-1], want.logits, atol=1e-5)
    assert layers[0].shape == layers[-1].shape == rows.shape


def test_fp32_is_exact_and_gives_the_codes_that_it_spoke(exact: Model, scripts: list[Script]) -> None:
    """Given its own codes, every choice is the code that was spoken: the rows are those of generation."""
    seen = look(exact, scripts, None, 5)
    np.testing.assert_array_equal(seen.choices, np.concatenate([script.codes for script in scripts]))
    row = compare(seen, look(exact, scripts, seen, 5), scripts)
    assert row["frames"] == 10
    assert min(row["talker_cosine"] + row["predictor_cosine"]) > 1 - 1e-6
    assert row["talker_kl"] < 1e-6
    assert max(row["predictor_kl"]) < 1e-6
    assert row["equal_frames"] == row["free_running_equal_frames"] == 1
    assert row["codec_snr_db"] > 60
    assert len(row["predictor_kl"]) == 15


def test_int8_is_less_exact_and_wider_products_help(
    exact: Model, scripts: list[Script], checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8_loss, "LIMIT", 0.0)  # everything is wider, but not in plain int8
    seen, rows = look(exact, scripts, None, 5), {}
    for precision in ("int8", PLAIN):
        path = converted(checkpoint, tmp_path / precision, precision)
        rows[precision] = compare(seen, look(Model.load(path), scripts, seen, 5), scripts)
    forms = {product.form for product in Manifest.load(tmp_path / PLAIN).products.values()}
    assert forms == {"int8"}
    assert 0.9 < rows[PLAIN]["talker_cosine"][-1] < rows["int8"]["talker_cosine"][-1]
    assert rows["int8"]["codec_snr_db"] == rows[PLAIN]["codec_snr_db"] < 60


def test_sentences_are_spread_over_the_held_out_ones() -> None:
    chosen = words.texts(100)
    assert len(chosen) == 100
    assert list(chosen)[:3] == [0, 2, 4]
    assert len(words.texts(7)) == 7


def test_published_aims_and_words_follow_from_the_published_figures() -> None:
    """`python -m bench.precision`; a new voice needs a new measurement."""
    result = json.loads((RESULTS / "precision.json").read_text(encoding="utf-8"))
    assert [asdict(aim) for aim in page.check(result)] == result["aims"]
    source = source_hash(Checkpoint.open(VOICES / store.DEFAULT_MODEL))
    assert result["models"][store.DEFAULT_MODEL]["source_sha256"] == source
    if result["wer"]:
        assert result["wer"]["source_sha256"] == source
    assert (RESULTS / "precision.png").stat().st_size > 0
