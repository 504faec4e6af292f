"""Saved voices survive a round trip; damaged or foreign files are one clear error."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from rtts_engine.errors import VoiceError
from rtts_engine.prompt import CloneVoice
from rtts_engine.voice import Voice, voice_key

X = np.arange(8, dtype=np.float32)
CODES = np.arange(48, dtype=np.int32).reshape(3, 16)


def test_round_trip(tmp_path: Path) -> None:
    voice = Voice("me", CloneVoice(X, CODES, "what I say 你好"), "abc", "key")
    voice.save(tmp_path / "me.safetensors")
    loaded = Voice.load(tmp_path / "me.safetensors")
    np.testing.assert_array_equal(loaded.prompt.x_vector, X)
    assert loaded.prompt.ref_codes is not None
    np.testing.assert_array_equal(loaded.prompt.ref_codes, CODES)
    assert loaded.prompt.ref_text == "what I say 你好"
    assert (loaded.name, loaded.source_sha256, loaded.key) == ("me", "abc", "key")
    assert [p.name for p in tmp_path.iterdir()] == ["me.safetensors"]


def test_x_vector_only(tmp_path: Path) -> None:
    Voice("me", CloneVoice(X), "abc", "key").save(tmp_path / "me.safetensors")
    loaded = Voice.load(tmp_path / "me.safetensors").prompt
    assert loaded.ref_codes is None
    assert loaded.ref_text is None


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_saved_voice_has_the_permissions_of_any_other_file(tmp_path: Path) -> None:
    """A service that runs as another user must be able to read it."""
    (tmp_path / "other").touch()
    Voice("me", CloneVoice(X), "abc", "key").save(tmp_path / "me.safetensors")
    assert (tmp_path / "me.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="cannot be written"):
        Voice("me", CloneVoice(X), "", "").save(tmp_path / "no" / "me.safetensors")


def test_no_such_file_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(VoiceError, match="no such voice file"):
        Voice.load(tmp_path / "none.safetensors")
    save_file({"x_vector": X}, tmp_path / "foreign.safetensors")
    with pytest.raises(VoiceError, match="not a voice of this project"):
        Voice.load(tmp_path / "foreign.safetensors")
    save_file({"other": X}, tmp_path / "empty.safetensors", {"format": "rtts-voice-1"})
    with pytest.raises(VoiceError, match="damaged"):
        Voice.load(tmp_path / "empty.safetensors")
    save_file({"x_vector": X.astype(np.float64)}, tmp_path / "wide.safetensors", {"format": "rtts-voice-1"})
    with pytest.raises(VoiceError, match="unexpected dtypes"):
        Voice.load(tmp_path / "wide.safetensors")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E8M0", "BF16", "BOOL"])
def test_dtypes_that_numpy_may_lack(tmp_path: Path, dtype: str) -> None:
    size = 16 if dtype == "BF16" else 8
    header = {
        "__metadata__": {"format": "rtts-voice-1"},
        "x_vector": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (tmp_path / "v.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))
    with pytest.raises(VoiceError, match="damaged voice file"):
        Voice.load(tmp_path / "v.safetensors")


def test_a_failed_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(VoiceError, match="no UTF-8 form"):
        Voice("\ud800", CloneVoice(X), "", "").save(tmp_path / "v.safetensors")
    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Voice("me", CloneVoice(X), "", "").save(tmp_path / "v.safetensors")
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 500), value=st.integers(0, 255), cut=st.integers(0, 600))
def test_damage_never_escapes(tmp_path: Path, position: int, value: int, cut: int) -> None:
    path = tmp_path / "v.safetensors"
    Voice("me", CloneVoice(X, CODES, "hi"), "abc", "key").save(path)
    data = bytearray(path.read_bytes())
    data[position % len(data)] = value
    path.write_bytes(data[: max(1, len(data) - cut)])
    try:
        Voice.load(path)
    except VoiceError as error:
        assert "\n" not in str(error)


def test_key_depends_on_clip_transcript_and_model() -> None:
    keys = {
        voice_key(X, None, "a"),
        voice_key(X, "text", "a"),
        voice_key(X, None, "b"),
        voice_key(X + 1, None, "a"),
    }
    assert len(keys) == 4
    assert voice_key(X.copy(), None, "a") in keys
