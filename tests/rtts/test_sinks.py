"""Where samples go: they arrive whole, and a failure leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from rtts.audio import to_pcm16
from rtts.cli import main, sinks
from rtts.errors import AudioError, DeviceError

CHUNKS = [np.full(480, level, np.float32) for level in (0.1, -0.2, 0.3)]


class PortAudioError(Exception):
    pass


class Output:
    """A sound device that remembers."""

    def __init__(self, **options: object) -> None:
        self.options = options
        self.played: list[np.ndarray] = []
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def write(self, samples: np.ndarray) -> None:
        self.played.append(samples)

    def stop(self) -> None:
        self.calls.append("stop")

    def close(self, ignore_errors: bool) -> None:
        self.calls.append("close")


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    device = Output()
    module = SimpleNamespace(
        OutputStream=lambda **options: (device.options.update(options), device)[1],
        PortAudioError=PortAudioError,
        query_devices=lambda kind: {"name": "fake"},
    )
    monkeypatch.setattr(sinks, "load_sounddevice", lambda: module)
    return device


@pytest.mark.parametrize("sink", [sinks.whole_file, sinks.growing_file])
def test_files_hold_every_sample(sink: Any, tmp_path: Path) -> None:
    with sink(tmp_path / "a.wav") as write:
        for chunk in CHUNKS:
            write(chunk)
    found, rate_hz = soundfile.read(tmp_path / "a.wav", dtype="int16")
    assert rate_hz == 24_000
    np.testing.assert_array_equal(found, to_pcm16(np.concatenate(CHUNKS)))


@pytest.mark.parametrize("sink", [sinks.whole_file, sinks.growing_file])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_no_file(sink: Any, error: type[BaseException], tmp_path: Path) -> None:
    def speak() -> None:
        with sink(tmp_path / "a.wav") as write:
            write(CHUNKS[0])
            raise error

    with pytest.raises(error):
        speak()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_growing(tmp_path: Path) -> None:
    def speak() -> None:
        with sinks.growing_file(tmp_path / "a.wav"):
            raise OSError(28, "No space left on device")

    with pytest.raises(AudioError, match="No space left on device"):
        speak()
    assert list(tmp_path.iterdir()) == []


def test_a_growing_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(AudioError, match="cannot be written"), sinks.growing_file(tmp_path / "a.wav"):
        pass


def test_playing(output: Output) -> None:
    with sinks.device() as write:
        for chunk in CHUNKS:
            write(chunk)
    assert output.options == {"samplerate": 24_000, "channels": 1, "dtype": "int16"}
    np.testing.assert_array_equal(np.concatenate(output.played), to_pcm16(np.concatenate(CHUNKS)))
    assert output.calls == ["start", "stop", "close"]  # stop waits until everything was heard


def test_an_interrupted_player_is_closed_without_waiting(output: Output) -> None:
    def speak() -> None:
        with sinks.device():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speak()
    assert output.calls == ["start", "close"]


def test_a_device_that_disappears(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(samples: np.ndarray) -> None:
        raise PortAudioError("Device unavailable")

    monkeypatch.setattr(output, "write", gone)
    with pytest.raises(DeviceError, match=r"Device unavailable.*-o"), sinks.device() as write:
        write(CHUNKS[0])
    assert output.calls[-1] == "close"


def test_say_plays_by_default_and_writes_too_when_asked(output: Output, tmp_path: Path) -> None:
    short = ["--max-frames", "2", "--seed", "1"]
    assert main(["say", "Hi.", *short]) == 0
    assert sum(map(len, output.played)) == 2 * 1920
    output.played.clear()
    assert main(["say", "Hi.", "-o", str(tmp_path / "a.wav"), *short]) == 0
    assert output.played == []
    assert main(["say", "Hi.", "-o", str(tmp_path / "a.wav"), "--play", *short]) == 0
    assert sum(map(len, output.played)) == soundfile.info(tmp_path / "a.wav").frames


@pytest.mark.parametrize(
    ("failure", "words"),
    [(ImportError(), "pip install"), (OSError("PortAudio library not found"), "libportaudio2")],
)
def test_missing_libraries_are_named(failure: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise failure

    monkeypatch.setattr(sinks.importlib, "import_module", refuse)
    with pytest.raises(DeviceError, match=words):
        sinks.load_sounddevice()
    assert not sinks.has_device()
