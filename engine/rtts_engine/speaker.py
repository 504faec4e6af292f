"""Reference audio to x-vector: the log-mel front end and the speaker encoder."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rtts_engine.clip import checked_clip
from rtts_engine.config import SAMPLE_RATE_HZ, SpeakerEncoderConfig
from rtts_engine.graph.speaker_encoder import minimum_frames
from rtts_engine.runtime import Net

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

FFT_SIZE = 1024
HOP = 256
_EDGE = (FFT_SIZE - HOP) // 2
_FRAMES_AT_ONCE = 4096


def _slaney_hz(mel: F64) -> F64:
    """Slaney's mel scale: linear to 1 kHz at 200/3 Hz a mel, then 27 mels a factor of 6.4."""
    knee = 1000 / (200 / 3)
    return np.where(mel < knee, mel * (200 / 3), 1000 * np.exp((mel - knee) * math.log(6.4) / 27))


def mel_filters(count: int) -> F32:
    """Triangular filters (count, 513) from 0 Hz to 12 kHz, each of unit area (librosa's default bank)."""
    top = 1000 / (200 / 3) + math.log(SAMPLE_RATE_HZ / 2 / 1000) * 27 / math.log(6.4)
    edges = _slaney_hz(np.linspace(0.0, top, count + 2))
    frequencies = np.linspace(0.0, SAMPLE_RATE_HZ / 2, FFT_SIZE // 2 + 1)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    filters: F64 = triangles * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return filters.astype(np.float32)


def log_mel(clip: F32, filters: F32) -> F32:
    """Natural logarithm of the mel magnitudes of a 24 kHz clip.

    Frames of 1024 samples every 256, not centred, over a clip extended by 384 reflected samples on both sides;
    periodic Hann window; magnitudes ``sqrt(|X|^2 + 1e-9)``; the logarithm is taken of at least 1e-5.

    Args:
        clip: (n,) float32, n > 384.
        filters: ``mel_filters``.

    Returns:
        (n // 256, mels) float32.
    """
    padded = np.pad(clip.astype(np.float64), _EDGE, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SIZE)[::HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE)
    bank = filters.astype(np.float64).T
    rows = []
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(frames[start : start + _FRAMES_AT_ONCE] * window)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        rows.append(np.log(np.maximum(magnitude @ bank, 1e-5)).astype(np.float32))
    return np.concatenate(rows)


class SpeakerEncoder:
    """Clips to x-vectors over one loaded graph; clips are independent, so threads may share it."""

    def __init__(self, net: Net, config: SpeakerEncoderConfig) -> None:
        """
        Args:
            net: the graph of ``write_speaker_encoder``, loaded as fp32.
            config: the speaker encoder's config.
        """
        self._net = net
        self._filters = mel_filters(config.mel_dim)
        self.minimum_samples = max(minimum_frames(config) * HOP, _EDGE + 1)
        self.dim = config.enc_dim

    def embed(self, samples: npt.ArrayLike) -> F32:
        """The speaker's x-vector, as the talker takes it (not normalised).

        The encoder looks at the whole clip at once and needs about 5 MB of memory for a second of it.

        Args:
            samples: (n,) float, mono 24 kHz, from ``minimum_samples`` to ``clip.MAX_CLIP_SECONDS``.

        Returns:
            (enc_dim,) float32.

        Raises:
            AudioError: the clip is too short or too long, not mono float, or holds NaN or infinity.
        """
        clip = checked_clip(samples, self.minimum_samples)
        mel = log_mel(clip, self._filters)
        (xvector,), _ = self._net.run({"mel": mel.T[:, None, :]}, ["xvector"])
        return xvector.reshape(-1)
