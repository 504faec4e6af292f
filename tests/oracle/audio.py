"""Speech-like test signals (no recordings are needed for random weights)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 24000


def speech_like(samples: int, seed: int) -> NDArray[np.float32]:
    """Gliding harmonics in bursts over a little noise, 24 kHz, peak about 0.35."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / SAMPLE_RATE_HZ
    pitch_hz = 140 + 60 * np.sin(2 * np.pi * 0.7 * t + seed) + 25 * np.sin(2 * np.pi * 2.3 * t)
    phase = 2 * np.pi * np.cumsum(pitch_hz) / SAMPLE_RATE_HZ
    voiced = np.sum([np.sin(k * phase + k) / k for k in range(1, 9)], axis=0)
    bursts = np.clip(np.sin(2 * np.pi * 1.7 * t + 0.3 * seed), 0, 1) ** 0.5
    signal = voiced * bursts + 0.15 * rng.standard_normal(samples)
    return np.asarray(0.35 * signal / max(float(np.abs(signal).max()), 1e-9), dtype=np.float32)


def reference_pcm16() -> NDArray[np.int16]:
    """The clip that Base voices are cloned from: 2.13 s, deliberately not a whole number of frames."""
    return as_pcm16(speech_like(51_120, seed=3))


def as_pcm16(clip: NDArray[np.float32]) -> NDArray[np.int16]:
    """What a 16-bit WAV of the clip would hold."""
    return np.asarray(np.round(clip * 32767), dtype=np.int16)


def from_pcm16(clip: NDArray[np.int16]) -> NDArray[np.float32]:
    """The samples a 16-bit WAV reader returns."""
    return np.asarray(clip.astype(np.float32) / np.float32(32768), dtype=np.float32)
