"""Where the samples of ``rtts say`` go. A sink is used in a ``with`` block and undoes itself when that fails."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts.audio import SAMPLE_RATE_HZ, Audio, WavStream, to_pcm16
from rtts.errors import AudioError, DeviceError
from rtts.stream.events import PcmChunk
from rtts.stream.playback import PlaybackBuffer
from rtts_engine.files import check_target, reason

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
    """A WAV file that a player may follow while it grows; removed when speaking fails or is interrupted.

    It is opened for the first chunk: what fails earlier leaves an older file of that name alone.
    """
    stream: WavStream | None = None
    try:
        with contextlib.ExitStack() as stack:

            def write(samples: F32) -> None:
                nonlocal stream
                if stream is None:
                    check_target(path)
                    stream = WavStream(stack.enter_context(path.open("w+b")))
                stream.write(samples)

            yield write
            write(np.zeros(0, np.float32))  # speech of no frames is an empty file
    except OSError as error:
        if stream is not None:
            path.unlink(missing_ok=True)
        raise AudioError(f"{path}: cannot be written ({reason(error)})") from None
    except BaseException:
        if stream is not None:
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
    """The default sound device; leaving the block waits until everything was heard.

    The device's own thread plays, so that speech is generated while it is heard.
    """
    from rtts.local import Speaker  # needs the `local` extra

    buffer = PlaybackBuffer()
    speaker = Speaker(buffer)
    made = 0

    def require_device() -> None:
        if (error := speaker.error) is not None:
            raise error

    def write(samples: F32) -> None:
        nonlocal made
        require_device()
        buffer.push(PcmChunk(to_pcm16(samples), (0, 0), made / SAMPLE_RATE_HZ, 0))
        made += len(samples)

    try:
        speaker.start()
        yield write
        buffer.finish()
        while not buffer.idle:
            require_device()
            time.sleep(min(0.2, max(0.01, buffer.buffered_s)))
        time.sleep(buffer.latency_s)
    finally:
        speaker.close()


def missing_device() -> str | None:
    """Why nothing can be played here, and what to do; None where there is a default output device."""
    from rtts.local import load_sounddevice

    try:
        sounddevice = load_sounddevice()
        sounddevice.query_devices(kind="output")
    except DeviceError as error:
        return str(error)
    except (sounddevice.PortAudioError, ValueError):
        return "there is no sound device here; connect one"
    return None
