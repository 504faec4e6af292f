"""Graphs of the two autoregressive stacks and of the text projection (semantics: talker, code predictor, TXT).

Inputs of a stack: ``x`` (n, width) rows, ``mask`` (n, past + n) added to the attention scores, ``cos`` and ``sin``
(n, head_dim / 2), ``pick`` (m, n) zeros and ones, one row for each row that is wanted, and per layer the caches
``pk<i>``, ``pv<i>``. Outputs: what the caller names, and the caches ``ck<i>``, ``cv<i>`` (opaque, see ``runtime``).

A run may stop before the attention of layer i, at ``q<i>``, ``k<i>``, ``v<i>`` (heads, n, head_dim), and go on from its
result ``a<i>`` (n, heads x head_dim): rows of several streams share the products while each keeps its own caches and
has its own attention (``write_attention``). The rows after layer i are ``h<i>``, after the last one ``top``, those
picked from them ``picked``.

A product is named as its weight in the checkpoint; fused ones ``qkv_proj`` and ``gate_up_proj``. ``forms`` of an int8
graph's products: see ``int8_loss``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TalkerConfig, TransformerConfig
from rtts_engine.graph.writer import Blob, Form, GraphWriter, Precision
from rtts_engine.tensors import TensorSource

F32 = npt.NDArray[np.float32]


def qkv_weight(tensors: TensorSource, prefix: str, config: TransformerConfig) -> F32:
    """The weights of a layer's queries, keys and values, one below the other."""
    width, head = config.hidden_size, config.head_dim
    counts = (("q", config.num_heads), ("k", config.num_kv_heads), ("v", config.num_kv_heads))
    return np.concatenate(
        [
            tensors.float32(f"{prefix}self_attn.{name}_proj.weight", (count * head, width))
            for name, count in counts
        ]
    )


def gate_up_weight(tensors: TensorSource, prefix: str, config: TransformerConfig) -> F32:
    """The weights of a layer's gate and of what it gates, one below the other."""
    shape = (config.intermediate_size, config.hidden_size)
    return np.concatenate(
        [tensors.float32(f"{prefix}mlp.{name}_proj.weight", shape) for name in ("gate", "up")]
    )


def _attention(
    g: GraphWriter,
    x: Blob,
    tables: tuple[Blob, Blob, Blob],
    tensors: TensorSource,
    prefix: str,
    config: TransformerConfig,
) -> tuple[Blob, Blob, Blob]:
    """Returns the projected attention output and the grown key and value caches."""
    mask, cos, sin = tables
    index = prefix.rsplit(".", 2)[-2]
    width, head = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_heads, config.num_kv_heads
    # One product for q, k and v: fewer, larger products are faster, and the result is bit-exact.
    fused = g.linear(x, qkv_weight(tensors, prefix, config), name=f"{prefix}self_attn.qkv_proj")
    pieces = g.split_at(fused, [heads * head, kv_heads * head, kv_heads * head], axis=1)
    queries, keys, values = (
        g.reshape(piece, -1, count, head)
        for piece, count in zip(pieces, (heads, kv_heads, kv_heads), strict=True)
    )
    queries = g.rms_norm(
        queries, tensors.float32(f"{prefix}self_attn.q_norm.weight", (head,)), config.rms_norm_eps
    )
    keys = g.rms_norm(keys, tensors.float32(f"{prefix}self_attn.k_norm.weight", (head,)), config.rms_norm_eps)
    queries, keys = (g.permute(b, 2) for b in (queries, keys))  # (heads, n, head)
    queries = g.label(g.rope(queries, cos, sin), f"q{index}")
    keys = g.label(g.rope(keys, cos, sin), f"k{index}")
    values = g.label(g.permute(values, 2), f"v{index}")
    past = (g.input(f"pk{index}"), g.input(f"pv{index}"))
    mixed, new_keys, new_values = g.cached_attention(queries, keys, values, mask, head**-0.5, past)
    mixed = g.label(g.reshape(g.permute(mixed, 2), -1, heads * head), f"a{index}")
    name = f"{prefix}self_attn.o_proj"
    out = g.linear(mixed, tensors.float32(f"{name}.weight", (width, heads * head)), name=name)
    return out, new_keys, new_values


def _feed_forward(
    g: GraphWriter, x: Blob, tensors: TensorSource, prefix: str, config: TransformerConfig
) -> Blob:
    width, inner = config.hidden_size, config.intermediate_size
    fused = g.linear(x, gate_up_weight(tensors, prefix, config), name=f"{prefix}mlp.gate_up_proj")
    gated, linear = g.split_at(fused, [inner, inner], axis=1)
    name = f"{prefix}mlp.down_proj"
    down = tensors.float32(f"{name}.weight", (width, inner))
    return g.linear(g.multiply(g.silu(gated), linear), down, name=name)


def _stack(g: GraphWriter, x: Blob, tensors: TensorSource, prefix: str, config: TransformerConfig) -> Blob:
    """All layers and the final norm of the picked rows: (m, width)."""
    tables = (g.input("mask"), g.input("cos"), g.input("sin"))
    for i in range(config.num_layers):
        layer = f"{prefix}layers.{i}."
        norms = [
            tensors.float32(f"{layer}{name}_layernorm.weight", (config.hidden_size,))
            for name in ("input", "post_attention")
        ]
        attended, keys, values = _attention(
            g, g.rms_norm(x, norms[0], config.rms_norm_eps), tables, tensors, layer, config
        )
        g.output(keys, f"ck{i}")
        g.output(values, f"cv{i}")
        x = g.add(x, attended)
        x = g.add(x, _feed_forward(g, g.rms_norm(x, norms[1], config.rms_norm_eps), tensors, layer, config))
        x = g.label(x, f"h{i}" if i + 1 < config.num_layers else "top")
    x = g.label(g.pick(x, g.input("pick")), "picked")
    final = tensors.float32(f"{prefix}norm.weight", (config.hidden_size,))
    return g.rms_norm(x, final, config.rms_norm_eps)


def write_talker(
    tensors: TensorSource,
    config: TalkerConfig,
    stem: Path,
    precision: Precision,
    forms: Mapping[str, Form] | None = None,
) -> None:
    """Talker: outputs ``hidden`` (m, D), the final-normed rows, and ``logits`` (m, vocab)."""
    with GraphWriter(stem, precision, forms) as g:
        hidden = _stack(g, g.input("x"), tensors, "talker.model.", config.stack)
        g.output(hidden, "hidden")
        name = "talker.codec_head"
        head = tensors.float32(f"{name}.weight", (config.vocab_size, config.stack.hidden_size))
        g.output(g.linear(hidden, head, name=name), "logits")


def write_attention(config: TransformerConfig, stem: Path, precision: Precision) -> None:
    """The attention of one row over one stream's cache, for any layer of a stack: it has no weights.

    Inputs ``qkv`` (heads + 2 x kv_heads, 1, head_dim), the layer's ``q``, ``k`` and ``v`` one after another, and the
    caches ``pk`` and ``pv``; outputs ``a`` (heads, 1, head_dim) and the grown caches ``ck`` and ``cv``.
    """
    sizes = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
    with GraphWriter(stem, precision) as g:
        q, k, v = g.split_at(g.input("qkv"), sizes, axis=0)
        past = (g.input("pk"), g.input("pv"))
        mixed, keys, values = g.cached_attention(q, k, v, None, config.head_dim**-0.5, past)
        g.output(mixed, "a")
        g.output(keys, "ck")
        g.output(values, "cv")


def write_predictor(
    tensors: TensorSource,
    config: TalkerConfig,
    stem: Path,
    precision: Precision,
    forms: Mapping[str, Form] | None = None,
) -> None:
    """Code predictor: rows of talker width in, ``logits<s>`` (m, C) for s = 0..14 out.

    ncnn computes only the head that a run asks for.
    """
    predictor, width = config.predictor, config.stack.hidden_size
    inner = predictor.stack.hidden_size
    with GraphWriter(stem, precision, forms) as g:
        x = g.input("x")
        if width != inner:
            name = "talker.code_predictor.small_to_mtp_projection"
            weight = tensors.float32(f"{name}.weight", (inner, width))
            x = g.linear(x, weight, tensors.float32(f"{name}.bias", (inner,)), name)
        hidden = _stack(g, x, tensors, "talker.code_predictor.model.", predictor.stack)
        for s in range(config.num_code_groups - 1):
            name = f"talker.code_predictor.lm_head.{s}"
            head = tensors.float32(f"{name}.weight", (predictor.vocab_size, inner))
            g.output(g.linear(hidden, head, name=name), f"logits{s}")


def write_text_projection(
    tensors: TensorSource,
    config: TalkerConfig,
    stem: Path,
    precision: Precision,
    forms: Mapping[str, Form] | None = None,
) -> None:
    """TXT: ``x`` (n, text_hidden_size), rows of the text embedding, to ``y`` (n, D)."""
    text, width = config.text_hidden_size, config.stack.hidden_size
    first, second = (f"talker.text_projection.linear_fc{n}" for n in (1, 2))
    with GraphWriter(stem, precision, forms) as g:
        weight = tensors.float32(f"{first}.weight", (text, text))
        x = g.linear(g.input("x"), weight, tensors.float32(f"{first}.bias", (text,)), first)
        weight = tensors.float32(f"{second}.weight", (width, text))
        g.output(g.linear(g.silu(x), weight, tensors.float32(f"{second}.bias", (width,)), second), "y")
