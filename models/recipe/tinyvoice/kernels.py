"""Triton kernels for two activations that dominate memory traffic, each with an eager twin.

`snake_pad`: the decoder's Snake with the left padding of the causal convolution behind it (forward and backward).
`adain_snake`: instance norm, style affine and Snake of the teacher's generator (forward only).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU
    triton = None

if triton is not None:

    @triton.jit
    def _snake_forward(x, y, log_alpha, log_beta, channels, length, pad, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        i = j - pad
        c = row % channels
        a = tl.exp(tl.load(log_alpha + c))
        inv_b = 1.0 / (tl.exp(tl.load(log_beta + c)) + 1e-9)
        v = tl.load(x + row.to(tl.int64) * length + i, mask=(i >= 0) & (i < length), other=0.0)
        s = tl.sin(v * a)
        tl.store(y + row.to(tl.int64) * (length + pad) + j, v + s * s * inv_b, mask=j < length + pad)

    @triton.jit
    def _snake_backward(  # type: ignore[no-untyped-def]
        x, g, gx, log_alpha, log_beta, ga, gb, channels, length, pad, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0)
        i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        c = row % channels
        inside = i < length
        a = tl.exp(tl.load(log_alpha + c))
        inv_b = 1.0 / (tl.exp(tl.load(log_beta + c)) + 1e-9)
        v = tl.load(x + row.to(tl.int64) * length + i, mask=inside, other=0.0)
        d = tl.load(g + row.to(tl.int64) * (length + pad) + i + pad, mask=inside, other=0.0)
        s = tl.sin(v * a)
        t = 2.0 * s * tl.cos(v * a) * a * inv_b
        tl.store(gx + row.to(tl.int64) * length + i, d * (1.0 + t), mask=inside)
        tl.atomic_add(ga + c, tl.sum(d * t * v, axis=0))
        tl.atomic_add(gb + c, -tl.sum(d * s * s * inv_b, axis=0))

    @triton.jit
    def _adain_snake(x, y, scale, shift, alpha, channels, length, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0)
        base = row.to(tl.int64) * length
        total = tl.zeros([BLOCK], tl.float32)
        square = tl.zeros([BLOCK], tl.float32)
        for start in range(0, length, BLOCK):
            i = start + tl.arange(0, BLOCK)
            v = tl.load(x + base + i, mask=i < length, other=0.0).to(tl.float32)
            total += v
            square += v * v
        mean = tl.sum(total, axis=0) / length
        variance = tl.sum(square, axis=0) / length - mean * mean
        rstd = 1.0 / tl.sqrt(tl.maximum(variance, 0.0) + 1e-5)
        k = tl.load(scale + row).to(tl.float32) * rstd
        b = tl.load(shift + row).to(tl.float32) - mean * k
        a = tl.load(alpha + row % channels).to(tl.float32)
        for start in range(0, length, BLOCK):
            i = start + tl.arange(0, BLOCK)
            v = tl.load(x + base + i, mask=i < length, other=0.0).to(tl.float32) * k + b
            s = tl.sin(a * v)
            tl.store(y + base + i, (v + s * s / a).to(y.dtype.element_ty), mask=i < length)


class _SnakePad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, log_alpha: Tensor, log_beta: Tensor, pad: int) -> Tensor:
        x = x.contiguous()
        batch, channels, length = x.shape
        y = torch.empty(batch, channels, length + pad, device=x.device, dtype=x.dtype)
        block = min(1024, triton.next_power_of_2(length + pad))
        grid = (batch * channels, triton.cdiv(length + pad, block))
        _snake_forward[grid](x, y, log_alpha, log_beta, channels, length, pad, BLOCK=block)
        ctx.save_for_backward(x, log_alpha, log_beta)
        ctx.pad = pad
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, log_alpha, log_beta = ctx.saved_tensors
        batch, channels, length = x.shape
        g = g.contiguous()
        gx, ga, gb = torch.empty_like(x), torch.zeros_like(log_alpha), torch.zeros_like(log_beta)
        block = min(1024, triton.next_power_of_2(length))
        grid = (batch * channels, triton.cdiv(length, block))
        _snake_backward[grid](x, g, gx, log_alpha, log_beta, ga, gb, channels, length, ctx.pad, BLOCK=block)
        return gx, ga, gb, None


def snake_pad_eager(x: Tensor, log_alpha: Tensor, log_beta: Tensor, pad: int) -> Tensor:
    """Snake of (B, C, T) with `pad` zeros in front: x + sin(x exp(a))^2 / exp(b)."""
    x = F.pad(x, (pad, 0)) if pad else x
    return x + torch.sin(x * log_alpha.exp()[:, None]).pow(2) / (log_beta.exp()[:, None] + 1e-9)


def snake_pad(x: Tensor, log_alpha: Tensor, log_beta: Tensor, pad: int) -> Tensor:
    """`snake_pad_eager`, in one pass on a GPU."""
    if x.is_cuda and triton is not None and x.dtype == torch.float32:
        out: Tensor = _SnakePad.apply(x, log_alpha, log_beta, pad)  # type: ignore[no-untyped-call]
        return out
    return snake_pad_eager(x, log_alpha, log_beta, pad)


def adain_snake_eager(x: Tensor, scale: Tensor, shift: Tensor, alpha: Tensor) -> Tensor:
    """Snake(scale * instance_norm(x) + shift); x (B, C, T), scale and shift (B, C), alpha (C)."""
    y = F.instance_norm(x.float()) * scale[:, :, None] + shift[:, :, None]
    a = alpha[:, None]
    return (y + torch.sin(a * y).pow(2) / a).to(x.dtype)


def adain_snake(x: Tensor, scale: Tensor, shift: Tensor, alpha: Tensor) -> Tensor:
    """`adain_snake_eager`, in two reads and one write on a GPU."""
    if not (x.is_cuda and triton is not None):
        return adain_snake_eager(x, scale, shift, alpha)
    x = x.contiguous()
    batch, channels, length = x.shape
    y = torch.empty_like(x)
    grid = (batch * channels,)
    _adain_snake[grid](
        x,
        y,
        scale.contiguous(),
        shift.contiguous(),
        alpha.contiguous(),
        channels,
        length,
        BLOCK=4096,
        num_warps=8,
    )
    return y


def self_test(device: torch.device) -> float:
    """Largest relative error of the fused kernels and their gradients against the eager forms."""
    worst = 0.0

    def compare(fused: Tensor, eager: Tensor) -> None:
        nonlocal worst
        worst = max(worst, float((fused - eager).detach().norm() / eager.detach().norm()))

    for channels, length, pad in ((20, 4000, 54), (40, 333, 0), (320, 40, 6)):
        x = torch.randn(2, channels, length, device=device, requires_grad=True)
        la, lb = (torch.randn(channels, device=device).mul(0.5).requires_grad_() for _ in range(2))
        g = torch.randn(2, channels, length + pad, device=device)
        eager, fused = snake_pad_eager(x, la, lb, pad), snake_pad(x, la, lb, pad)
        compare(fused, eager)
        pairs = zip(
            torch.autograd.grad(fused, (x, la, lb), g),
            torch.autograd.grad(eager, (x, la, lb), g),
            strict=True,
        )
        for a, b in pairs:
            compare(a, b)
    for channels, length in ((256, 9001), (128, 300)):
        x = torch.randn(2, channels, length, device=device) * 3 + 1
        scale, shift = torch.randn(2, 2, channels, device=device)
        alpha = torch.rand(channels, device=device) + 0.5
        compare(adain_snake(x, scale, shift, alpha), adain_snake_eager(x, scale, shift, alpha))
    return worst
