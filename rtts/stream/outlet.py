"""A playback buffer pulled at another sample rate: streaming resampling that forgets what was interrupted."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import soxr

from rtts.errors import RequestError
from rtts.stream.playback import FADE_SAMPLES, PlaybackBuffer
from rtts_engine.config import SAMPLE_RATE_HZ

F32 = npt.NDArray[np.float32]
I16 = npt.NDArray[np.int16]

FULL_SCALE = 32768.0


class Outlet:
    """Pulls 24 kHz sound and gives it out at ``rate_hz``, sample for sample what resampling the whole would give.

    The resampler (soxr, HQ) delays nothing: output sample k stands for the time k / ``rate_hz``. It works in blocks,
    though: up to 40 ms of the buffer have been pulled and are not given out yet. They count as not played
    (``PlaybackBuffer.latency_s``). At the end of the sound, or where the buffer runs dry, they are given out without
    waiting, and what comes next starts afresh. An interruption drops them but for a fade of 8 ms.

    Not thread-safe: one thread pulls.
    """

    def __init__(self, buffer: PlaybackBuffer, rate_hz: int, *, latency_s: float = 0.0) -> None:
        """``latency_s``: see the attribute.

        Raises:
            RequestError: ``latency_s`` is no time.
        """
        if not isinstance(latency_s, (int, float)) or not 0.0 <= latency_s < math.inf:
            raise RequestError(f"latency_s is {latency_s!r}, expected seconds from 0 on")
        self._buffer = buffer
        self._rate_hz = rate_hz
        self.latency_s = latency_s
        """How long a sample that was given out takes to be heard."""
        self._interruptions = buffer.interruptions
        self._fade_samples = round(FADE_SAMPLES * rate_hz / SAMPLE_RATE_HZ)
        self._ready: F32 = np.zeros(0, np.float32)
        self._start()

    @property
    def idle(self) -> bool:
        """Whether nothing is held back."""
        return not self._taken and not len(self._ready)

    def pull(self, count: int) -> I16:
        """The next ``count`` samples at ``rate_hz``, always that many: (count,) int16."""
        if self._buffer.interruptions != self._interruptions:
            self._cut(self._buffer.interruptions)
        block = math.ceil(count * SAMPLE_RATE_HZ / self._rate_hz)
        while len(self._ready) < count:
            sound, interruptions = self._buffer.take(block)
            if interruptions != self._interruptions:
                self._cut(interruptions)
            if len(sound):
                self._resample(sound)
            if len(sound) < block:  # nothing more for now
                self._flush()
                break
        given, self._ready = self._ready[:count], self._ready[count:]
        held_s = self._taken / SAMPLE_RATE_HZ - self._made / self._rate_hz if self._taken else 0.0
        self._buffer.latency_s = self.latency_s + held_s + len(self._ready) / self._rate_hz
        out = np.zeros(count, np.int16)
        out[: len(given)] = np.clip(np.rint(given * FULL_SCALE), -32768, 32767)
        return out

    def _start(self) -> None:
        self._resampler = soxr.ResampleStream(SAMPLE_RATE_HZ, self._rate_hz, 1, dtype="float32", quality="HQ")
        self._taken = 0
        self._made = 0

    def _resample(self, sound: I16, *, last: bool = False) -> None:
        made = self._resampler.resample_chunk(sound.astype(np.float32) / FULL_SCALE, last=last)
        self._taken += len(sound)
        self._made += len(made)
        self._ready = np.concatenate([self._ready, made])

    def _flush(self) -> None:
        """Give out what the resampler holds."""
        if self._taken:
            self._resample(np.zeros(0, np.int16), last=True)
            self._start()

    def _cut(self, interruptions: int) -> None:
        """What is held back is stale: it ends in a short fade."""
        self._interruptions = interruptions
        self._flush()
        tail = self._ready[: self._fade_samples]
        self._ready = tail * np.linspace(1.0, 0.0, len(tail), dtype=np.float32)
