"""The streaming codec decoder against the official one: any chunking, long input, and the official restarts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtts_engine.model import Model

from .conftest import Pair, Pairs
from .parity import FloatArray, Report, snr_db

pytestmark = pytest.mark.oracle

FRAMES = 60


@pytest.fixture(scope="module", params=["tiny", "small"])
def pair(request: pytest.FixtureRequest, pairs: Pairs) -> Pair:
    return pairs.get(request.param, "voice_design")


def _codes(model: Model, frames: int, seed: int = 0) -> NDArray[np.int32]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, model.codec.codebook_size, (frames, 16)).astype(np.int32)


def _in_chunks(model: Model, codes: NDArray[np.int32], sizes: list[int]) -> FloatArray:
    state, pieces, start = model.codec.init_state(), [], 0
    for size in sizes:
        pieces.append(model.codec.decode(state, codes[start : start + size]))
        start += size
    assert start >= len(codes)
    return np.concatenate(pieces)


def _sizes(chunk: int | str) -> list[int]:
    if isinstance(chunk, int):
        return [chunk] * -(-FRAMES // chunk)
    rng = np.random.default_rng(5)
    sizes: list[int] = []
    while sum(sizes) < FRAMES:
        sizes.append(int(rng.integers(1, 12)))
    return sizes


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 25, "random"])
def test_any_chunking_equals_the_official_pass(pair: Pair, report: Report, chunk: int | str) -> None:
    codes = _codes(pair.model, FRAMES)
    once = pair.official.decode_once(codes)
    chunked = _in_chunks(pair.model, codes, _sizes(chunk))
    one_pass = _in_chunks(pair.model, codes, [FRAMES])
    assert chunked.shape == once.shape == (1920 * FRAMES,)
    assert np.abs(chunked - one_pass).max() <= 1e-4
    assert np.abs(chunked - once).max() <= 1e-4
    assert snr_db(once, chunked) >= 70
    key = f"codec, {pair.preset}: largest difference in chunks of {chunk}"
    report.facts[key] = f"{np.abs(chunked - once).max():.1e}"


def test_restarts_every_300_frames_equal_the_official_decode(pair: Pair, report: Report) -> None:
    codes = _codes(pair.model, 640, seed=1)
    official = pair.official.decode(codes)
    restarted = pair.model.codec.decode_reference(codes)
    assert restarted.shape == official.shape
    assert np.abs(restarted - official).max() <= 1e-4
    # The restart is audible to a comparison: one causal pass differs after the first boundary, and only there.
    once = pair.official.decode_once(codes)
    assert np.abs(once[: 300 * 1920] - official[: 300 * 1920]).max() <= 1e-4
    assert np.abs(once - official).max() > 1e-3
    streamed = _in_chunks(pair.model, codes, [40] * 16)
    assert np.abs(streamed - once).max() <= 1e-4
    report.facts[f"codec, {pair.preset}: SNR of 640 frames with restarts"] = (
        f"{snr_db(official, restarted):.0f} dB"
    )


@pytest.mark.parametrize("reference_frames", [1, 9, 40])
def test_priming_equals_decoding_behind_the_reference(pair: Pair, reference_frames: int) -> None:
    reference, codes = _codes(pair.model, reference_frames, seed=2), _codes(pair.model, 12, seed=3)
    official = pair.official.decode(np.concatenate([reference, codes]))[1920 * reference_frames :]
    state = pair.model.codec.init_state()
    pair.model.codec.prime(state, reference)
    ours = pair.model.codec.decode(state, codes)
    assert np.abs(ours - official).max() <= 1e-4
    assert snr_db(official, ours) >= 70


def test_state_size_is_what_the_semantics_say(pair: Pair, report: Report) -> None:
    state: Any = pair.model.codec.init_state()
    dims = pair.model.manifest.config.codec.decoder
    attention = dims.num_layers * 2 * (dims.sliding_window - 1) * dims.num_heads * dims.head_dim * 4
    assert state.nbytes > attention
    report.facts[f"codec, {pair.preset}: state of a stream"] = f"{state.nbytes} bytes"
