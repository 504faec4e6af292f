"""Files of every common kind become mono float32 at 24 kHz, or one clear error."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtts.audio import SAMPLE_RATE_HZ, Audio, WavStream, read_audio, to_pcm16
from rtts.errors import AudioError


def tone(rate_hz: int, seconds: float = 0.5, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(rate_hz * seconds)) / rate_hz)).astype(
        np.float32
    )


def snr_db(reference: np.ndarray, found: np.ndarray) -> float:
    noise = found - reference
    return float(10 * np.log10(np.sum(reference**2) / max(float(np.sum(noise**2)), 1e-20)))


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000])
@pytest.mark.parametrize(
    ("subtype", "least_db"), [("PCM_U8", 35), ("PCM_16", 70), ("PCM_24", 80), ("FLOAT", 80), ("DOUBLE", 80)]
)
def test_a_tone_survives_any_rate_and_width(
    tmp_path: Path, rate_hz: int, subtype: str, least_db: float
) -> None:
    soundfile.write(tmp_path / "a.wav", tone(rate_hz), rate_hz, subtype=subtype)
    samples = read_audio(tmp_path / "a.wav")
    assert samples.dtype == np.float32
    assert abs(len(samples) - 12_000) <= 1
    middle = slice(2000, 10_000)  # away from the filter's edges
    assert snr_db(tone(SAMPLE_RATE_HZ)[middle], samples[middle]) > least_db


@pytest.mark.parametrize(
    ("name", "options"), [("a.flac", {}), ("a.ogg", {"subtype": "VORBIS"}), ("a.aiff", {})]
)
def test_other_containers_are_read(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    soundfile.write(tmp_path / name, tone(24_000), 24_000, **options)
    assert snr_db(tone(24_000)[2000:10_000], read_audio(tmp_path / name)[2000:10_000]) > 20


def test_channels_are_averaged(tmp_path: Path) -> None:
    stereo = np.stack([tone(24_000), np.zeros(12_000, np.float32)], axis=1)
    soundfile.write(tmp_path / "a.wav", stereo, 24_000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav"), tone(24_000) / 2, atol=1e-7)


def test_a_long_file_is_resampled_as_in_one_pass(tmp_path: Path) -> None:
    """Blocks must not leave seams: 30 s at 48 kHz are six of them."""
    soundfile.write(tmp_path / "a.wav", tone(48_000, 30.0), 48_000, subtype="FLOAT")
    samples = read_audio(tmp_path / "a.wav")
    assert snr_db(tone(24_000, 30.0)[2000:-2000], samples[2000:-2000]) > 80


def test_one_sample(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([0.25], np.float32), 24_000, subtype="FLOAT")
    assert read_audio(tmp_path / "a.wav").tolist() == [0.25]


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 96_000])
def test_no_samples(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(0, np.float32), rate_hz)
    with pytest.raises(AudioError, match=r"a\.wav: holds no samples"):
        read_audio(tmp_path / "a.wav")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_numbers(tmp_path: Path, value: float) -> None:
    samples = tone(24_000)
    samples[7000] = value
    soundfile.write(tmp_path / "a.wav", samples, 24_000, subtype="FLOAT")
    with pytest.raises(AudioError, match="not numbers"):
        read_audio(tmp_path / "a.wav")


def test_three_hours_are_refused_unread_or_read_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8_000)
        for _ in range(180):
            file.writeframesraw(b"\x80" * 8_000 * 60)
    with pytest.raises(AudioError, match="10800 s long, at most 60 s"):
        read_audio(path, max_seconds=60)
    assert len(read_audio(path, max_seconds=4 * 3600)) == 3 * 3600 * SAMPLE_RATE_HZ


def test_missing_folder_and_text_files(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not sound at all, just words" * 20)
    (tmp_path / "none.wav").write_bytes(b"")
    for name, words in [
        ("gone.wav", "no such file"),
        ("", "not a file"),
        ("text.wav", "not a readable sound file"),
        ("none.wav", "not a readable sound file"),
        ("a\0b.wav", "cannot be read|no such file"),
    ]:
        with pytest.raises(AudioError, match=words) as caught:
            read_audio(tmp_path / name)
        assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_give_sound_or_one_error(tmp_path: Path, data: st.DataObject) -> None:
    buffer = io.BytesIO()
    kind = data.draw(st.sampled_from(["WAV", "FLAC", "OGG"]))
    soundfile.write(buffer, tone(16_000, 0.05), 16_000, format=kind)
    damaged = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    path = tmp_path / "damaged.bin"
    path.write_bytes(bytes(damaged[:cut]))
    try:
        samples = read_audio(path, max_seconds=60)
    except AudioError as error:
        assert str(path) in str(error)
    else:
        assert samples.ndim == 1
        assert np.isfinite(samples).all()


@pytest.mark.parametrize("name", ["a.wav", "a.WAV", "a.flac"])
def test_written_audio_reads_back(tmp_path: Path, name: str) -> None:
    audio = Audio(tone(24_000))
    assert audio.duration_s == pytest.approx(0.5)
    assert audio.write(tmp_path / name) == tmp_path / name
    np.testing.assert_allclose(read_audio(tmp_path / name), audio.samples, atol=1 / 32767)
    assert soundfile.info(tmp_path / name).subtype == "PCM_16"


def test_ogg_is_written(tmp_path: Path) -> None:
    Audio(tone(24_000)).write(tmp_path / "a.ogg")
    assert soundfile.info(tmp_path / "a.ogg").subtype == "VORBIS"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    Audio(tone(24_000)).write(path)
    before = path.read_bytes()

    def full(target: Path, data: bytes) -> int:
        with target.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(AudioError, match=r"cannot be written \(No space left on device\)"):
        Audio(tone(24_000)).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_targets(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="unknown sound format"):
        Audio(tone(24_000)).write(tmp_path / "a.xyz")
    with pytest.raises(AudioError, match="cannot be written"):
        Audio(tone(24_000)).write(tmp_path / "no" / "folder" / "a.wav")
    (tmp_path / "d.wav").mkdir()
    with pytest.raises(AudioError, match="cannot be written"):
        Audio(tone(24_000)).write(tmp_path / "d.wav")
    assert [p.name for p in tmp_path.iterdir()] == ["d.wav"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_a_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    Audio(tone(24_000)).write(tmp_path / "a.wav")
    (tmp_path / "plain").touch()
    assert stat.S_IMODE((tmp_path / "a.wav").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )


def test_pcm16_clips_and_rounds() -> None:
    samples = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.4 / 32767, 0.6 / 32767], np.float32)
    assert to_pcm16(samples).tolist() == [0, 32767, -32767, 32767, -32767, 0, 1]


def test_a_growing_wav_is_valid_after_every_write(tmp_path: Path) -> None:
    path = tmp_path / "grow.wav"
    samples = tone(24_000)
    with path.open("w+b") as file:
        stream = WavStream(file)
        for end in (1000, 1001, 12_000):
            stream.write(samples[len(read_frames(path)) : end])
            np.testing.assert_array_equal(read_frames(path), to_pcm16(samples[:end]))


def read_frames(path: Path) -> np.ndarray:
    if path.stat().st_size <= 44:
        return np.zeros(0, np.int16)
    with wave.open(str(path), "rb") as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_minutes_of_ogg_do_not_crash_the_encoder(tmp_path: Path) -> None:
    """Two minutes in one write overflow the stack inside libvorbis: a process of its own, so that it may."""
    path = tmp_path / "a.ogg"
    code = f"import numpy, rtts; rtts.Audio(numpy.full(150 * 24000, 0.1, 'f4')).write({str(path)!r})"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
    assert soundfile.info(path).frames == 150 * 24_000


@pytest.mark.parametrize(
    ("audio", "name", "words"),
    [
        (Audio(np.array([0.1, np.nan], np.float32)), "a.wav", "finite"),
        (Audio(np.array([np.inf], np.float32)), "a.ogg", "finite"),
        (Audio(np.zeros((4, 2), np.float32)), "a.wav", r"\(n,\)"),
        (Audio(np.zeros(4, np.float32), 0), "a.flac", "at 0 Hz cannot be made"),
        (Audio(np.zeros(4, np.float32)), "a\0.wav", "null"),
    ],
)
def test_sound_that_is_no_sound_is_not_written(tmp_path: Path, audio: Audio, name: str, words: str) -> None:
    with pytest.raises(AudioError, match=words):
        audio.write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.raw", "a.RAW"])
def test_headerless_samples_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\0" * 4000)
    with pytest.raises(AudioError, match="raw samples without a header"):
        read_audio(tmp_path / name)


def test_memory_does_not_grow_with_channels(tmp_path: Path) -> None:
    samples = np.repeat(tone(8_000, 1.0)[:, None], 600, axis=1)
    soundfile.write(tmp_path / "a.wav", samples, 8_000, subtype="FLOAT")
    soundfile.write(tmp_path / "b.wav", samples[:, 0], 8_000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav"), read_audio(tmp_path / "b.wav"), atol=1e-5)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_only_a_regular_file_is_replaced(tmp_path: Path) -> None:
    """As root a rename would put a sound file where a device was."""
    os.mkfifo(tmp_path / "a.wav")
    (tmp_path / "b.wav").mkdir()
    (tmp_path / "c.wav").symlink_to("a.wav")
    for name in ("a.wav", "b.wav", "c.wav"):
        with pytest.raises(AudioError, match="Not a regular file"):
            Audio(tone(24_000)).write(tmp_path / name)
    assert (tmp_path / "a.wav").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav", "b.wav", "c.wav"]
