"""The speaker encoder: the official x-vector of a golden clip, the mel front end, limits and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.clip import MAX_CLIP_SECONDS
from rtts_engine.errors import AudioError, CheckpointError
from rtts_engine.graph.speaker_encoder import minimum_frames, write_speaker_encoder
from rtts_engine.runtime import Net
from rtts_engine.speaker import FFT_SIZE, HOP, SpeakerEncoder, log_mel, mel_filters
from tests import goldens
from tests.engine.conftest import Models
from tests.oracle.audio import speech_like


def make_encoder(checkpoint: Checkpoint, stem: Path) -> SpeakerEncoder:
    assert checkpoint.config.speaker_encoder is not None
    write_speaker_encoder(checkpoint, stem)
    return SpeakerEncoder(Net(stem), checkpoint.config.speaker_encoder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SpeakerEncoder:
    folder = tmp_path_factory.mktemp("speaker")
    return make_encoder(
        Checkpoint.open(goldens.load("tiny-base").write_checkpoint(folder / "c")), folder / "s"
    )


@pytest.mark.parametrize("name", ["tiny-base", "tiny17-base"])
def test_x_vector_is_the_official_one(name: str, tmp_path: Path) -> None:
    golden = goldens.load(name)
    encoder = make_encoder(Checkpoint.open(golden.write_checkpoint(tmp_path / "c")), tmp_path / "s")
    ours = encoder.embed(goldens.reference_clip())
    assert golden.xvector is not None
    assert ours.shape == golden.xvector.shape == (encoder.dim,)
    assert ours.dtype == np.float32
    theirs, wide = golden.xvector.astype(np.float64), ours.astype(np.float64)
    assert theirs @ wide / np.linalg.norm(theirs) / np.linalg.norm(wide) >= 0.999999
    assert np.abs(ours - golden.xvector).max() <= 1e-4 * np.abs(golden.xvector).max()


def test_mel_filters_are_slaney_s() -> None:
    filters = mel_filters(128)
    assert filters.shape == (128, 513)
    frequencies = np.linspace(0, 12000, 513)
    step = frequencies[1]
    peaks = frequencies[filters.argmax(axis=1)]
    assert (np.diff(peaks) >= 0).all()
    # 128 filters: linear below 1 kHz, where neighbouring centres are 12000 Hz's mel / 129 apart.
    top = 15 + 27 * np.log(12) / np.log(6.4)
    spacing = top / 129 * 200 / 3
    linear = np.flatnonzero(peaks < 950)
    assert np.abs(peaks[linear] - spacing * (linear + 1)).max() <= step / 2 + 1e-6
    # Unit area, where a triangle spans enough bins to be sampled well.
    assert np.abs(filters[100:].sum(axis=1) * step - 1).max() < 0.02


def test_log_mel_of_a_frame_is_its_slow_transform() -> None:
    clip = speech_like(2000, seed=1)
    filters = mel_filters(128)
    mel = log_mel(clip, filters)
    assert mel.shape == (2000 // HOP, 128)
    padded = np.concatenate([clip[384:0:-1], clip, clip[-2:-386:-1]]).astype(np.float64)
    n = np.arange(FFT_SIZE)
    for frame in (0, 3, len(mel) - 1):
        piece = padded[frame * HOP : frame * HOP + FFT_SIZE] * np.sin(np.pi * n / FFT_SIZE) ** 2
        spectrum = np.exp(-2j * np.pi * np.outer(np.arange(513), n) / FFT_SIZE) @ piece
        expected = np.log(np.maximum(filters @ np.sqrt(np.abs(spectrum) ** 2 + 1e-9), 1e-5))
        assert np.abs(mel[frame] - expected).max() < 1e-5


def test_log_mel_does_not_depend_on_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    clip, filters = speech_like(20_000, seed=2), mel_filters(40)
    whole = log_mel(clip, filters)
    monkeypatch.setattr("rtts_engine.speaker._FRAMES_AT_ONCE", 7)
    assert np.array_equal(log_mel(clip, filters), whole)


def test_the_shortest_clip_has_five_mel_frames(encoder: SpeakerEncoder, models: Models) -> None:
    config = Checkpoint.open(models.checkpoint()).config.speaker_encoder
    assert config is not None
    assert minimum_frames(config) == 5
    assert encoder.minimum_samples == 1280
    assert np.isfinite(encoder.embed(speech_like(1280, seed=3))).all()
    with pytest.raises(AudioError, match=r"1279 samples .* too short, at least 1280 "):
        encoder.embed(speech_like(1279, seed=3))


def test_a_silent_clip_has_an_x_vector(encoder: SpeakerEncoder) -> None:
    assert np.isfinite(encoder.embed(np.zeros(24000, np.float32))).all()


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (np.zeros(0, np.float32), "too short"),
        (np.zeros((2, 24000), np.float32), "mono"),
        (np.zeros(24000, np.int16), "int16"),
        (np.where(np.arange(24000) == 12000, np.nan, 0.0), r"nan at 0\.500 s"),
        (np.zeros(24000 * (MAX_CLIP_SECONDS + 1), np.float32), "too long"),
    ],
)
def test_unfit_clips_are_refused(encoder: SpeakerEncoder, clip: np.ndarray, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        encoder.embed(clip)


def test_only_base_models_have_one(models: Models, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Base model"):
        write_speaker_encoder(Checkpoint.open(models.checkpoint("tiny", "custom_voice")), tmp_path / "s")
