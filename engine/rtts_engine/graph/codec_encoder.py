"""The codec encoder (Mimi) as an ncnn graph: reference audio to the latent that the residual quantiser codes.

One net with two parts that share nothing, because a run computes only what its outputs need. The first is the causal
convolution stack, 24 kHz to 25 Hz; the second is the transformer at 25 Hz with key/value caches, whose attention is
causal over the whole clip. The configured attention window has no effect in the official package as the codec is loaded
there, and so it has none here.

The graph is always fp32: codes are argmins, and a rounding error would become another code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.config import CodecConfig, CodecEncoderConfig
from rtts_engine.errors import CheckpointError
from rtts_engine.graph.codec_decoder import codebook_entries
from rtts_engine.graph.writer import Blob, GraphWriter
from rtts_engine.tensors import TensorSource

F32 = npt.NDArray[np.float32]

PREFIX = "codec_encoder."
DOWNSAMPLE = PREFIX + "downsample"
"""Table: kernel of the last convolution, 25 to 12.5 Hz (hidden, hidden, 4)."""
PROJECTIONS = PREFIX + "projections"
"""Table: semantic and acoustic input projection of the quantiser (2, width, hidden)."""
BOOKS = PREFIX + "books"
"""Table: entries of the codebooks in use (groups, C, width)."""

DOWNSAMPLE_KERNEL = 4
DOWNSAMPLE_STRIDE = 2


@dataclass(frozen=True, slots=True)
class Stage:
    """Residual units and the strided convolution after them."""

    ratio: int
    width: int
    """Channels before the strided convolution, which doubles them."""
    index: int
    """Number of the first residual unit among ``encoder.encoder.layers``."""


def stages(config: CodecEncoderConfig) -> Iterator[Stage]:
    """The stages from 24 kHz down; the config lists their ratios in the decoder's order."""
    width, index = config.num_filters, 1
    for ratio in reversed(config.upsampling_ratios):
        yield Stage(ratio, width, index)
        width *= 2
        index += config.num_residual_layers + 2


def context_samples(config: CodecEncoderConfig) -> int:
    """Past samples that an output column of the convolution stack depends on (3,320 with the released config)."""
    units = (config.residual_kernel_size - 1) * sum(
        config.dilation_growth_rate**j for j in range(config.num_residual_layers)
    )
    columns = config.last_kernel_size - 1
    for ratio in config.upsampling_ratios:
        columns = columns * ratio + ratio + units
    return columns + config.kernel_size - 1


def has_encoder(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint can code reference audio: a codec may be published without its encoder."""
    return any(name.startswith("encoder.") for name in checkpoint.codec)


def codec_encoder_tables(checkpoint: Checkpoint) -> dict[str, F32]:
    """What the host side of the encoder needs: ``DOWNSAMPLE``, ``PROJECTIONS`` and ``BOOKS``, float32.

    Raises:
        CheckpointError: a tensor is missing or has another shape than the config says.
    """
    codec, source = checkpoint.config.codec, checkpoint.codec
    c = codec.encoder
    width = c.vector_quantization_hidden_dimension
    if c.codebook_dim != width or c.codebook_size != codec.decoder.codebook_size:
        raise CheckpointError(
            f"{source.path}: encoder codebooks are {c.codebook_size} x {c.codebook_dim}, expected "
            f"{codec.decoder.codebook_size} (decoder_config) x {width} (vector_quantization_hidden_dimension)"
        )
    projections = np.empty((2, width, c.hidden_size), np.float32)
    books = np.empty((codec.num_quantizers, c.codebook_size, width), np.float32)
    for split, kind in enumerate(("semantic", "acoustic")):
        name = f"encoder.quantizer.{kind}_residual_vector_quantizer"
        if width == c.hidden_size:  # the official code then has no projection
            projections[split] = np.eye(width, dtype=np.float32)
        else:
            projections[split] = source.float32(f"{name}.input_proj.weight", (width, c.hidden_size, 1))[
                :, :, 0
            ]
        for group in (0,) if split == 0 else range(1, codec.num_quantizers):
            prefix = f"{name}.layers.{max(0, group - 1)}.codebook"
            books[group] = codebook_entries(source, prefix, c.codebook_size, width, sums="embed_sum")
    shape = (c.hidden_size, c.hidden_size, DOWNSAMPLE_KERNEL)
    return {
        DOWNSAMPLE: source.float32("encoder.downsample.conv.weight", shape),
        PROJECTIONS: projections,
        BOOKS: books,
    }


def write_codec_encoder(checkpoint: Checkpoint, stem: Path) -> None:
    """Write ``stem.param`` and ``stem.bin``, fp32.

    First part: ``samples`` (1, 1, n) with its left context, and ``pad<i>`` (width, 1, ratio + right padding) zeros for
    stage ``i``, to ``latent`` (columns, hidden). Second part: ``x`` (n, hidden), ``mask`` (n, past + n), ``cos`` and
    ``sin`` (n, head_dim / 2) and the caches ``pk<l>``, ``pv<l>`` to ``y`` (n, hidden) and ``ck<l>``, ``cv<l>``.

    Raises:
        CheckpointError: a tensor is missing or has another shape than the config says.
    """
    with GraphWriter(stem, "fp32") as graph:
        encoder = _Encoder(graph, checkpoint.codec, checkpoint.config.codec)
        encoder.convolutions()
        encoder.transformer()


class _Encoder:
    """Adds the encoder's layers to a graph, reading one layer's tensors at a time."""

    def __init__(self, graph: GraphWriter, source: TensorSource, config: CodecConfig) -> None:
        self._g = graph
        self._source = source
        self._c = config.encoder

    def _weight(self, name: str, *shape: int) -> F32:
        return self._source.float32(f"encoder.{name}", shape)

    def convolutions(self) -> None:
        c, g = self._c, self._g
        x = self._conv(g.input("samples"), "encoder.layers.0", 1, c.num_filters, c.kernel_size)
        index, width = 0, c.num_filters
        for i, stage in enumerate(stages(c)):
            index, width = stage.index, stage.width
            for unit in range(c.num_residual_layers):
                x = self._unit(x, f"encoder.layers.{index}.block", width, c.dilation_growth_rate**unit)
                index += 1
            # The stride's right padding depends on the clip's length: it comes from outside, behind a whole
            # stride of zeros, since a blob cannot be empty; their one surplus output column is cut off.
            x = g.concat([self._elu(x), g.input(f"pad{i}")], 2)
            ratio, index = stage.ratio, index + 1
            x = self._conv(x, f"encoder.layers.{index}", width, 2 * width, 2 * ratio, stride=ratio)
            x = g.layer("Crop", [x], {9: [0], 10: [-1], 11: [2]})
            width *= 2
        x = self._conv(self._elu(x), f"encoder.layers.{index + 2}", width, c.hidden_size, c.last_kernel_size)
        g.output(g.permute(g.reshape(x, c.hidden_size, -1), 1), "latent")

    def _elu(self, x: Blob) -> Blob:
        return self._g.layer("ELU", [x], {0: 1.0})

    def _conv(
        self,
        x: Blob,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
    ) -> Blob:
        """Causal convolution: zeros on the left only."""
        weight = self._weight(f"{name}.conv.weight", outputs, inputs, kernel)
        bias = self._weight(f"{name}.conv.bias", outputs)
        left = (kernel - 1) * dilation + 1 - stride
        if left:
            x = self._g.layer("Padding", [x], {2: left, 3: 0, 4: 0, 5: 0.0})
        return self._g.conv(x, weight, bias, stride=stride, dilation=dilation)

    def _unit(self, x: Blob, name: str, width: int, dilation: int) -> Blob:
        """``x + conv(elu(conv(elu(x))))``"""
        inner, kernel = width // self._c.compress, self._c.residual_kernel_size
        h = self._conv(self._elu(x), f"{name}.1", width, inner, kernel, dilation=dilation)
        return self._g.add(x, self._conv(self._elu(h), f"{name}.3", inner, width, 1))

    def transformer(self) -> None:
        g = self._g
        x, mask, cos, sin = (g.input(name) for name in ("x", "mask", "cos", "sin"))
        for layer in range(self._c.num_layers):
            x = self._layer(x, layer, mask, cos, sin)
        g.output(x, "y")

    def _layer(self, x: Blob, layer: int, mask: Blob, cos: Blob, sin: Blob) -> Blob:
        c, g, name = self._c, self._g, f"encoder_transformer.layers.{layer}"
        inner, hidden = c.num_heads * c.head_dim, c.hidden_size
        h = self._norm(x, f"{name}.input_layernorm")
        fused = [self._weight(f"{name}.self_attn.{p}_proj.weight", inner, hidden) for p in "qkv"]
        parts = g.split_at(g.linear(h, np.concatenate(fused)), [inner] * 3, 1)
        q, k, v = (g.permute(g.reshape(part, -1, c.num_heads, c.head_dim), 2) for part in parts)
        q, k = (g.rope(part, cos, sin) for part in (q, k))
        past = (g.input(f"pk{layer}"), g.input(f"pv{layer}"))
        h, keys, values = g.cached_attention(q, k, v, mask, c.head_dim**-0.5, past)
        g.output(keys, f"ck{layer}")
        g.output(values, f"cv{layer}")
        h = g.reshape(g.permute(h, 2), -1, inner)
        x = g.add(
            x, g.linear(h, self._scaled(f"{name}.self_attn.o_proj", f"{name}.self_attn_layer_scale", inner))
        )
        h = self._norm(x, f"{name}.post_attention_layernorm")
        h = g.gelu(g.linear(h, self._weight(f"{name}.mlp.fc1.weight", c.intermediate_size, hidden)))
        return g.add(
            x, g.linear(h, self._scaled(f"{name}.mlp.fc2", f"{name}.mlp_layer_scale", c.intermediate_size))
        )

    def _norm(self, x: Blob, name: str) -> Blob:
        hidden = self._c.hidden_size
        weight, bias = self._weight(f"{name}.weight", hidden), self._weight(f"{name}.bias", hidden)
        return self._g.layer_norm(x, weight, bias, self._c.norm_eps)

    def _scaled(self, linear: str, scale: str, inputs: int) -> F32:
        """Weight (hidden, inputs) with the LayerScale that follows it."""
        weight = self._weight(f"{linear}.weight", self._c.hidden_size, inputs)
        return weight * self._weight(f"{scale}.scale", self._c.hidden_size)[:, None]
