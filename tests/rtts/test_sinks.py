"""Where samples go: they arrive whole, and a failure leaves nothing behind."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from rtts import local
from rtts.audio import to_pcm16
from rtts.cli import main, sinks
from rtts.errors import AudioError, DeviceError

CHUNKS = [np.full(480, level, np.float32) for level in (0.1, -0.2, 0.3)]


class PortAudioError(Exception):
    pass


class CallbackAbort(Exception):  # noqa: N818 - its name
    pass


class Output:
    """A sound device that remembers what it pulled; it is a hundred times faster than time."""

    samplerate = 24_000.0
    latency = 0.0

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.played: list[np.ndarray] = []
        self.calls: list[str] = []
        self.refuses: Exception | None = None
        self.lives = threading.Event()

    def start(self) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.calls.append("start")
        self.lives.set()
        threading.Thread(target=self._run, daemon=True).start()

    def disappear(self) -> None:
        self.lives.clear()
        self.options["finished_callback"]()

    def close(self, ignore_errors: bool) -> None:
        self.lives.clear()
        self.calls.append("close")

    def _run(self) -> None:
        times, status = (
            SimpleNamespace(outputBufferDacTime=0, currentTime=0),
            SimpleNamespace(output_underflow=0),
        )
        while self.lives.is_set():
            block = np.zeros((480, 1), np.int16)
            self.options["callback"](block, 480, times, status)
            self.played.append(block[:, 0])
            time.sleep(0.0002)

    def heard(self) -> np.ndarray:
        """What was played, without silence: this device is faster than any speech."""
        sound = np.concatenate(self.played)
        return sound[sound != 0]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    device = Output()
    module = SimpleNamespace(
        OutputStream=lambda **options: (device.options.update(options), device)[1],
        PortAudioError=PortAudioError,
        CallbackAbort=CallbackAbort,
        query_devices=lambda *_, **__: {"name": "fake", "default_samplerate": 24_000.0},
    )
    monkeypatch.setattr(local, "load_sounddevice", lambda: module)
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
    assert [output.options[name] for name in ("samplerate", "channels", "dtype")] == [24_000, 1, "int16"]
    np.testing.assert_array_equal(output.heard(), to_pcm16(np.concatenate(CHUNKS)))
    assert output.calls == ["start", "close"]


def test_speech_is_played_while_it_is_generated(output: Output) -> None:
    with sinks.device() as write:
        write(CHUNKS[0])
        wait_s = time.monotonic() + 10
        while not any(block.any() for block in output.played) and time.monotonic() < wait_s:
            time.sleep(0.001)
        assert len(output.heard())


def test_an_interrupted_player_is_closed_without_waiting(output: Output) -> None:
    def speak() -> None:
        with sinks.device() as write:
            write(np.full(24_000 * 300, 0.1, np.float32))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speak()
    assert output.calls == ["start", "close"]


@pytest.mark.parametrize("while_", ["speaking", "waiting"])
def test_a_device_that_disappears(output: Output, while_: str) -> None:
    def speak() -> None:
        with sinks.device() as write:
            write(np.full(24_000 * 300, 0.1, np.float32))
            output.disappear()
            if while_ == "speaking":
                write(CHUNKS[0])

    with pytest.raises(DeviceError, match="the sound device stopped"):
        speak()
    assert output.calls[-1] == "close"


def test_a_device_that_refuses(output: Output) -> None:
    output.refuses = PortAudioError("Device unavailable", -9985)
    with pytest.raises(DeviceError, match="Device unavailable"), sinks.device():
        pass
    assert output.calls == ["close"]


def test_say_plays_by_default_and_writes_too_when_asked(output: Output, tmp_path: Path) -> None:
    short = ["--max-frames", "3", "--seed", "1"]
    path = tmp_path / "a.wav"
    assert main(["say", "Hi.", *short]) == 0
    alone = output.heard()
    output.played.clear()
    assert main(["say", "Hi.", "-o", str(path), *short]) == 0
    assert output.played == []
    assert main(["say", "Hi.", "-o", str(path), "--play", "--chunk-frames", "1", *short]) == 0
    written, _ = soundfile.read(path, dtype="int16")
    assert len(written) == 3 * 1920
    np.testing.assert_array_equal(output.heard(), written[written != 0])
    np.testing.assert_array_equal(alone, written[written != 0])


def test_without_the_library_nothing_can_be_played(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DeviceError("playing needs the PortAudio library; install it")

    monkeypatch.setattr(local, "load_sounddevice", refuse)
    assert sinks.missing_device() == "playing needs the PortAudio library; install it"
