"""A session on a sound device of this machine: ``async with rtts.local.Player(session) as player: ...``."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from rtts.errors import DeviceError, StreamError
from rtts.stream.outlet import Outlet
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.pump import Pump
from rtts.stream.session import Session, check_session
from rtts_engine.config import SAMPLE_RATE_HZ

I16 = npt.NDArray[np.int16]

log = logging.getLogger(__name__)

LATENCY_S = 0.05
"""Sound that the device is asked to hold: a Python callback may come late by tens of milliseconds under load."""
_PORTAUDIO = {
    "darwin": "brew install portaudio",
    "win32": "pip install --force-reinstall sounddevice, which brings it along",
}


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
        how = _PORTAUDIO.get(sys.platform, "Debian, Ubuntu: apt install libportaudio2")
        raise DeviceError(f"playing needs the PortAudio library; install it ({how})") from None


class Speaker:
    """A sound device that pulls a playback buffer, from PortAudio's own thread."""

    def __init__(
        self, buffer: PlaybackBuffer, device: int | str | None = None, *, latency_s: float = LATENCY_S
    ) -> None:
        """Opens the device; it plays from ``start`` on.

        Args:
            buffer: what to play.
            device: index or (part of the) name, as ``python -m sounddevice`` lists them; None is the default one.
            latency_s: sound that the device should hold; less reacts faster and runs dry earlier.

        Raises:
            DeviceError: there is no such device, or it refuses to play, or PortAudio is missing.
        """
        self._buffer = buffer
        self._sounddevice = load_sounddevice()
        self._device = device
        self._finished = threading.Event()
        self._stopping = False
        self._cause: BaseException | None = None
        self.underflows = 0
        """Times that the device itself ran dry: the callback came too late."""
        self._stream = self._open(latency_s)
        self.sample_rate_hz = int(self._stream.samplerate)
        """24 kHz, or the device's own rate where it refuses that."""
        self._outlet: Outlet | None = None
        if self.sample_rate_hz != SAMPLE_RATE_HZ:
            self._outlet = Outlet(buffer, self.sample_rate_hz)
        self._set_latency(float(self._stream.latency))

    @property
    def error(self) -> DeviceError | None:
        """Why the device stopped by itself; None while all is well."""
        if not self._finished.is_set() or self._stopping:
            return None
        why = f" ({self._cause})" if self._cause is not None else ""
        error = DeviceError(f"the sound device stopped{why}; is it still connected? open another one")
        error.__cause__ = self._cause
        return error

    def start(self) -> None:
        """Play, from where ``stop`` left off.

        Raises:
            DeviceError: the device refuses.
        """
        self._stopping = False
        self._finished.clear()
        self._call(self._stream.start)

    def stop(self) -> None:
        """Hold. Returns when what the device has already is played."""
        self._stopping = True
        self._call(self._stream.stop)

    def close(self) -> None:
        """Give the device back at once. Closing again has no effect."""
        self._stopping = True
        self._stream.close(ignore_errors=True)

    def _call(self, action: Callable[[], object]) -> None:
        try:
            action()
        except self._sounddevice.PortAudioError as error:
            raise DeviceError(f"the sound device refuses ({_words(error)}); choose another one") from None

    def _open(self, latency_s: float) -> Any:
        refusal: Exception | None = None
        for rate_hz, channels in self._formats():
            try:
                return self._sounddevice.OutputStream(
                    samplerate=rate_hz,
                    channels=channels,
                    dtype="int16",
                    device=self._device,
                    latency=latency_s,
                    callback=self._callback,
                    finished_callback=self._finished.set,
                )
            except (self._sounddevice.PortAudioError, ValueError) as error:
                refusal = refusal or error
        raise DeviceError(
            f"{self._name()} cannot be opened ({_words(refusal)}); choose another one"
        ) from None

    def _formats(self) -> list[tuple[int, int]]:
        """What to ask the device for, best first."""
        try:
            found = self._sounddevice.query_devices(self._device, kind="output")
        except (self._sounddevice.PortAudioError, ValueError) as error:
            raise DeviceError(self._absent(error)) from None
        own_hz = int(found["default_samplerate"])
        rates = [SAMPLE_RATE_HZ] if own_hz == SAMPLE_RATE_HZ else [SAMPLE_RATE_HZ, own_hz]
        return [(rate_hz, channels) for rate_hz in rates for channels in (1, 2)]

    def _name(self) -> str:
        return "the default sound device" if self._device is None else f"sound device {self._device!r}"

    def _absent(self, error: Exception) -> str:
        devices = [dict(device) for device in self._sounddevice.query_devices()]
        names = [str(device["name"]) for device in devices if device["max_output_channels"]]
        if not names:
            return "there is no sound device here; connect one, or write a file"
        if self._device is None:
            return f"no sound device is the default ({_words(error)}); name one of {', '.join(names)}"
        return f"there is no one sound device {self._device!r} to play on; there are {', '.join(names)}"

    def _set_latency(self, seconds: float) -> None:
        if self._outlet is not None:
            self._outlet.latency_s = seconds
        else:
            self._buffer.latency_s = seconds

    def _callback(self, out: I16, frames: int, time: Any, status: Any) -> None:
        """PortAudio's thread: allocates one small array and holds the buffer's lock for microseconds.

        A lock-free ring in front of it would gain nothing: measured with two sessions speaking, this waits 3 us for the
        lock at the median and 45 us at most, and for the interpreter (GIL) far longer.
        """
        try:
            if status.output_underflow:
                self.underflows += 1
            # Not before the first sample of this block is heard, the last one was not either.
            ahead_s = time.outputBufferDacTime - time.currentTime
            if ahead_s > 0:  # not every system tells
                self._set_latency(ahead_s + frames / self.sample_rate_hz)
            pull = self._buffer.pull if self._outlet is None else self._outlet.pull
            out[:] = pull(frames)[:, None]
        except BaseException as error:
            self._cause = error
            raise self._sounddevice.CallbackAbort from error


class Player:
    """Plays a session on a sound device: an async context manager, or ``start`` and ``close``.

    What is played follows the session: turn after turn, and silence between them. ``session.interrupt()`` fades out
    what the device does not hold yet, so that it is silent after ``latency_s``.

    A turn that fails is logged, is kept in ``error``, ends in ``Done("error")`` among the session's events and makes
    ``drained`` raise; the next turn can be spoken.
    """

    def __init__(
        self, session: Session, device: int | str | None = None, *, latency_s: float = LATENCY_S
    ) -> None:
        """
        Args:
            session: nobody else may iterate over it.
            device: index or (part of the) name, as ``python -m sounddevice`` lists them; None is the default one.
            latency_s: sound that the device should hold; less reacts faster and runs dry earlier.

        Raises:
            DeviceError: there is no such device, or it refuses to play, or PortAudio is missing.
            RequestError: that is no session.
        """
        check_session(session)
        self.buffer = PlaybackBuffer()
        """What waits to be played; ``buffer.duck(gain)`` turns the volume down."""
        self._session = session
        self._speaker = Speaker(self.buffer, device, latency_s=latency_s)
        self._pump: Pump | None = None

    async def __aenter__(self) -> Player:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Play; call it from the session's event loop. The first call takes over the session's sound.

        Raises:
            DeviceError: the device refuses.
            RequestError: the session has another sink, or is closed.
        """
        if self._pump is None:
            self._pump = Pump(self._session, self.buffer)
        self._speaker.start()

    def stop(self) -> None:
        """Hold, until ``start``. The session goes on until its buffers are full.

        Raises:
            DeviceError: the device is gone.
        """
        self._speaker.stop()

    def close(self) -> None:
        """Give the device back at once; what was not played is not heard. Closing again has no effect."""
        if self._pump is not None:
            self._pump.stop()
        self._speaker.close()

    async def drained(self) -> None:
        """Wait until every turn that has begun is complete, and all its sound was heard.

        Raises:
            StreamError: a turn failed since this was last asked.
            DeviceError: the device stopped by itself.
        """
        if self._pump is None:
            return
        waiting = asyncio.ensure_future(self._pump.drained())
        try:
            while not (await asyncio.wait([waiting], timeout=0.2))[0]:
                if (error := self._speaker.error) is not None:
                    raise error
            await waiting
        finally:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, StreamError):
                await waiting

    @property
    def sample_rate_hz(self) -> int:
        """What the device plays at."""
        return self._speaker.sample_rate_hz

    @property
    def latency_s(self) -> float:
        """From the buffer to the ear."""
        return self.buffer.latency_s

    @property
    def underruns(self) -> int:
        """Times that speech was not generated in time, and times that the device ran dry."""
        return self.buffer.underruns + self._speaker.underflows

    @property
    def error(self) -> StreamError | DeviceError | None:
        """Why the device stopped by itself, or why the last turn that failed did."""
        return self._speaker.error or (self._pump.error if self._pump is not None else None)


def _words(error: Exception | None) -> str:
    """PortAudio's words, without its number."""
    return str(error.args[0]) if error is not None and error.args else str(error)
