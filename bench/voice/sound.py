"""Faults and levels of a clip: clicks, edges, clipping, offset, noise between the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

RATE_HZ = 24000
FRAME = 1920
"""Samples of a frame of codes: chunks are joined at its multiples only."""
EDGE = 96
"""Samples of the first 4 ms."""
AUDIBLE = 0.01
"""-40 dB of full scale."""
AROUND = 360
"""Samples on each side that a join is compared with: 15 ms, a pitch period of the lowest voice."""
NEAR = 8
"""Samples next to a join that are not compared with."""
TIMES = 3.0
SMALLEST = 0.002
"""-54 dB: a bend that nobody hears even in silence."""


def clicks(samples: F32, positions: Sequence[int]) -> list[int]:
    """The positions at which the waveform breaks.

    A break is a bend (second difference) within two samples of the position that is more than ``TIMES`` the largest
    bend in the 15 ms on both sides, and more than ``SMALLEST``. Speech has sharp bends of its own, one in every pitch
    period; a break that is no sharper than those is not counted.

    Args:
        samples: (n,) in [-1, 1].
        positions: p means between samples p - 1 and p.
    """
    bend = np.zeros(len(samples) + 1)
    if len(samples) > 2:
        bend[1:-2] = np.abs(np.diff(np.asarray(samples, np.float64), 2))  # bend[i] is centred on sample i
    found = []
    for p in positions:
        here = bend[max(0, p - 2) : p + 2].max(initial=0.0)
        before = bend[max(0, p - AROUND) : max(0, p - NEAR)].max(initial=0.0)
        after = bend[p + NEAR : p + AROUND].max(initial=0.0)
        if here > SMALLEST and here > TIMES * max(before, after):
            found.append(int(p))
    return found


def joins(samples: F32) -> list[int]:
    """Where chunks of any size may be joined: every frame's border."""
    return list(range(FRAME, len(samples), FRAME))


def controls(samples: F32) -> list[int]:
    """As many places where nothing is joined: the middles of the frames."""
    return list(range(FRAME // 2, len(samples), FRAME))


def start_peak(samples: F32) -> float:
    """Largest sample of the first 4 ms; audible if it passes ``AUDIBLE``."""
    return float(np.abs(samples[:EDGE]).max(initial=0.0))


def end_step(samples: F32) -> float:
    """The last sample: what falls to silence at once when nothing follows."""
    return float(abs(samples[-1])) if len(samples) else 0.0


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of one clip."""

    start_s: float
    """Silence before the first sample of -40 dB."""
    voiced_s: float
    """From the first to the last sample of -40 dB."""
    peak: float
    clipped: int
    """Samples at full scale."""
    offset: float
    """Mean of all samples."""
    speech_db: float
    """RMS from the first to the last audible sample."""
    noise_db: float
    """RMS of the quietest tenth of the 20 ms blocks."""


def levels(samples: F32) -> Levels:
    """Levels of samples (n,) in [-1, 1] at 24 kHz; -120 dB stands for silence."""
    loud = np.flatnonzero(np.abs(samples) >= AUDIBLE)
    first, last = (int(loud[0]), int(loud[-1]) + 1) if loud.size else (0, 0)
    blocks = np.asarray(samples[: len(samples) // 480 * 480], np.float64).reshape(-1, 480)
    power = (blocks**2).mean(1) if len(blocks) else np.zeros(1)
    speech = np.asarray(samples[first:last], np.float64)
    return Levels(
        start_s=first / RATE_HZ,
        voiced_s=(last - first) / RATE_HZ,
        peak=float(np.abs(samples).max(initial=0.0)),
        clipped=int((np.abs(samples) >= 0.9999).sum()),
        offset=float(samples.mean()) if len(samples) else 0.0,
        speech_db=_db(float((speech**2).mean()) if speech.size else 0.0),
        noise_db=_db(float(np.percentile(power, 10))),
    )


def _db(power: float) -> float:
    return float(10 * np.log10(max(power, 1e-12)))
