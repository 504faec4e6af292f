"""Log-mel features and the spectral losses of the codec."""

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

RATE = 24000
FRAME = 1920
"""Samples of a codec frame (80 ms)."""
SUB = 8
"""Mel frames in a codec frame (10 ms each)."""
RESOLUTIONS = ((2048, 128), (1024, 80), (512, 40), (256, 20), (128, 10))
"""(FFT size, mel bands) of the multi-resolution loss."""


@lru_cache
def mel_bank(fft: int, bands: int, device: torch.device) -> Tensor:
    """Triangular HTK mel filters (bands, fft / 2 + 1), 0 to 12 kHz."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, fft // 2 + 1)
    rise = (bins - edges[:-2, None]) / np.maximum(edges[1:-1] - edges[:-2], 1e-5)[:, None]
    fall = (edges[2:, None] - bins) / np.maximum(edges[2:] - edges[1:-1], 1e-5)[:, None]
    return torch.tensor(np.maximum(0, np.minimum(rise, fall)), dtype=torch.float32, device=device)


@lru_cache
def hann(n: int, device: torch.device) -> Tensor:
    """Periodic Hann window."""
    return torch.hann_window(n, device=device)


@lru_cache
def _fourier(n: int, device: torch.device) -> Tensor:
    """Windowed real transform as a matrix (n, n + 2): cosines, then sines."""
    angle = 2 * np.pi / n * np.outer(np.arange(n), np.arange(n // 2 + 1))
    basis = (
        np.concatenate([np.cos(angle), -np.sin(angle)], 1)
        * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n))[:, None]
    )
    return torch.tensor(basis, dtype=torch.float32, device=device)


def stft(x: Tensor, n: int) -> Tensor:
    """STFT (B, 2, frames, n / 2 + 1), real and imaginary part, with hop n / 4, centred.

    A matrix product in full float32: the FFT library does not record reliably into CUDA graphs.
    """
    hop = n // 4
    with torch.autocast(x.device.type, enabled=False):
        frames = x.shape[1] // hop + 1
        padded = F.pad(x.float()[:, None], (n // 2, n // 2), mode="reflect")[:, 0, : (frames + 3) * hop]
        pieces = padded.view(len(x), frames + 3, hop)
        windows = torch.cat([pieces[:, i : i + frames] for i in range(4)], -1)
        precise = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        out = windows @ _fourier(n, x.device)
        torch.backends.cuda.matmul.allow_tf32 = precise
    return out.view(len(x), frames, 2, n // 2 + 1).transpose(1, 2)


def magnitude(spectrum: Tensor) -> Tensor:
    """|spectrum| (B, bins, frames) of `stft`'s output, with a gradient at zero."""
    return spectrum.pow(2).sum(1).add(1e-9).sqrt().transpose(1, 2)


def mel_distance(a: Tensor, b: Tensor, floor: float = 2e-3) -> Tensor:
    """Sum over five resolutions of the mean |log10 mel| difference of waves (B, N).

    The floor lies about 80 dB below speech: without it the gradient is dominated by the noise floor.
    """
    total = torch.zeros((), device=a.device)
    for n, bands in RESOLUTIONS:
        bank = mel_bank(n, bands, a.device)
        x, y = (torch.log10(bank @ magnitude(stft(z, n)) + floor * (n / 1024) ** 0.5) for z in (a, b))
        total = total + (x - y).abs().mean()
    return total


def causal_mel(x: Tensor) -> Tensor:
    """Waves (B, n * 1920) -> scaled log-mel (B, n, 8, 80); a mel frame sees samples up to its own end only."""
    padded = F.pad(x, (1024 - 240, 0))
    spectrum = torch.stft(padded, 1024, 240, 1024, hann(1024, x.device), center=False, return_complex=True)
    mel = (torch.log10(mel_bank(1024, 80, x.device) @ spectrum.abs() + 3e-3) + 0.8) / 0.9
    batch, bands, frames = mel.shape
    return mel.transpose(1, 2).reshape(batch, frames // SUB, SUB, bands)


def mel_error_db(a: Tensor, b: Tensor) -> float:
    """Mean |difference| of 80-band log-mel spectra in dB (1024 / 256 samples), floor 80 dB below full scale speech."""
    bank = mel_bank(1024, 80, a.device)
    x, y = (20 * torch.log10(bank @ magnitude(stft(z, 1024)) + 2e-3) for z in (a, b))
    return float((x - y).abs().mean())
