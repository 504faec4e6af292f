"""Microphone chunks of any size, rate and type, as mono frames that webrtcvad takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

from rtts.errors import AudioError

F32 = npt.NDArray[np.float32]

VAD_RATES_HZ = (8_000, 16_000, 32_000, 48_000)
"""Rates that webrtcvad resamples by itself, without delay; other rates go through soxr to 16 kHz (20 ms later)."""
RESAMPLED_HZ = 16_000
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 384_000


def mono(samples: npt.NDArray[Any]) -> F32:
    """Samples as (n,) float32, full scale at 1; channels are averaged.

    Args:
        samples: (n,) or (n, channels); int16, int32 or floats.

    Raises:
        AudioError: another shape or type, or samples that are not numbers.
    """
    array = np.asarray(samples)
    if array.ndim == 2 and array.shape[1] > 0:
        if array.shape[1] > 32:
            raise AudioError(
                f"microphone samples have the shape {array.shape}; channels come last: (samples, channels)"
            )
    elif array.ndim != 1:
        raise AudioError(f"microphone samples have the shape {array.shape}, expected (n,) or (n, channels)")
    if array.dtype == np.int16:
        scaled = array.astype(np.float32) / np.float32(32768)
    elif array.dtype == np.int32:
        scaled = (array / 2147483648).astype(np.float32)
    elif np.issubdtype(array.dtype, np.floating):
        scaled = array.astype(np.float32)
        if not np.isfinite(scaled).all():
            raise AudioError("microphone samples hold NaN or infinity; check the capture device")
    else:
        raise AudioError(f"microphone samples are {array.dtype}, expected int16, int32 or floats")
    mixed: F32 = scaled if scaled.ndim == 1 else scaled.mean(axis=1, dtype=np.float32)
    return mixed


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A stretch of microphone sound of the configured length."""

    samples: F32
    """(n,) mono, full scale at 1."""
    rate_hz: int
    """One of ``VAD_RATES_HZ``."""
    age_s: float
    """How long before the end of what was pushed it ended."""


class Framer:
    """Cuts a stream into frames; what it cuts does not depend on how the stream was divided."""

    def __init__(self, frame_ms: int) -> None:
        self._frame_ms = frame_ms
        self._source_hz = 0
        self._rate_hz = RESAMPLED_HZ
        self._resampler: soxr.ResampleStream | None = None
        self._rest = np.zeros(0, np.float32)
        self._pushed = 0
        self._framed = 0

    @property
    def pushed_s(self) -> float:
        """Length of the stream so far, since its rate last changed."""
        return self._pushed / self._source_hz if self._source_hz else 0.0

    def push(self, samples: npt.NDArray[Any], rate_hz: int) -> list[Frame]:
        """Frames that are complete now. A new rate starts a new stream: less than a frame of the old one is lost.

        Raises:
            AudioError: samples or rate are unfit.
        """
        if isinstance(rate_hz, bool) or not isinstance(rate_hz, (int, np.integer)):
            raise AudioError(f"the microphone's sample rate is {rate_hz!r}, expected an integer in Hz")
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise AudioError(
                f"the microphone's sample rate is {rate_hz} Hz, expected {MIN_RATE_HZ} to {MAX_RATE_HZ}"
            )
        sound = mono(samples)
        if rate_hz != self._source_hz:
            self._start(int(rate_hz))
        self._pushed += len(sound)
        if self._resampler is not None:
            sound = self._resampler.resample_chunk(sound)
        return self._cut(sound)

    def _start(self, rate_hz: int) -> None:
        self._source_hz = rate_hz
        self._pushed = self._framed = 0
        self._rest = np.zeros(0, np.float32)
        if rate_hz in VAD_RATES_HZ:
            self._rate_hz, self._resampler = rate_hz, None
        else:
            self._rate_hz = RESAMPLED_HZ
            self._resampler = soxr.ResampleStream(rate_hz, RESAMPLED_HZ, 1, dtype="float32", quality="LQ")

    def _cut(self, sound: F32) -> list[Frame]:
        length = self._rate_hz * self._frame_ms // 1000
        data = np.concatenate([self._rest, sound])
        whole = len(data) // length * length
        self._rest = data[whole:]
        first = self._framed
        cut = data[:whole].reshape(-1, length)
        self._framed += len(cut)
        return [
            Frame(samples, self._rate_hz, self.pushed_s - number * self._frame_ms / 1000)
            for number, samples in enumerate(cut, first + 1)
        ]
