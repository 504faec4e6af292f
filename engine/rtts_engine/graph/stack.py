"""Graphs of the two autoregressive stacks and of the text projection (semantics: talker, code predictor, TXT).

Inputs of a stack: ``x`` (n, width) rows, ``mask`` (n, past + n) added to the attention scores, ``cos`` and ``sin``
(n, head_dim / 2), ``pick`` (m, n) zeros and ones, one row for each row that is wanted, and per layer the caches
``pk<i>``, ``pv<i>``. Outputs: what the caller names, and the caches ``ck<i>``, ``cv<i>`` (opaque, see ``runtime``).

A run may stop before the attention of layer i, at ``q<i>``, ``k<i>``, ``v<i>`` (heads, n, head_dim), and go on from its
result ``a<i>`` (n, heads x head_dim): rows of several streams share the products while each keeps its own caches and
has its own attention (``write_attention``). The rows after the last layer are ``top``, those picked from them
``picked``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rtts_engine.config import TalkerConfig, TransformerConfig
from rtts_engine.graph.writer import Blob, GraphWriter, Precision
from rtts_engine.tensors import TensorSource


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
    weights = [
        tensors.float32(f"{prefix}self_attn.{name}_proj.weight", (count * head, width))
        for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
    ]
    # One product for q, k and v: fewer, larger products are faster, and the result is bit-exact.
    fused = g.linear(x, np.concatenate(weights))
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
    out = g.linear(mixed, tensors.float32(f"{prefix}self_attn.o_proj.weight", (width, heads * head)))
    return out, new_keys, new_values


def _feed_forward(
    g: GraphWriter, x: Blob, tensors: TensorSource, prefix: str, config: TransformerConfig
) -> Blob:
    width, inner = config.hidden_size, config.intermediate_size
    gate, up = (tensors.float32(f"{prefix}mlp.{name}_proj.weight", (inner, width)) for name in ("gate", "up"))
    gated, linear = g.split_at(g.linear(x, np.concatenate([gate, up])), [inner, inner], axis=1)
    down = tensors.float32(f"{prefix}mlp.down_proj.weight", (width, inner))
    return g.linear(g.multiply(g.silu(gated), linear), down)


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
    x = g.label(g.pick(g.label(x, "top"), g.input("pick")), "picked")
    final = tensors.float32(f"{prefix}norm.weight", (config.hidden_size,))
    return g.rms_norm(x, final, config.rms_norm_eps)


def write_talker(tensors: TensorSource, config: TalkerConfig, stem: Path, precision: Precision) -> None:
    """Talker: outputs ``hidden`` (m, D), the final-normed rows, and ``logits`` (m, vocab)."""
    with GraphWriter(stem, precision) as g:
        hidden = _stack(g, g.input("x"), tensors, "talker.model.", config.stack)
        g.output(hidden, "hidden")
        head = tensors.float32("talker.codec_head.weight", (config.vocab_size, config.stack.hidden_size))
        g.output(g.linear(hidden, head), "logits")


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


def write_predictor(tensors: TensorSource, config: TalkerConfig, stem: Path, precision: Precision) -> None:
    """Code predictor: rows of talker width in, ``logits<s>`` (m, C) for s = 0..14 out.

    ncnn computes only the head that a run asks for.
    """
    predictor, width = config.predictor, config.stack.hidden_size
    inner = predictor.stack.hidden_size
    with GraphWriter(stem, precision) as g:
        x = g.input("x")
        if width != inner:
            name = "talker.code_predictor.small_to_mtp_projection"
            weight = tensors.float32(f"{name}.weight", (inner, width))
            x = g.linear(x, weight, tensors.float32(f"{name}.bias", (inner,)))
        hidden = _stack(g, x, tensors, "talker.code_predictor.model.", predictor.stack)
        for s in range(config.num_code_groups - 1):
            head = tensors.float32(f"talker.code_predictor.lm_head.{s}.weight", (predictor.vocab_size, inner))
            g.output(g.linear(hidden, head), f"logits{s}")


def write_text_projection(
    tensors: TensorSource, config: TalkerConfig, stem: Path, precision: Precision
) -> None:
    """TXT: ``x`` (n, text_hidden_size), rows of the text embedding, to ``y`` (n, D)."""
    text, width = config.text_hidden_size, config.stack.hidden_size
    name = "talker.text_projection.linear_fc"
    with GraphWriter(stem, precision) as g:
        x = g.linear(
            g.input("x"),
            tensors.float32(f"{name}1.weight", (text, text)),
            tensors.float32(f"{name}1.bias", (text,)),
        )
        weight = tensors.float32(f"{name}2.weight", (width, text))
        g.output(g.linear(g.silu(x), weight, tensors.float32(f"{name}2.bias", (width,))), "y")
