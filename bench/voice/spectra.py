"""Log-mel spectra, their distances, and the roll-off; the recipe's definitions (``tinyvoice.features``) in numpy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

RATE_HZ = 24000
FFT = 1024
HOP = 256
BANDS = 80
FLOOR = 2e-3
"""Added to magnitudes: about 80 dB below full-scale speech."""


@lru_cache
def mel_bank() -> F64:
    """(80, 513) triangular HTK filters from 0 to 12 kHz."""
    top = 2595 * np.log10(1 + RATE_HZ / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE_HZ / 2, FFT // 2 + 1)
    rise = (bins - edges[:-2, None]) / np.maximum(edges[1:-1] - edges[:-2], 1e-5)[:, None]
    fall = (edges[2:, None] - bins) / np.maximum(edges[2:] - edges[1:-1], 1e-5)[:, None]
    bank: F64 = np.maximum(0, np.minimum(rise, fall))
    return bank


def magnitudes(samples: F32) -> F64:
    """(513, n) of a periodic Hann window of 1024 samples every 256, centred."""
    padded = np.pad(np.asarray(samples, np.float64), FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    spectrum: F64 = np.abs(np.fft.rfft(frames * window, axis=1)).T
    return spectrum


def log_mel(samples: F32) -> F64:
    """(80, n) in dB."""
    image: F64 = 20 * np.log10(mel_bank() @ magnitudes(samples) + FLOOR)
    return image


def error_db(a: F32, b: F32) -> float:
    """Mean absolute difference of the log-mel spectra of two clips of one length."""
    return float(np.abs(log_mel(a) - log_mel(b)).mean())


def long_term(samples: F32) -> F64:
    """(80,) mean mel power over a clip: add clips up, then compare with ``long_term_distance_db``."""
    power: F64 = (mel_bank() @ magnitudes(samples) ** 2).mean(1)
    return power


def long_term_distance_db(a: F64, b: F64) -> float:
    """Mean absolute difference in dB of two long-term spectra, each of any level."""
    x, y = (10 * np.log10(np.maximum(p, 1e-12)) for p in (a, b))
    difference = x - y
    return float(np.abs(difference - difference.mean()).mean())


def rolloff_hz(samples: F32, share: float = 0.95) -> float:
    """The frequency below which ``share`` of a clip's energy lies."""
    energy = np.cumsum((magnitudes(samples) ** 2).sum(1))
    if energy[-1] <= 0:
        return 0.0
    return float(np.searchsorted(energy, share * energy[-1]) * RATE_HZ / FFT)
