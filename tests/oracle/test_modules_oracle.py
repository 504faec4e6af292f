"""Each network on the official inputs of its own, at two lengths: the table of the parity page."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rtts_engine.model import Model

from .cases import cases_of
from .conftest import Pair, Pairs
from .parity import FloatArray, Report, relative_error

pytestmark = pytest.mark.oracle

PRESETS = (("tiny", 0), ("tiny17", 1), ("small", 0))
LIMIT = 2e-5
"""fp32 noise over a few layers; a wrong constant shows at 1e-3 or more."""
CODEC_LIMIT = 1e-4
"""Its twenty convolutions between Snake activations amplify that noise."""


@pytest.fixture(scope="module", params=PRESETS, ids=[preset for preset, _ in PRESETS])
def pair(request: pytest.FixtureRequest, pairs: Pairs) -> Pair:
    preset, seed = request.param
    return pairs.get(preset, "base", seed)


def _check(
    report: Report,
    pair: Pair,
    module: str,
    length: str,
    official: FloatArray,
    ours: FloatArray,
    limit: float = LIMIT,
) -> None:
    assert official.shape == ours.shape
    error = relative_error(official, ours)
    report.modules[(pair.preset, module, length)] = error
    assert error <= limit, f"{pair.preset} {module} {length}: {error:.1e}"


def _codes(model: Model, frames: int) -> NDArray[np.int32]:
    return np.random.default_rng(2).integers(0, model.codec.codebook_size, (frames, 16)).astype(np.int32)


def _prompt_like(pair: Pair, rows: int) -> FloatArray:
    """Rows of both tracks, as prompts and frames have them."""
    ids = np.random.default_rng(1).integers(0, 256, rows)
    return pair.official.text(ids) + pair.official.frames(_codes(pair.model, rows))


@pytest.mark.parametrize("length", [8, 64])
def test_text_projection(pair: Pair, report: Report, length: int) -> None:
    ids = np.random.default_rng(0).integers(0, pair.model.manifest.config.talker.text_vocab_size, length)
    ours = pair.model.tables.text(ids.tolist())
    _check(report, pair, "text embedding and projection", f"{length} ids", pair.official.text(ids), ours)


@pytest.mark.parametrize("length", [8, 64])
def test_frame_embedding(pair: Pair, report: Report, length: int) -> None:
    codes = _codes(pair.model, length)
    ours = pair.model.tables.frames(codes)
    _check(report, pair, "frame embedding", f"{length} frames", pair.official.frames(codes), ours)


@pytest.mark.parametrize("length", [10, 120])
def test_talker_prefill(pair: Pair, report: Report, length: int) -> None:
    rows = _prompt_like(pair, length)
    states, logits = pair.official.talker_pass(rows)
    _, ours = pair.model.talker.prefill(rows)
    _check(report, pair, "talker prefill, state", f"{length} rows", states[-1], ours.hidden)
    _check(report, pair, "talker prefill, logits", f"{length} rows", logits[-1], ours.logits)


@pytest.mark.parametrize("length", [10, 120])
def test_talker_steps(pair: Pair, report: Report, length: int) -> None:
    steps = 12
    rows = _prompt_like(pair, length + steps)
    states, logits = pair.official.talker_pass(rows)
    state, _ = pair.model.talker.prefill(rows[:length])
    outputs = [pair.model.talker.step(state, row) for row in rows[length:]]
    where = f"{steps} steps after {length} rows"
    _check(report, pair, "talker step, state", where, states[length:], np.stack([o.hidden for o in outputs]))
    _check(report, pair, "talker step, logits", where, logits[length:], np.stack([o.logits for o in outputs]))


@pytest.mark.parametrize("frames", [1, 8])
def test_code_predictor(pair: Pair, report: Report, frames: int) -> None:
    """Fed with the official states and codes, so that each frame stands for itself."""
    run = pair.official.generate(cases_of("base", frames)[0], voice=pair.voice)
    assert len(run.codes) == frames
    logits: list[FloatArray] = []
    for codes, hidden in zip(run.codes, run.hidden, strict=False):

        def follow(book: int, scores: FloatArray, codes: NDArray[np.int64] = codes) -> int:
            logits.append(scores.copy())
            return int(codes[book])

        pair.model.predictor.frame(hidden, int(codes[0]), follow)
    _check(
        report,
        pair,
        "code predictor, logits",
        f"{frames} frames",
        np.stack(run.predictor_logits),
        np.stack(logits),
    )


@pytest.mark.parametrize("frames", [8, 64])
def test_codec_decoder(pair: Pair, report: Report, frames: int) -> None:
    codes = _codes(pair.model, frames)
    ours = pair.model.codec.decode(pair.model.codec.init_state(), codes)
    official = pair.official.decode_once(codes)
    _check(report, pair, "codec decoder", f"{frames} frames", official, ours, CODEC_LIMIT)
