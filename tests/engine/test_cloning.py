"""Cloning through a loaded model: equal to the official goldens, kept by content, refused with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtts_engine import cloning
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import convert
from rtts_engine.errors import AudioError, TextError, VoiceError
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings, SpeechRequest
from tests import goldens
from tests.checkpoints import damage, write_checkpoint

from .conftest import Models


@pytest.mark.parametrize("name", [name for name in goldens.NAMES if name.endswith("-base")])
def test_equal_to_the_official_package(name: str, tmp_path: Path) -> None:
    golden = goldens.load(name)
    assert golden.xvector is not None
    model = Model.load(convert(golden.write_checkpoint(tmp_path / "checkpoint"), tmp_path / "model"))
    voice = model.clone(goldens.reference_clip(), "one two three four", "me")
    cosine = voice.prompt.x_vector @ golden.xvector
    cosine /= np.linalg.norm(voice.prompt.x_vector) * np.linalg.norm(golden.xvector)
    assert cosine >= 0.999999
    np.testing.assert_array_equal(voice.prompt.ref_codes, golden.ref_codes)
    assert (voice.name, voice.prompt.ref_text) == ("me", "one two three four")


def test_a_cloned_voice_speaks(models: Models) -> None:
    model = models.get()
    for transcript in (None, "one two three four"):
        voice = model.clone(goldens.reference_clip(), transcript)
        request = SpeechRequest("hello", Manner(voice=voice.prompt), Settings(seed=1, max_frames=4))
        codes = np.array(list(model.frames(request)))
        samples = model.codec.decode(model.codec_state(voice.prompt), codes)
        assert samples.shape == (1920 * len(codes),)


def test_the_same_clip_is_encoded_once(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.get()
    clip = goldens.reference_clip()[:30_000]
    first = model.clone(clip, None, "a")
    calls: list[Any] = []
    monkeypatch.setattr(cloning.SpeakerEncoder, "embed", lambda *args: calls.append(args))
    again = model.clone(clip.copy(), None, "b")
    assert calls == []
    assert again.prompt is first.prompt
    assert (first.name, again.name) == ("a", "b")
    assert model.clone(clip[:-1], None).prompt is not first.prompt
    assert len(calls) == 1


def test_the_oldest_voice_is_let_go(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloning, "MAX_KEPT", 2)
    model = models.get()
    clips = [goldens.reference_clip()[: 20_000 + n] for n in range(3)]
    first, second, third = (model.clone(clip, None).prompt for clip in clips)
    assert model.clone(clips[2], None).prompt is third
    assert model.clone(clips[1], None).prompt is second
    assert model.clone(clips[0], None).prompt is not first


def test_refusals(models: Models, tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="custom_voice model and cannot clone; use a Base model"):
        models.get("tiny", "custom_voice").clone(goldens.reference_clip())
    model = models.get()
    with pytest.raises(VoiceError, match="the transcript is empty"):
        model.clone(goldens.reference_clip(), "  ")
    with pytest.raises(AudioError, match="too short"):
        model.clone(np.zeros(10, np.float32))
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    for name in [n for n in Checkpoint.open(checkpoint).codec if n.startswith("encoder.")]:
        damage.drop_tensor(checkpoint, name, damage.CODEC)
    without = Model.load(convert(checkpoint, tmp_path / "model"))
    assert without.clone(goldens.reference_clip()).prompt.ref_codes is None
    with pytest.raises(VoiceError, match="without a transcript only"):
        without.clone(goldens.reference_clip(), "one two")


def test_a_kept_voice_hides_no_refusal(models: Models) -> None:
    """The hash takes more for equal than a clone does: nothing for no transcript, numbers of any type for floats."""
    model, clip = models.get(), goldens.reference_clip()[:30_000]
    model.clone(clip, None)
    with pytest.raises(VoiceError, match="the transcript is empty"):
        model.clone(clip, "")
    whole = np.round(clip * 100)
    model.clone(whole)
    with pytest.raises(AudioError, match="expected mono float samples"):
        model.clone(whole.astype(np.int32))
    with pytest.raises(AudioError, match="expected mono float samples"):
        model.clone("clip.wav")  # type: ignore[arg-type]
    with pytest.raises(TextError, match="lone surrogate"):
        model.clone(clip, "\ud800")
    with pytest.raises(TextError, match="text is int"):
        model.clone(clip, 5)  # type: ignore[arg-type]
