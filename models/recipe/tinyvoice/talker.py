"""Talker and code predictor (the official graph and state-dict names), written for training on packed rows."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .codec import GatedMlp
from .config import StackShape
from .ids import CodecIds
from .layers import RMSNorm, Rotary, rotary, rotate

Cache = list[tuple[Tensor, Tensor]]
"""Keys and values (B, kv heads, room, head_dim) per layer."""


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, shape: StackShape) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, self.kv * self.dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, self.kv * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, shape.hidden_size, bias=False)
        self.q_norm, self.k_norm = RMSNorm(self.dim), RMSNorm(self.dim)

    def project(self, x: Tensor, tables: Rotary) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, hidden) -> q (B, heads, T, dim), k and v (B, kv, T, dim)."""
        batch, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, self.heads, self.dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.kv, self.dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv, self.dim).transpose(1, 2)
        return rotate(q, tables), rotate(k, tables), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """(output (B, T, hidden), scores (B, kv, group, T, S)); `bias` broadcasts over the scores."""
        batch, _, length, _ = q.shape
        grouped = q.reshape(batch, self.kv, self.heads // self.kv, length, self.dim)
        scores = grouped @ k[:, :, None].transpose(-1, -2) * self.dim**-0.5
        scores = scores.float() + bias
        mixed = scores.softmax(-1).to(v.dtype) @ v[:, :, None]
        mixed = mixed.reshape(batch, self.heads, length, self.dim).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(mixed), scores


class Layer(nn.Module):
    """Pre-norm transformer layer."""

    def __init__(self, shape: StackShape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = GatedMlp(shape.hidden_size, shape.intermediate_size)
        self.input_layernorm, self.post_attention_layernorm = (
            RMSNorm(shape.hidden_size),
            RMSNorm(shape.hidden_size),
        )
        self.dropout = 0.0

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Residual additions and the MLP."""
        x = x + F.dropout(mixed, self.dropout, self.training)
        out: Tensor = x + F.dropout(self.mlp(self.post_attention_layernorm(x)), self.dropout, self.training)
        return out

    def forward(self, x: Tensor, tables: Rotary, bias: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, hidden) -> same, and the attention scores."""
        mixed, scores = self.self_attn.attend(*self.self_attn.project(self.input_layernorm(x), tables), bias)
        return self.finish(x, mixed), scores


class Stack(nn.Module):
    """Layers and the final norm. Subclasses add the embedding tables under the official names."""

    def __init__(self, shape: StackShape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.num_hidden_layers)])
        self.norm = RMSNorm(shape.hidden_size)

    def run(
        self, x: Tensor, tables: Rotary, bias: Tensor, watch: tuple[int, ...] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        """(B, T, hidden) -> normed states, and the first head's scores (B, T, T) of the watched layers."""
        x = x.float()  # the residual stream stays in float32 under autocast
        watched = []
        for i, layer in enumerate(self.layers):
            x, scores = layer(x, tables, bias)
            if i in watch:
                watched.append(scores[:, 0, 0])
        return self.norm(x), watched

    def cache(self, batch: int, room: int, like: Tensor) -> Cache:
        """Empty keys and values."""
        size = (batch, self.shape.num_key_value_heads, room, self.shape.head_dim)
        return [(like.new_zeros(size), like.new_zeros(size)) for _ in self.layers]

    def step(self, x: Tensor, at: Tensor, cache: Cache, bias: Tensor) -> Tensor:
        """Rows (B, T, hidden) at positions (B, T) of each item, with cached keys; `bias` (B, 1, 1, T, room)."""
        tables = rotary(at, self.shape.head_dim, self.shape.rope_theta)
        index = at[:, None, :, None].expand(-1, self.shape.num_key_value_heads, -1, self.shape.head_dim)
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            part: Any = layer
            q, k, v = part.self_attn.project(part.input_layernorm(x), tables)
            keys.scatter_(2, index, k)
            values.scatter_(2, index, v)
            mixed, _ = part.self_attn.attend(q, keys, values, bias)
            x = part.finish(x, mixed)
        out: Tensor = self.norm(x)
        return out


class TalkerModel(Stack):
    """The talker's stack and its two embedding tables."""

    def __init__(self, shape: StackShape, codec_vocab: int, text_vocab: int) -> None:
        super().__init__(shape)
        self.codec_embedding = nn.Embedding(codec_vocab, shape.hidden_size)
        self.text_embedding = nn.Embedding(text_vocab, shape.hidden_size)


class PredictorModel(Stack):
    """The predictor's stack and the tables of codes 1 to 15 (talker width)."""

    def __init__(self, shape: StackShape, codes: int, books: int, width: int) -> None:
        super().__init__(shape)
        self.codec_embedding = nn.ModuleList([nn.Embedding(codes, width) for _ in range(books - 1)])


class CodePredictor(nn.Module):
    """Codes 1 to 15 of a frame, one after another."""

    def __init__(self, shape: StackShape, codes: int, books: int, width: int) -> None:
        super().__init__()
        if shape.hidden_size != width:
            raise ValueError(
                "this recipe keeps the predictor as wide as the talker (no small_to_mtp_projection)"
            )
        self.model = PredictorModel(shape, codes, books, width)
        self.lm_head = nn.ModuleList(
            [nn.Linear(shape.hidden_size, codes, bias=False) for _ in range(books - 1)]
        )

    def tables(self) -> Tensor:
        """(books - 1, codes, width)"""
        return torch.stack([e.weight for e in self.model.codec_embedding])  # type: ignore[misc]

    def heads(self) -> Tensor:
        """(books - 1, codes, hidden)"""
        return torch.stack([h.weight for h in self.lm_head])  # type: ignore[misc]


class TextProjection(nn.Module):
    """`text_projection` of the official model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> same."""
        out: Tensor = self.linear_fc2(F.silu(self.linear_fc1(x)))
        return out


def one_hot(index: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Rows of an embedding as a matrix product: its backward pass is one, too. Index -1 gives zeros."""
    return (index[..., None] == torch.arange(size, device=index.device)).to(dtype)


@dataclass
class Rows:
    """A batch of packed rows (B, L); several utterances in a row, each at positions 0, 1, ..."""

    text: Tensor
    """Text id."""
    codec: Tensor
    """Control id on the codec track, or -1."""
    frame: Tensor
    """Frame whose codes are the input here, or -1."""
    target: Tensor
    """Frame to predict from here, -1 for none, -2 for end of speech."""
    segment: Tensor
    """Which utterance of the row, -1 for filling."""
    position: Tensor
    low: Tensor
    """First and last row position of the text that the target frame speaks, or -1."""
    high: Tensor


class Talker(nn.Module):
    """The whole language model."""

    def __init__(
        self, talker: StackShape, predictor: StackShape, codes: int, books: int, text_vocab: int
    ) -> None:
        super().__init__()
        self.ids = CodecIds(codes)
        self.books, self.codes = books, codes
        self.model = TalkerModel(talker, self.ids.vocab, text_vocab)
        self.text_projection = TextProjection(talker.hidden_size)
        self.codec_head = nn.Linear(talker.hidden_size, self.ids.vocab, bias=False)
        self.code_predictor = CodePredictor(predictor, codes, books, talker.hidden_size)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)
            if "o_proj" in name or "down_proj" in name:
                p.data.mul_(0.3)

    def set_dropout(self, p: float) -> None:
        """Residual dropout of the talker's layers and half of it in the predictor."""
        for layer in self.model.layers:
            layer.dropout = p  # type: ignore[assignment]
        for layer in self.code_predictor.model.layers:
            layer.dropout = p / 2  # type: ignore[assignment]

    def embed(self, text: Tensor, codec: Tensor, codes: Tensor, spoken: Tensor, dtype: torch.dtype) -> Tensor:
        """Sum of both tracks (B, L, hidden).

        Text ids, codec ids or -1 (B, L); codes 1 to 15 (B, L, 15) count where `spoken` (B, L).
        """
        words = self.text_projection(self.model.text_embedding.weight).to(dtype)
        x = one_hot(text, words.shape[0], dtype) @ words
        x = x + one_hot(codec, self.ids.vocab, dtype) @ self.model.codec_embedding.weight.to(dtype)
        deep = one_hot(torch.where(spoken[..., None], codes, -1), self.codes, dtype).flatten(-2)
        out: Tensor = x + deep @ self.code_predictor.tables().flatten(0, 1).to(dtype)
        return out

    def predict(self, h: Tensor, codes: Tensor, given: Tensor, dtype: torch.dtype) -> Tensor:
        """Logits (N, 15, codes) of codes 1 to 15 from states (N, hidden).

        `given` (N, 16) are the codes fed to the predictor (`codes`, perhaps with noise).
        """
        first = one_hot(given[:, 0], self.ids.vocab, dtype) @ self.model.codec_embedding.weight.to(dtype)
        hot = one_hot(given[:, 1 : self.books - 1], self.codes, dtype)
        rest = torch.einsum("nck,ckd->ncd", hot, self.code_predictor.tables()[: self.books - 2].to(dtype))
        x = torch.cat([h[:, None].to(dtype), first[:, None], rest], 1)
        shape = self.code_predictor.model.shape
        at = torch.arange(self.books, device=h.device)
        bias = torch.where(at[:, None] >= at, 0.0, -1e4)
        y, _ = self.code_predictor.model.run(x, rotary(at, shape.head_dim, shape.rope_theta), bias)
        return torch.einsum("ncd,ckd->nck", y[:, 1:], self.code_predictor.heads().to(y.dtype))

    def encode_rows(
        self, rows: Rows, codes: Tensor, spoken: Tensor, dtype: torch.dtype, watch: tuple[int, ...]
    ) -> tuple[Tensor, list[Tensor]]:
        """States (B, L, hidden) of packed rows whose input codes are (B, L, 16), and the watched scores."""
        codec = torch.where(spoken, codes[..., 0], rows.codec)
        x = self.embed(rows.text, codec, codes[..., 1:], spoken, dtype)
        shape = self.model.shape
        at = torch.arange(rows.text.shape[1], device=x.device)
        same = rows.segment[:, :, None] == rows.segment[:, None, :]
        bias = torch.where(same & (at[:, None] >= at), 0.0, -1e4)[:, None, None]
        return self.model.run(x, rotary(rows.position, shape.head_dim, shape.rope_theta), bias, watch)
