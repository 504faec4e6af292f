"""Pitch by YIN (de Cheveigne and Kawahara, 2002) in numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

RATE_HZ = 8000
LOWEST_HZ, HIGHEST_HZ = 60.0, 450.0
WINDOW = 320
"""Samples that are compared with their shifted copy: 40 ms."""
HOP = 80
"""A value every 10 ms."""
THRESHOLD = 0.25
"""Largest normalised difference of a voiced frame."""
QUIET = 10 ** (-45 / 20)
"""RMS below which a frame has no pitch."""


@dataclass(frozen=True, slots=True)
class Pitch:
    """Pitch of one clip; None where nothing is voiced."""

    median_hz: float | None
    low_hz: float | None
    """5 % of the voiced frames lie below."""
    high_hz: float | None
    """5 % of the voiced frames lie above."""
    spread_semitones: float | None
    """Standard deviation."""
    voiced: float
    """Share of the frames above -45 dB that have a pitch."""


def track(samples: F32, rate_hz: int) -> tuple[F64, npt.NDArray[np.bool_]]:
    """Pitch in Hz of every 10 ms (NaN where unvoiced), and which of them are above -45 dB.

    Args:
        samples: (m,) in [-1, 1] at ``rate_hz``.
    """
    import soxr

    x = np.asarray(soxr.resample(samples, rate_hz, RATE_HZ), np.float64)
    longest = int(RATE_HZ / LOWEST_HZ) + 1
    count = (len(x) - WINDOW - longest) // HOP + 1
    if count < 1:
        return np.zeros(0), np.zeros(0, bool)
    starts = np.arange(count)[:, None] * HOP
    own = x[starts + np.arange(WINDOW)]
    difference = np.zeros((count, longest + 1))
    for lag in range(1, longest + 1):
        difference[:, lag] = ((own - x[starts + lag + np.arange(WINDOW)]) ** 2).sum(1)
    mean = np.cumsum(difference[:, 1:], 1) / np.arange(1, longest + 1)
    normal = np.ones_like(difference)
    normal[:, 1:] = difference[:, 1:] / np.maximum(mean, 1e-12)
    loud = np.sqrt((own**2).mean(1)) >= QUIET
    hz = np.array([_lag_hz(row) if is_loud else np.nan for row, is_loud in zip(normal, loud, strict=True)])
    return hz, loud


def _lag_hz(normal: F64) -> float:
    """The first dip below the threshold, at its bottom, between samples."""
    lag = int(RATE_HZ / HIGHEST_HZ)
    below = np.flatnonzero(normal[lag:-1] < THRESHOLD)
    if not below.size:
        return float("nan")
    lag += int(below[0])
    while lag + 2 < len(normal) and normal[lag + 1] < normal[lag]:
        lag += 1
    left, middle, right = normal[lag - 1 : lag + 2]
    bend = left - 2 * middle + right
    return float(RATE_HZ / (lag + (0.5 * (left - right) / bend if bend > 0 else 0.0)))


def describe(samples: F32, rate_hz: int) -> Pitch:
    """Pitch statistics of a clip."""
    hz, loud = track(samples, rate_hz)
    voiced = hz[np.isfinite(hz)]
    if not voiced.size:
        return Pitch(None, None, None, None, 0.0)
    low, median, high = np.percentile(voiced, [5, 50, 95])
    spread = float(np.std(12 * np.log2(voiced / median)))
    return Pitch(float(median), float(low), float(high), spread, len(voiced) / int(loud.sum()))
