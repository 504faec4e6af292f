"""The codec: the official decoder's graph (same state-dict names), its split RVQ, and the front end of the tokens."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import CodecShape
from .features import SUB
from .kernels import snake_pad
from .layers import RMSNorm, Rotary, rotary, rotate


class CausalConv(nn.Module):
    """Conv1d that sees the past only."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.left = (kernel - 1) * dilation

    def forward(self, x: Tensor, padded: bool = False) -> Tensor:
        """(B, inputs, T) -> (B, outputs, T); `padded` when the left context is there already."""
        out: Tensor = self.conv(x if padded or not self.left else F.pad(x, (self.left, 0)))
        return out


class CausalUpsample(nn.Module):
    """ConvTranspose1d without the tail that later input would complete."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.tail = kernel - stride

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, T) -> (B, outputs, T * stride)."""
        y: Tensor = self.conv(x)
        return y[..., : y.shape[-1] - self.tail] if self.tail else y


class Snake(nn.Module):
    """x + sin(a x)^2 / b with log-scale parameters per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, pad: int = 0) -> Tensor:
        """`pad`: left zeros for the causal convolution that follows (snake(0) = 0)."""
        return snake_pad(x, self.alpha, self.beta, pad)


class ConvNeXt(nn.Module):
    """Depthwise convolution and a pointwise MLP."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(dim, dim, 7, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-2 * torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """(B, dim, T) -> same."""
        h = self.norm(self.dwconv(x).transpose(1, 2))
        h = self.gamma * self.pwconv2(F.gelu(self.pwconv1(h)))
        out: Tensor = x + h.transpose(1, 2)
        return out


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, Snake, pointwise convolution."""

    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.act1 = Snake(dim)
        self.conv1 = CausalConv(dim, dim, 7, dilation)
        self.act2 = Snake(dim)
        self.conv2 = CausalConv(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, dim, T) -> same."""
        out: Tensor = x + self.conv2(self.act2(self.conv1(self.act1(x, self.conv1.left), True)))
        return out


class DecoderBlock(nn.Module):
    """Up-sampling by `rate` and three residual units."""

    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation) for dilation in (1, 3, 9)]
        self.block = nn.ModuleList([Snake(inputs), CausalUpsample(inputs, outputs, 2 * rate, rate), *units])

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, T) -> (B, outputs, T * rate)."""
        for part in self.block:
            x = part(x)
        return x


class LayerScale(nn.Module):
    """One factor per channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> same."""
        out: Tensor = self.scale * x
        return out


class WindowAttention(nn.Module):
    """Self-attention over a sliding window, no normalisation of queries and keys."""

    def __init__(self, dim: int, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(dim, heads * head_dim, bias=False) for _ in range(3)
        )
        self.o_proj = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x: Tensor, tables: Rotary, mask: Tensor) -> Tensor:
        """(B, T, dim) -> same."""
        batch, length, _ = x.shape
        q, k, v = (
            f(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        o = F.scaled_dot_product_attention(rotate(q, tables), rotate(k, tables), v, attn_mask=mask)
        out: Tensor = self.o_proj(o.transpose(1, 2).reshape(batch, length, -1))
        return out


class GatedMlp(nn.Module):
    """SwiGLU."""

    def __init__(self, dim: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(dim, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> same."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class CodecLayer(nn.Module):
    """A layer of the decoder's transformer."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        dim = shape.hidden_size
        self.self_attn = WindowAttention(dim, shape.num_attention_heads, shape.head_dim)
        self.mlp = GatedMlp(dim, shape.intermediate_size)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(dim, 1e-5), RMSNorm(dim, 1e-5)
        self.self_attn_layer_scale, self.mlp_layer_scale = LayerScale(dim), LayerScale(dim)

    def forward(self, x: Tensor, tables: Rotary, mask: Tensor) -> Tensor:
        """(B, T, dim) -> same."""
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), tables, mask))
        out: Tensor = x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return out


class CodecTransformer(nn.Module):
    """The transformer in front of the up-sampling."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList([CodecLayer(shape) for _ in range(shape.num_hidden_layers)])
        self.norm = RMSNorm(shape.hidden_size, 1e-5)
        self.input_proj = nn.Linear(shape.latent_dim, shape.hidden_size)
        self.output_proj = nn.Linear(shape.hidden_size, shape.latent_dim)
        self.head_dim, self.window = shape.head_dim, shape.sliding_window

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, latent) -> same."""
        at = torch.arange(x.shape[1], device=x.device)
        distance = at[:, None] - at
        mask = (distance >= 0) & (distance < self.window)
        tables = rotary(at, self.head_dim, 10000.0)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, tables, mask)
        out: Tensor = self.output_proj(self.norm(x))
        return out


class Codebook(nn.Module):
    """Exponential sums of a codebook; its vectors are `embedding_sum / cluster_usage`."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.cluster_usage = nn.Parameter(torch.ones(size), requires_grad=False)
        self.embedding_sum = nn.Parameter(torch.randn(size, dim) * 0.1, requires_grad=False)

    def table(self) -> Tensor:
        """(size, dim)"""
        return self.embedding_sum / self.cluster_usage.clamp(min=1e-5)[:, None]

    def learn(self, x: Tensor, index: Tensor, decay: Tensor, dead: float = 0.3) -> None:
        """Moving averages from vectors (N, dim) and their codes (N,); hardly used codes move to random vectors."""
        one_hot = (index[:, None] == torch.arange(len(self.cluster_usage), device=x.device)).float()
        usage = self.cluster_usage * decay + one_hot.sum(0) * (1 - decay)
        sums = self.embedding_sum * decay + one_hot.t() @ x * (1 - decay)
        unused = usage < dead
        fresh = x[torch.randint(0, len(x), (len(usage),), device=x.device)]
        self.cluster_usage.copy_(torch.where(unused, 1.0, usage))
        self.embedding_sum.copy_(torch.where(unused[:, None], fresh, sums))


class _Layer(nn.Module):
    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self._codebook = Codebook(size, dim)


class _Stack(nn.Module):
    def __init__(self, size: int, dim: int, books: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Layer(size, dim) for _ in range(books)])


class Quantiser(nn.Module):
    """Residual vector quantiser between two projections."""

    def __init__(self, shape: CodecShape, books: int) -> None:
        super().__init__()
        dim = shape.codebook_dim // 2
        self.input_proj = nn.Conv1d(shape.front_latent, dim, 1, bias=False)
        self.output_proj = nn.Conv1d(dim, shape.codebook_dim, 1, bias=False)
        self.vq = _Stack(shape.codebook_size, dim, books)

    def books(self) -> list[Codebook]:
        """The codebooks, first to last."""
        return [layer._codebook for layer in self.vq.layers]  # type: ignore[misc]

    def decode(self, codes: Tensor) -> Tensor:
        """Codes (B, n, T) of the first n books -> (B, codebook_dim, T)."""
        tables = [book.table() for book in self.books()[: codes.shape[1]]]
        total = sum(F.embedding(codes[:, i], table) for i, table in enumerate(tables))
        assert isinstance(total, Tensor)
        out: Tensor = self.output_proj(total.transpose(1, 2))
        return out

    def quantise(
        self, z: Tensor, decay: Tensor | None = None, active: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Latent (B, front_latent, T) -> quantised (B, dim, T) with straight-through gradient, codes, commitment.

        `decay` switches learning on. `active` (B,) is the number of books that count in a row; the residual is still
        reduced by the others, or the deep books would be trained on shallow residuals.
        """
        x = self.input_proj(z).transpose(1, 2).float()
        batch, length, dim = x.shape
        rest = x.reshape(-1, dim)
        total = torch.zeros_like(rest)
        commitment = torch.zeros((), device=z.device)
        codes = []
        for i, book in enumerate(self.books()):
            with torch.no_grad():
                table = book.table()
                flat = rest.detach()
                index = (table.pow(2).sum(1)[None] - 2 * flat @ table.t()).argmin(1)
                if decay is not None:
                    book.learn(flat, index, decay)
            q = table[index]
            weight: Tensor | float = 1.0
            if active is not None:
                weight = (active > i).float()[:, None].expand(batch, length).reshape(-1, 1)
            commitment = commitment + ((rest - q).pow(2) * weight).mean()
            total = total + q * weight
            rest = rest - q
            codes.append(index.view(batch, length))
        straight = x + (total.view(batch, length, dim) - x).detach()
        return straight.transpose(1, 2), torch.stack(codes, 1), commitment


class SplitQuantiser(nn.Module):
    """One semantic book, and the others beside it."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        self.rvq_first = Quantiser(shape, 1)
        self.rvq_rest = Quantiser(shape, shape.num_quantizers - 1)

    def decode(self, codes: Tensor) -> Tensor:
        """(B, n, T) codes of the first n >= 1 books -> (B, codebook_dim, T)."""
        first = self.rvq_first.decode(codes[:, :1])
        return first + self.rvq_rest.decode(codes[:, 1:]) if codes.shape[1] > 1 else first


class CodecDecoder(nn.Module):
    """Codes to speech; the official `Qwen3TTSTokenizerV2Decoder` in state-dict names and arithmetic."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        latent, dim = shape.latent_dim, shape.decoder_dim
        self.pre_transformer = CodecTransformer(shape)
        self.quantizer = SplitQuantiser(shape)
        self.pre_conv = CausalConv(shape.codebook_dim, latent, 3)
        self.upsample = nn.ModuleList(
            [
                nn.ModuleList([CausalUpsample(latent, latent, f, f), ConvNeXt(latent)])
                for f in shape.upsampling_ratios
            ]
        )
        blocks = [DecoderBlock(dim >> i, dim >> (i + 1), r) for i, r in enumerate(shape.upsample_rates)]
        last = dim >> len(shape.upsample_rates)
        self.decoder = nn.ModuleList(
            [CausalConv(latent, dim, 7), *blocks, Snake(last), CausalConv(last, 1, 7)]
        )

    def front(self, h: Tensor) -> Tensor:
        """Dequantised latent (B, codebook_dim, T) -> features (B, decoder_dim, 4 T) at 50 Hz."""
        x = self.pre_transformer(self.pre_conv(h).transpose(1, 2)).transpose(1, 2)
        for part in (part for stage in self.upsample for part in stage.children()):
            x = part(x)
        out: Tensor = self.decoder[0](x)
        return out

    def back(self, x: Tensor) -> Tensor:
        """50 Hz features -> waves (B, samples)."""
        for block in self.decoder[1:-2]:
            x = block(x)
        final: Any = self.decoder[-1]
        out: Tensor = final(self.decoder[-2](x, final.left), True).squeeze(1)
        return out

    def forward(self, codes: Tensor) -> Tensor:
        """Codes (B, books, T) -> waves (B, T * 1920) in [-1, 1]."""
        return self.back(self.front(self.quantizer.decode(codes))).clamp(-1, 1)


class FrontEnd(nn.Module):
    """Log-mel patches to the latent that is quantised. Causal; not part of the checkpoint."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        width = shape.front_width
        self.c1 = CausalConv(80 * SUB, width, 2)
        self.c2 = CausalConv(width, width, 1)
        self.c3 = CausalConv(width, width, 3)
        self.c4 = CausalConv(width, width, 1)
        self.o = CausalConv(width, shape.front_latent, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """(B, n, 8, 80) -> (B, front_latent, n)."""
        h = F.gelu(self.c1(mel.flatten(2).transpose(1, 2)))
        h = h + self.c2(F.gelu(self.c3(h)))
        out: Tensor = self.o(F.gelu(self.c4(h)))
        return out


@torch.no_grad()
def encode(front: FrontEnd, quantizer: SplitQuantiser, mel: Tensor) -> Tensor:
    """Log-mel patches (B, n, 8, 80) -> codes (B, books, n)."""
    z = front(mel)
    return torch.cat([quantizer.rvq_first.quantise(z)[1], quantizer.rvq_rest.quantise(z)[1]], 1)
