"""Discriminators of stage C: multi-resolution spectrograms and multi-period waves. Training only."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from .features import stft

Judgement = tuple[Tensor, list[Tensor]]


def _conv(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, (kernel[0] // 2, kernel[1] // 2))
    weight_norm(conv)
    return conv


class SpectrogramCritic(nn.Module):
    """Looks at the complex STFT of one size."""

    def __init__(self, fft: int, width: int = 24) -> None:
        super().__init__()
        self.fft = fft
        strided = [_conv(width, width, (3, 9), (1, 2)) for _ in range(3)]
        self.layers = nn.ModuleList([_conv(2, width, (3, 9)), *strided, _conv(width, width, (3, 3))])
        self.out = _conv(width, 1, (3, 3))

    def forward(self, x: Tensor) -> Judgement:
        """Waves (B, N) -> score map and the features of each layer."""
        h = stft(x, self.fft).contiguous(memory_format=torch.channels_last)
        features = []
        for layer in self.layers:
            h = F.leaky_relu(layer(h), 0.1)
            features.append(h)
        return self.out(h), features


class PeriodCritic(nn.Module):
    """Looks at every `period`-th sample."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        width = (1, 16, 32, 64, 128, 128)
        self.layers = nn.ModuleList(
            [_conv(width[i], width[i + 1], (5, 1), (3 if i < 4 else 1, 1)) for i in range(5)]
        )
        self.out = _conv(128, 1, (3, 1))

    def forward(self, x: Tensor) -> Judgement:
        """Waves (B, N) -> score map and the features of each layer."""
        x = F.pad(x, (0, -x.shape[-1] % self.period))
        h = x.view(x.shape[0], 1, -1, self.period)
        features = []
        for layer in self.layers:
            h = F.leaky_relu(layer(h), 0.1)
            features.append(h)
        return self.out(h), features


class Critics(nn.Module):
    """All of them."""

    def __init__(self) -> None:
        super().__init__()
        spectral = [SpectrogramCritic(n) for n in (2048, 1024, 512)]
        self.parts = nn.ModuleList([*spectral, *(PeriodCritic(p) for p in (2, 3, 5, 7, 11))])

    def forward(self, x: Tensor) -> list[Judgement]:
        """Waves (B, N) -> one judgement per discriminator."""
        return [part(x) for part in self.parts]


def critic_loss(judged: list[Judgement], real: int) -> Tensor:
    """Hinge loss; the first `real` rows of the batch are recordings."""
    return torch.stack(
        [F.relu(1 - s[:real].float()).mean() + F.relu(1 + s[real:].float()).mean() for s, _ in judged]
    ).sum()


def generator_losses(judged: list[Judgement], real: int) -> tuple[Tensor, Tensor]:
    """(adversarial loss, relative feature distance); the first `real` rows of the batch are recordings."""
    adversarial = torch.stack([-s[real:].float().mean() for s, _ in judged]).sum()
    pairs = [(f[real:].float(), f[:real].float().detach()) for _, features in judged for f in features]
    distance = torch.stack(
        [(fake - true).abs().mean() / (true.abs().mean() + 1e-3) for fake, true in pairs]
    ).sum()
    return adversarial, distance / len(judged)
