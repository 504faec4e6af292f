"""What the codec's and the talker's transformers share."""

import torch
from torch import Tensor, nn

Rotary = tuple[Tensor, Tensor]
"""cos and sin, broadcastable to (B, heads, T, head_dim)."""


class RMSNorm(nn.Module):
    """x / rms(x) * weight, with statistics in float32."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> same."""
        wide = x.float()
        return (self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps))).to(x.dtype)


def rotary(positions: Tensor, dim: int, theta: float) -> Rotary:
    """cos and sin (T, dim), or (B, 1, T, dim) for positions (B, T)."""
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2, device=positions.device).float() / dim)
    angles = positions.float()[..., None] * inverse
    angles = torch.cat([angles, angles], -1)
    if positions.dim() == 2:
        angles = angles[:, None]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, tables: Rotary) -> Tensor:
    """Rotate-half form over (B, heads, T, dim)."""
    cos, sin = tables
    a, b = x.chunk(2, -1)
    return (x * cos + torch.cat([-b, a], -1) * sin).to(x.dtype)
