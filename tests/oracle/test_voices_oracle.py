"""Cloning: reference codes and x-vectors equal the official encoders' for clips of 0.3 to 20 s."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtts_engine.codec_encoder import CodecEncoder
from rtts_engine.speaker import SpeakerEncoder, log_mel, mel_filters

from .audio import speech_like
from .conftest import Pair, Pairs
from .parity import FloatArray, Report, cosine_similarity, relative_error
from .voices import codec_encoder, speaker_encoder

pytestmark = pytest.mark.oracle

PRESETS = ("tiny", "tiny17", "small")
# 0.3 s, ..., 20 s: whole frames (1920 samples), one sample more, one less, and in between
CLIP_SAMPLES = (7_200, 19_199, 19_200, 19_201, 51_120, 120_000, 250_001, 480_000)


@pytest.fixture(scope="module", params=PRESETS)
def pair(request: pytest.FixtureRequest, pairs: Pairs) -> Pair:
    return pairs.get(request.param, "base")


@pytest.fixture(scope="module")
def encoder(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> CodecEncoder:
    return codec_encoder(pair.checkpoint, tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def embedder(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> SpeakerEncoder:
    return speaker_encoder(pair.checkpoint, tmp_path_factory.mktemp("speaker"))


def _clips(samples: int) -> dict[str, FloatArray]:
    rng = np.random.default_rng(samples)
    return {
        "speech": speech_like(samples, seed=samples % 17),
        "noise": (rng.standard_normal(samples) * 0.1).astype(np.float32),
    }


@pytest.mark.parametrize("samples", CLIP_SAMPLES)
def test_reference_codes(pair: Pair, encoder: CodecEncoder, report: Report, samples: int) -> None:
    for name, clip in _clips(samples).items():
        official: NDArray[np.int64] = pair.official.encode(clip)
        ours = encoder.encode(clip)
        assert ours.shape == official.shape == (-(-samples // 1920), 16)
        different = np.argwhere(ours != official)
        assert not len(different), (
            f"{name}: {len(different)} of {official.size} codes differ, first at frame {different[0][0]}, "
            f"book {different[0][1]}"
        )
    report.facts[f"reference codes, {pair.preset}"] = f"equal for clips of 0.3 to {samples / 24000:.1f} s"


@pytest.mark.parametrize("samples", CLIP_SAMPLES)
def test_xvector(pair: Pair, embedder: SpeakerEncoder, report: Report, samples: int) -> None:
    for name, clip in _clips(samples).items():
        official, ours = pair.official.xvector(clip), embedder.embed(clip)
        assert ours.shape == official.shape
        cosine = cosine_similarity(official, ours)
        error = relative_error(official, ours)
        assert cosine >= 0.999999, name
        assert error < 1e-4, name
        key = (pair.preset, "speaker encoder", f"{samples / 24000:.2f} s")
        report.modules[key] = max(error, report.modules.get(key, 0.0))


@pytest.mark.parametrize("samples", [7_200, 120_000])
def test_log_mel(official_module: Any, report: Report, samples: int) -> None:
    """The librosa-free front end against the official one."""
    models = importlib.import_module("qwen_tts.core.models.modeling_qwen3_tts")
    filters = mel_filters(128)
    for clip in _clips(samples).values():
        batch = official_module.torch.from_numpy(clip)[None]
        official = models.mel_spectrogram(
            batch,
            n_fft=1024,
            num_mels=128,
            sampling_rate=24000,
            hop_size=256,
            win_size=1024,
            fmin=0,
            fmax=12000,
        )
        error = relative_error(official[0].numpy().T, log_mel(clip, filters))
        key = ("any", "log mel", f"{samples / 24000:.2f} s")
        report.modules[key] = max(error, report.modules.get(key, 0.0))
        assert error < 1e-4


def test_clips_give_different_xvectors(pair: Pair) -> None:
    """Otherwise the cosine above would compare nothing."""
    first, second = (pair.official.xvector(clip) for clip in _clips(48_000).values())
    assert cosine_similarity(first, second) < 0.9999
