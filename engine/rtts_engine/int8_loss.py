"""What int8 loses in each product of the language model, found before the weights are written.

A few sentences, each followed by frames of random codes, go through the checkpoint's own weights in float32, layer by
layer: a weight is read, multiplied as it is and as int8 multiplies it, and forgotten. The loss of a product is the
norm of the error over the norm of the exact result: 0.0115 where weights and inputs are spread like a normal
distribution. A product that loses more than ``LIMIT`` is tried with rotated inputs (``graph.rotation``), and one that
loses too much even so stays in fp16.

Measured on the shipped voice and on random weights: what loses most is the product behind the gate (``down_proj``), as
few of its inputs are large. They are not always the same ones, so that scaling channels beforehand ("smoothing")
gains nothing, while rotation gains nearly what fp16 would. Random codes find the products that the voice's own codes
find, but for one or two near the limit, and need no generation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.config import TalkerConfig, TransformerConfig
from rtts_engine.errors import CheckpointError
from rtts_engine.graph.rotation import block_size, rotated
from rtts_engine.graph.stack import gate_up_weight, qkv_weight
from rtts_engine.graph.writer import quantise
from rtts_engine.manifest import Product
from rtts_engine.manner import CloneVoice, Manner
from rtts_engine.positions import causal_mask, rope_frequencies, rope_tables
from rtts_engine.prompt import PromptBuilder
from rtts_engine.prompt_plan import PromptSpec
from rtts_engine.tables import CODEC_TABLE, TEXT_TABLE, acoustic_table, table_shapes
from rtts_engine.tensors import TensorSource
from rtts_engine.tokenizer import Tokenizer

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

LIMIT = 0.015
"""Largest loss of a product that is written in int8 (a cosine of 0.9999)."""
SENTENCES = ("Good morning, how can I help you?", "The train leaves at half past nine.")
FRAMES = 20
"""Frames after each sentence's prompt."""
PREDICTOR_FRAMES = 10
"""Of all frames, so many go through the code predictor."""
_JUDGED_ROWS = 64
"""Of a product's rows, so many are multiplied in int8, too."""


def judge_products(checkpoint: Checkpoint) -> dict[str, Product]:
    """Every product of text projection, talker and code predictor, by its name (see ``graph.stack``).

    Takes two or three products of some hundred rows for each weight, and memory for one.

    Raises:
        CheckpointError: a tensor is missing, or the networks' values are not finite.
    """
    config, tensors = checkpoint.config.talker, checkpoint.main
    judge = _Judge(checkpoint)
    embedder = _Embedder(tensors, config, judge)
    codes = _random_codes(config, len(SENTENCES))
    prompts = _prompts(checkpoint, embedder)
    sequences = [
        np.concatenate([rows, embedder.frames(c[:-1]) + pad])
        for (rows, pad), c in zip(prompts, codes, strict=True)
    ]
    hidden = forward(judge, tensors, "talker.model.", config.stack, sequences)
    head = tensors.float32("talker.codec_head.weight", (config.vocab_size, config.stack.hidden_size))
    judge("talker.codec_head", np.concatenate(hidden), head)
    # A frame is predicted from the row before it: the last one of the prompt, then the frames themselves.
    states = np.concatenate([rows[-FRAMES:] for rows in hidden])
    _predict(judge, tensors, config, embedder, states, np.concatenate(codes))
    return judge.found


class _Judge:
    """Multiplies in float32 and remembers what int8 would have lost."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.found: dict[str, Product] = {}
        self._path = checkpoint.path

    def __call__(self, name: str, x: F32, weight: F32) -> F32:
        """``x @ weight.T`` of rows x (n, K), weight (N, K); of a name's several calls the worst counts."""
        exact: F32 = x @ weight.T
        some = slice(None, None, -(-len(x) // _JUDGED_ROWS))
        loss = _loss(exact[some], x[some], weight)
        if not np.isfinite(loss):
            raise CheckpointError(
                f"{self._path}: the values of {name!r} are not finite; the weights are damaged, "
                "download the checkpoint again"
            )
        if name in self.found and loss <= self.found[name].loss:
            return exact
        if loss <= LIMIT:
            self.found[name] = Product("int8", loss)
        elif not block_size(x.shape[1]):
            self.found[name] = Product("fp16", loss)
        else:
            turned = _loss(exact[some], rotated(x[some]), rotated(weight))
            self.found[name] = Product("rotated" if turned <= LIMIT else "fp16", loss, turned)
        return exact


def _loss(exact: F32, x: F32, weight: F32) -> float:
    scale, rows = quantise(weight)
    error = (_int8_rows(x) @ rows.astype(np.float32).T) * (scale / 127) - exact
    return round(float(np.linalg.norm(error)) / max(float(np.linalg.norm(exact)), 1e-12), 5)


def _int8_rows(x: F32) -> F32:
    """Rows as an int8 product sees them: in 127ths of the row's largest magnitude."""
    step = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-12) / np.float32(127)
    rounded: F32 = np.rint(x / step) * step
    return rounded


class _Embedder:
    """Look-ups straight from the checkpoint. Implements ``prompt.Embedder``."""

    def __init__(self, tensors: TensorSource, config: TalkerConfig, judge: _Judge) -> None:
        self.hidden_size = config.stack.hidden_size
        self._tensors = tensors
        self._shapes = table_shapes(config)
        self._groups = config.num_code_groups
        self._judge = judge

    def _rows(self, table: str, ids: npt.ArrayLike) -> F32:
        return self._tensors.get(table, self._shapes[table]).rows(ids)

    def text(self, ids: Sequence[int]) -> F32:
        """TXT."""
        x = self._rows(TEXT_TABLE, ids)
        name, size, text = "talker.text_projection.linear_fc", self.hidden_size, x.shape[1]
        for n, outputs in ((1, text), (2, size)):
            weight = self._tensors.float32(f"{name}{n}.weight", (outputs, text))
            x = self._judge(f"{name}{n}", x, weight) + self._tensors.float32(f"{name}{n}.bias", (outputs,))
            x = _silu(x) if n == 1 else x
        return x

    def codec(self, ids: Sequence[int]) -> F32:
        return self._rows(CODEC_TABLE, ids)

    def acoustic(self, index: int, codes: npt.ArrayLike) -> F32:
        """Rows of the table for codebook ``index + 1``."""
        return self._rows(acoustic_table(index), codes)

    def frames(self, codes: I32) -> F32:
        total = self._rows(CODEC_TABLE, codes[:, 0])
        for i in range(self._groups - 1):
            total += self.acoustic(i, codes[:, i + 1])
        return total


def _random_codes(config: TalkerConfig, count: int) -> list[I32]:
    """``count`` times (FRAMES, groups), the same every time."""
    shape = (count, FRAMES, config.num_code_groups)
    return list(np.random.default_rng(0).integers(0, config.predictor.vocab_size, shape, np.int32))


def _prompts(checkpoint: Checkpoint, embedder: _Embedder) -> list[tuple[F32, F32]]:
    """The prompt of each sentence and the text row of the frames behind it."""
    config = checkpoint.config
    builder = PromptBuilder(PromptSpec.of(config), Tokenizer.from_dir(checkpoint.path), embedder)
    # Whose voice it is matters little, but a custom_voice model has been trained with one and a base model needs one.
    speakers = sorted(config.talker.speakers) if config.kind == "custom_voice" else []
    voice = CloneVoice(np.zeros(embedder.hidden_size, np.float32)) if config.kind == "base" else None
    manner = Manner(speaker=speakers[0] if speakers else None, voice=voice)
    prompts = [builder.build(sentence, manner, layout="full") for sentence in SENTENCES]
    return [(prompt.rows, prompt.pad) for prompt in prompts]


def _predict(
    judge: _Judge,
    tensors: TensorSource,
    config: TalkerConfig,
    embedder: _Embedder,
    states: F32,
    codes: I32,
) -> None:
    """Frames through the code predictor: the talker's states (F, D) and the codes (F, groups) that follow them."""
    every = len(codes) // PREDICTOR_FRAMES
    states, codes = states[::every], codes[::every]
    rows = [states, embedder.codec(codes[:, 0].tolist())]
    rows += [embedder.acoustic(s, codes[:, s + 1]) for s in range(config.num_code_groups - 2)]
    x = np.stack(rows, axis=1)  # (F, groups, D)
    width, inner = config.stack.hidden_size, config.predictor.stack.hidden_size
    if width != inner:
        name = "talker.code_predictor.small_to_mtp_projection"
        flat = judge(name, x.reshape(-1, width), tensors.float32(f"{name}.weight", (inner, width)))
        x = (flat + tensors.float32(f"{name}.bias", (inner,))).reshape(len(x), -1, inner)
    hidden = np.stack(
        forward(judge, tensors, "talker.code_predictor.model.", config.predictor.stack, list(x))
    )
    for s in range(config.num_code_groups - 1):
        name = f"talker.code_predictor.lm_head.{s}"
        judge(name, hidden[:, s + 1], tensors.float32(f"{name}.weight", (config.predictor.vocab_size, inner)))


def forward(
    judge: _Judge, tensors: TensorSource, prefix: str, config: TransformerConfig, sequences: Sequence[F32]
) -> list[F32]:
    """The final-normed rows of each sequence (n, width), which begins at position 0."""
    width, eps = config.hidden_size, config.rms_norm_eps
    cuts = np.cumsum([len(rows) for rows in sequences])[:-1]
    x = np.concatenate(sequences)
    for i in range(config.num_layers):
        layer = f"{prefix}layers.{i}."
        norms = [
            tensors.float32(f"{layer}{name}_layernorm.weight", (width,))
            for name in ("input", "post_attention")
        ]
        fused = judge(
            f"{layer}self_attn.qkv_proj", _rms_norm(x, norms[0], eps), qkv_weight(tensors, layer, config)
        )
        mixed = [_attend(rows, tensors, layer, config) for rows in np.split(fused, cuts)]
        name = f"{layer}self_attn.o_proj"
        weight = tensors.float32(f"{name}.weight", (width, config.num_heads * config.head_dim))
        x = x + judge(name, np.concatenate(mixed), weight)
        name = f"{layer}mlp.gate_up_proj"
        gate, up = np.split(
            judge(name, _rms_norm(x, norms[1], eps), gate_up_weight(tensors, layer, config)), 2, axis=1
        )
        name = f"{layer}mlp.down_proj"
        weight = tensors.float32(f"{name}.weight", (width, config.intermediate_size))
        x = x + judge(name, _silu(gate) * up, weight)
    final = tensors.float32(f"{prefix}norm.weight", (width,))
    return np.split(_rms_norm(x, final, eps), cuts)


def _attend(fused: F32, tensors: TensorSource, layer: str, config: TransformerConfig) -> F32:
    """Causal attention of one sequence's fused products (n, ...): (n, heads x head_dim)."""
    heads, kv_heads, size = config.num_heads, config.num_kv_heads, config.head_dim
    n, eps = len(fused), config.rms_norm_eps
    cos, sin = rope_tables(np.arange(n), rope_frequencies(size, config.rope_theta))
    q, k, v = (
        part.reshape(n, -1, size).transpose(1, 0, 2)  # (heads, n, size)
        for part in np.split(fused, [heads * size, (heads + kv_heads) * size], axis=1)
    )
    q, k = (
        _rotate(
            _rms_norm(rows, tensors.float32(f"{layer}self_attn.{name}_norm.weight", (size,)), eps), cos, sin
        )
        for name, rows in (("q", q), ("k", k))
    )
    k, v = (rows.repeat(heads // kv_heads, axis=0) for rows in (k, v))
    scores = q @ k.transpose(0, 2, 1) * np.float32(size**-0.5) + causal_mask(n, 0)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixed = (weights / weights.sum(axis=2, keepdims=True)) @ v
    joined: F32 = mixed.transpose(1, 0, 2).reshape(n, -1)
    return joined


def _rms_norm(x: F32, weight: F32, eps: float) -> F32:
    normed: F32 = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(eps)) * weight
    return normed


def _rotate(x: F32, cos: F32, sin: F32) -> F32:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _silu(x: F32) -> F32:
    # Written with tanh: exp of a large negative gate overflows.
    gated: F32 = x * np.float32(0.5) * (1 + np.tanh(x * np.float32(0.5)))
    return gated
