"""``rtts clone`` and ``--voice``: a clip becomes a voice file that speaks; anything else is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtts.audio import read_audio
from rtts.cli import main
from rtts.errors import VoiceError
from rtts.speech import Speech, manner
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import convert
from rtts_engine.model import Model
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.tensors import write_safetensors
from rtts_engine.voice import Voice
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.5 s that are at least no silence: a buzz with a moving formant, stereo at 44.1 kHz."""
    t = np.arange(66_150) / 44_100
    buzz = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 30))
    sound = 0.1 * buzz * (1 + 0.5 * np.sin(2 * np.pi * 3 * t))
    path = tmp_path_factory.mktemp("clip") / "me.wav"
    soundfile.write(path, np.stack([sound, 0.5 * sound], axis=1), 44_100)
    return path


@pytest.fixture(scope="module")
def voice(clip: Path, base_model: Path) -> Path:
    path = clip.with_name("me.safetensors")
    command = ["clone", str(clip), "--text", "what I say", "--model", str(base_model), "-o", str(path)]
    assert main(command) == 0
    return path


def test_a_transcript_adds_the_reference_codes(
    clip: Path, base_model: Path, voice: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.safetensors"
    assert main(["clone", str(clip), "--model", str(base_model), "-o", str(plain)]) == 0
    alone, full = Voice.load(plain).prompt, Voice.load(voice).prompt
    assert alone.ref_codes is None
    assert full.ref_codes is not None
    assert full.ref_codes.shape == (19, 16)  # 1.5 s at 12.5 frames a second
    assert full.ref_text == "what I say"
    assert Voice.load(voice).name == "me"
    np.testing.assert_array_equal(alone.x_vector, full.x_vector)


def test_a_saved_voice_speaks(voice: Path, base_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    command = [
        "say",
        "Hello.",
        "--model",
        str(base_model),
        "--voice",
        str(voice),
        "-o",
        str(path),
        "--max-frames",
        "3",
    ]
    assert main(command) == 0
    assert soundfile.info(path).frames == 3 * 1920


def test_an_icl_voice_is_decoded_behind_its_clip(voice: Path, base_model: Path) -> None:
    model = Model.load(base_model)
    request = SpeechRequest("Hello.", manner(voice), Settings(seed=1, max_frames=4))
    speech = Speech(model, request)
    found = np.concatenate(list(speech))
    state = model.codec_state(request.manner.voice)
    np.testing.assert_allclose(found, model.codec.decode(state, speech.codes), atol=1e-4)
    cold = model.codec.decode(model.codec.init_state(), speech.codes)
    assert np.abs(found - cold).max() > 1e-3


def test_a_model_without_encoders_cannot_clone(
    clip: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["clone", str(clip), "-o", str(tmp_path / "v.safetensors")]) == 2
    err = capfd.readouterr().err
    assert err.endswith("custom_voice model and cannot clone; use a Base model\n")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_empty_transcript_is_no_transcript(
    clip: Path, base_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "v.safetensors"
    command = ["clone", str(clip), "--text", " \n", "--model", str(base_model), "-o", str(target)]
    assert main(command) == 2
    assert (
        capfd.readouterr().err == "rtts: the transcript is empty; give what the clip says, or leave it out\n"
    )
    assert not target.exists()


def test_a_codec_without_encoder_clones_without_a_transcript_only(clip: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", preset="tiny", kind="base")
    codec = Checkpoint.open(checkpoint).codec
    kept = {name: codec.get(name, codec.extent(name)[0]) for name in codec if name.startswith("decoder.")}
    write_safetensors(tmp_path / "codec", kept, {})
    del codec, kept  # Windows replaces no file that is mapped
    (tmp_path / "codec").replace(checkpoint / "speech_tokenizer" / "model.safetensors")
    model = Model.load(convert(checkpoint, tmp_path / "model"))
    samples = read_audio(clip)
    assert model.clone(samples).prompt.ref_codes is None
    with pytest.raises(VoiceError, match="clones without a transcript only"):
        model.clone(samples, "what I say")


def test_a_base_model_wants_a_voice(
    base_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["say", "Hi.", "--model", str(base_model), "-o", str(tmp_path / "a.wav")]) == 2
    assert "a base model needs a cloned voice" in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["empty", "one sample", "nan", "silence", "long", "8-bit"])
def test_odd_clips(kind: str, base_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    samples = {
        "empty": np.zeros(0),
        "one sample": np.full(1, 0.5),
        "nan": np.full(24_000, np.nan),
        "silence": np.zeros(24_000),
        "long": np.zeros(8_000 * 3600 * 3, np.float32),
        "8-bit": 0.3 * np.sin(np.arange(8_000)),
    }[kind]
    subtype = {"nan": "FLOAT", "long": "PCM_U8", "8-bit": "PCM_U8"}.get(kind, "PCM_16")
    soundfile.write(tmp_path / "clip.wav", samples, 8_000, subtype=subtype)
    target = tmp_path / "v.safetensors"
    status = main(["clone", str(tmp_path / "clip.wav"), "--model", str(base_model), "-o", str(target)])
    err = capfd.readouterr().err
    if status == 0:
        assert kind in ("silence", "8-bit")
        assert np.isfinite(Voice.load(target).prompt.x_vector).all()
    else:
        assert kind != "8-bit"
        assert status == 1
        assert err.startswith("rtts: ")
        assert "unexpected" not in err
        assert err.count("\n") == 1
        assert not target.exists()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_voice_files_give_a_voice_or_one_error(
    voice: Path, tmp_path: Path, data: st.DataObject
) -> None:
    damaged = bytearray(voice.read_bytes())
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(0, min(len(damaged), 500) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    try:
        Voice.load(path)
    except VoiceError as error:
        assert str(path) in str(error)
