"""Where the samples of ``rtts say`` go. A sink is used in a ``with`` block and undoes itself when that fails."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rtts.audio import SAMPLE_RATE_HZ, Audio, WavStream, to_pcm16
from rtts.errors import AudioError, DeviceError
from rtts_engine.files import reason

F32 = npt.NDArray[np.float32]
Write = Callable[[F32], object]
Sink = AbstractContextManager[Write]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Write]:
    """A sound file that appears when everything has been spoken."""
    parts: list[F32] = [np.zeros(0, np.float32)]
    yield parts.append
    Audio(np.concatenate(parts)).write(path)


@contextlib.contextmanager
def growing_file(path: Path) -> Iterator[Write]:
    """A WAV file that a player may follow while it grows; removed when speaking fails or is interrupted."""
    try:
        file = path.open("w+b")
    except OSError as error:
        raise AudioError(f"{path}: cannot be written ({reason(error)})") from None
    try:
        with file:
            stream = WavStream(file)
            yield stream.write
    except OSError as error:
        path.unlink(missing_ok=True)
        raise AudioError(f"{path}: cannot be written ({reason(error)})") from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def raw_stdout() -> Iterator[Write]:
    """Headerless 24 kHz mono signed 16-bit little-endian samples on standard output."""

    def write(samples: F32) -> None:
        sys.stdout.buffer.write(to_pcm16(samples).astype("<i2").tobytes())
        sys.stdout.buffer.flush()

    yield write


@contextlib.contextmanager
def device() -> Iterator[Write]:
    """The default sound device; leaving the block waits until everything was heard."""
    sounddevice = load_sounddevice()
    try:
        output = sounddevice.OutputStream(samplerate=SAMPLE_RATE_HZ, channels=1, dtype="int16")
        output.start()
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"no sound device to play on ({error.args[0]}); write a file with -o") from None
    try:
        yield lambda samples: output.write(to_pcm16(samples))
        output.stop()
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"the sound device stopped ({error.args[0]}); write a file with -o") from None
    finally:
        output.close(ignore_errors=True)


def has_device() -> bool:
    """Whether there is a default output device."""
    try:
        sounddevice = load_sounddevice()
        sounddevice.query_devices(kind="output")
    except DeviceError:
        return False
    except (sounddevice.PortAudioError, ValueError):
        return False
    return True


def load_sounddevice() -> Any:
    """The sounddevice module.

    Raises:
        DeviceError: it or the PortAudio library is not installed.
    """
    try:
        return importlib.import_module("sounddevice")
    except ImportError:
        raise DeviceError("playing needs the package sounddevice; run pip install 'rtts[local]'") from None
    except OSError:
        raise DeviceError(
            "playing needs the PortAudio library; install it (Debian, Ubuntu: apt install libportaudio2)"
        ) from None
