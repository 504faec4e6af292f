"""The streaming codec decoder as an ncnn graph: codes' latents in, samples and the next state out.

Every convolution of the official decoder is causal and the transformer sees a fixed window, so that a finite state
carries a stream from call to call: the last inputs of each convolution, one input column of each transposed
convolution, and the last ``sliding_window - 1`` rotated keys and values of each layer. The graph takes that state as
inputs and gives the next one as outputs; any cut of a stream into calls computes the same samples.

Written for speed on a CPU, equal in exact arithmetic to the official modules:

* 1-D convolutions are 2-D ones with 1 x K kernels (ncnn's fast kernels), over (C, 1, T) blobs;
* a transposed convolution with kernel 2s and stride s is a causal convolution of two taps with s times the outputs;
* chains of linear maps are multiplied out: both RVQ output projections, ``pre_conv`` and the transformer's
  ``input_proj`` are one convolution; its ``output_proj`` and the first up-sampling are another;
* LayerScale and ConvNeXt's ``gamma`` are part of the weights before them;
* SnakeBeta ``x + b sin^2(a x)`` is ``[x - b/2 cos(2 a x)] + b/2``: one pass less, and the constant goes into the bias
  of the convolution that follows (its initial history is then ``-b/2`` instead of zero).

Precisions: fp32, bf16 and fp16 apply to the whole graph. Under int8 the matrix products of the transformer and of
ConvNeXt are int8, and so are the convolutions of ``quantised_convs`` where the range of their inputs is given: those
that take most of the time and lose least. The others stay fp32: they are small, or their inputs reach far beyond
what is usual, as those of the first one do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.config import CodecDecoderConfig
from rtts_engine.graph.writer import Blob, GraphWriter, Precision
from rtts_engine.tensors import TensorSource

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

BOOKS = "codec.books"
"""Table of the codebooks' entries (groups, C, codebook_dim / 2)."""
INITIAL = "codec.initial."
"""Prefix of the tables that hold the initial value of a state per channel (C,); zero where there is none."""
NEXT = "_next"
"""Suffix that turns the name of a state's input into the name of its output."""

INPUT = "_input"
"""Suffix that turns the name of a convolution's state into the name of all that it reads."""

PRE_CONV_KERNEL = 3
CONV_KERNEL = 7
UNIT_DILATIONS = (1, 3, 9)
CONVNEXT_EPS = 1e-6
CONVNEXT_WIDENING = 4
USAGE_EPS = 1e-5

_LARGEST_FOLDED_BETA = 64.0
# With b/2 as a constant beside the signal, a rounding error of eps * b/2 enters: up to this b the cosine form stays
# 110 dB below a signal of 1 in fp32. In 16-bit formats it would cost a bit or more: they keep the sine form.


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One state: the graph input ``name``, the output ``name + NEXT``."""

    name: str
    shape: tuple[int, int, int]
    """(c, h, w): (channels, 1, columns) of a convolution's past inputs, (heads, rows, head_dim) of keys or values."""
    front: bool
    """Part of the 12.5 Hz half (RVQ to transformer), which can run without the other half."""


def state_specs(config: CodecDecoderConfig) -> tuple[StateSpec, ...]:
    """Every state of a decoder, in graph order."""
    specs = [StateSpec("pre_conv", (config.codebook_dim, 1, PRE_CONV_KERNEL - 1), True)]
    past = (config.num_heads, config.sliding_window - 1, config.head_dim)
    for layer in range(config.num_layers):
        specs += [StateSpec(f"k{layer}", past, True), StateSpec(f"v{layer}", past, True)]
    tail = CONV_KERNEL - 1
    for i in range(len(config.upsampling_ratios)):
        specs.append(StateSpec(f"convnext{i}", (config.latent_dim, 1, tail), False))
    specs.append(StateSpec("conv_in", (config.latent_dim, 1, tail), False))
    width = config.decoder_dim
    for block in range(len(config.upsample_rates)):
        specs.append(StateSpec(f"up{block}", (width, 1, 1), False))
        width //= 2
        for unit, dilation in enumerate(UNIT_DILATIONS):
            specs.append(StateSpec(f"unit{block}_{unit}", (width, 1, tail * dilation), False))
    specs.append(StateSpec("conv_out", (width, 1, tail), False))
    return tuple(specs)


def quantised_convs(config: CodecDecoderConfig) -> tuple[str, ...]:
    """The convolutions that an int8 decoder computes in int8, by the name of their state.

    Measured on the shipped voice, as the sound's signal to noise: these 33 dB. With the other up-samplings and the
    1 x 1 convolutions, which save another twentieth of the time, 30 dB; the first of the graph alone 16 dB.
    """
    blocks = range(len(config.upsample_rates))
    units = [f"unit{block}_{unit}" for block in blocks for unit in range(len(UNIT_DILATIONS))]
    return ("conv_in", "up0", *units)


def conv_context_frames(config: CodecDecoderConfig) -> int:
    """How many past frames the convolutions after the transformer see (10 with the released rates)."""
    columns = CONV_KERNEL - 1
    for rate in reversed(config.upsample_rates):
        columns += (CONV_KERNEL - 1) * sum(UNIT_DILATIONS)
        columns = -(-columns // rate) + 1
    columns += CONV_KERNEL - 1
    for ratio in reversed(config.upsampling_ratios):
        columns = -(-(columns + CONV_KERNEL - 1) // ratio)
    return columns


def codebook_entries(source: TensorSource, prefix: str, size: int, width: int, *, sums: str) -> F32:
    """Entries ``sums / max(cluster_usage, 1e-5)`` (size, width) of the codebook under ``prefix``."""
    usage = source.float32(f"{prefix}.cluster_usage", (size,))
    total = source.float32(f"{prefix}.{sums}", (size, width))
    entries: F32 = total / np.maximum(usage, np.float32(USAGE_EPS))[:, None]
    return entries


def codec_tables(checkpoint: Checkpoint) -> dict[str, F32]:
    """The decoder's codebooks, divided once and for all: ``{BOOKS: (groups, C, codebook_dim / 2) float32}``.

    Raises:
        CheckpointError: a tensor is missing or has another shape than the config says.
    """
    config = checkpoint.config.codec.decoder
    books = np.empty((config.num_quantizers, config.codebook_size, config.codebook_dim // 2), np.float32)
    for group in range(config.num_quantizers):
        split, index = ("rvq_first", 0) if group == 0 else ("rvq_rest", group - 1)
        prefix = f"decoder.quantizer.{split}.vq.layers.{index}._codebook"
        books[group] = codebook_entries(
            checkpoint.codec, prefix, config.codebook_size, config.codebook_dim // 2, sums="embedding_sum"
        )
    return {BOOKS: books}


def write_codec_decoder(
    checkpoint: Checkpoint, stem: Path, precision: Precision, ranges: Mapping[str, float] | None = None
) -> dict[str, F32]:
    """Write ``stem.param`` and ``stem.bin``.

    The graph's inputs: ``latent`` (codebook_dim, 1, n), the looked-up first entry above the sum of the other entries;
    ``mask`` (n, sliding_window - 1 + n) added to the scores; ``cos`` and ``sin`` (n, head_dim / 2); one input a state.
    Its outputs: ``samples`` (1, 1, n x samples per frame) in [-1, 1]; one output a state. What a state's convolution
    reads, past columns and new ones, is the blob ``state + INPUT``.

    ``ranges``: the largest magnitudes of those inputs, for the convolutions that are to be int8.

    Returns:
        Tables of initial states, ``INITIAL + state`` -> (C,) float32; a state without one starts at zero.

    Raises:
        CheckpointError: a tensor is missing or has another shape than the config says.
    """
    with GraphWriter(stem, precision) as graph:
        decoder = _Decoder(graph, checkpoint.codec, checkpoint.config.codec.decoder, ranges or {})
        decoder.write()
    return decoder.initial


class _Decoder:
    """Adds the decoder's layers to a graph, reading one layer's tensors at a time."""

    def __init__(
        self,
        graph: GraphWriter,
        source: TensorSource,
        config: CodecDecoderConfig,
        ranges: Mapping[str, float],
    ) -> None:
        self.initial: dict[str, F32] = {}
        self._g = graph
        self._source = source
        self._c = config
        self._ranges = ranges
        self._specs = {spec.name: spec for spec in state_specs(config)}

    def write(self) -> None:
        c = self._c
        x = self._front(self._g.input("latent"))
        norm = self._weight("pre_transformer.norm.weight", c.hidden_size)
        x = self._columns(self._g.rms_norm(x, norm, c.rms_norm_eps), c.hidden_size)
        for i, ratio in enumerate(c.upsampling_ratios):
            x = self._upsample(x, i, ratio)
            x = self._convnext(x, i)
        width = c.decoder_dim
        weight, bias = self._conv_weights("decoder.0.conv", width, c.latent_dim, CONV_KERNEL)
        x = self._conv(x, "conv_in", weight, bias)
        for block, rate in enumerate(c.upsample_rates):
            x = self._block(x, block, width, rate)
            width //= 2
        last = len(c.upsample_rates) + 1
        x, shift = self._snake(x, f"decoder.{last}", width)
        weight, bias = self._conv_weights(f"decoder.{last + 1}.conv", 1, width, CONV_KERNEL)
        x = self._conv(x, "conv_out", weight, bias, shift)
        self._g.output(self._g.layer("Clip", [x], {0: -1.0, 1: 1.0}), "samples")

    # -- tensors -----------------------------------------------------------------------------

    def _weight(self, name: str, *shape: int) -> F32:
        return self._source.float32(f"decoder.{name}", shape)

    def _conv_weights(self, name: str, outputs: int, inputs: int, kernel: int) -> tuple[F32, F32]:
        return self._weight(f"{name}.weight", outputs, inputs, kernel), self._weight(f"{name}.bias", outputs)

    # -- state -------------------------------------------------------------------------------

    def _with_past(self, x: Blob, name: str, shift: F64 | None = None) -> Blob:
        """``x`` behind its past columns; the last of them are the next call's past. ``x + shift`` is what is meant."""
        spec = self._specs[name]
        if shift is not None:
            self.initial[INITIAL + name] = (-shift).astype(np.float32)
        joined = self._g.label(self._g.concat([self._g.input(name), x], 2), name + INPUT)
        self._g.output(self._g.last(joined, spec.shape[2], 2), name + NEXT)
        return joined

    def _conv(
        self, x: Blob, name: str, weight: F32, bias: F32, shift: F64 | None = None, dilation: int = 1
    ) -> Blob:
        """Convolution of ``x + shift`` behind the past columns of state ``name``."""
        joined = self._with_past(x, name, shift)
        bias = self._shifted(bias, weight, shift)
        return self._g.conv(joined, weight, bias, dilation=dilation, input_range=self._ranges.get(name))

    def _with_past_rows(self, x: Blob, name: str) -> Blob:
        """The same for keys or values (heads, n, head_dim)."""
        joined = self._g.concat([self._g.input(name), x], 1)
        self._g.output(self._g.last(joined, self._specs[name].shape[1], 1), name + NEXT)
        return joined

    # -- layouts -----------------------------------------------------------------------------

    def _rows(self, x: Blob, channels: int) -> Blob:
        """(channels, 1, n) to rows (n, channels)."""
        return self._g.permute(self._g.reshape(x, channels, -1), 1)

    def _columns(self, x: Blob, channels: int) -> Blob:
        """Rows (n, channels) to (channels, 1, n)."""
        return self._g.reshape(self._g.permute(x, 1), channels, 1, -1)

    def _interleave(self, x: Blob, channels: int, rate: int) -> Blob:
        """(channels x rate, 1, n), the phases of a channel side by side, to (channels, 1, n x rate)."""
        return self._g.reshape(self._g.permute(self._g.reshape(x, channels, rate, -1), 1), channels, 1, -1)

    # -- modules -----------------------------------------------------------------------------

    def _front(self, latent: Blob) -> Blob:
        """RVQ output projections, ``pre_conv`` and ``input_proj`` as one convolution, then the transformer's layers."""
        c, g = self._c, self._g
        half = c.codebook_dim // 2
        projection = np.concatenate(
            [
                self._weight(f"quantizer.{split}.output_proj.weight", c.codebook_dim, half, 1)[:, :, 0]
                for split in ("rvq_first", "rvq_rest")
            ],
            axis=1,
        ).astype(np.float64)
        conv, conv_bias = self._conv_weights("pre_conv.conv", c.latent_dim, c.codebook_dim, PRE_CONV_KERNEL)
        inner = self._weight("pre_transformer.input_proj.weight", c.hidden_size, c.latent_dim).astype(
            np.float64
        )
        bias = self._weight("pre_transformer.input_proj.bias", c.hidden_size) + inner @ conv_bias
        taps = [inner @ conv[:, :, tap] @ projection for tap in range(PRE_CONV_KERNEL)]
        weight = np.stack(taps, axis=-1).astype(np.float32)
        x = g.conv(self._with_past(latent, "pre_conv"), weight, bias.astype(np.float32))
        x = self._rows(x, c.hidden_size)
        mask, cos, sin = g.input("mask"), g.input("cos"), g.input("sin")
        for layer in range(c.num_layers):
            x = self._layer(x, layer, mask, cos, sin)
        return x

    def _layer(self, x: Blob, layer: int, mask: Blob, cos: Blob, sin: Blob) -> Blob:
        c, g, name = self._c, self._g, f"pre_transformer.layers.{layer}"
        inner = c.num_heads * c.head_dim
        h = g.rms_norm(x, self._weight(f"{name}.input_layernorm.weight", c.hidden_size), c.rms_norm_eps)
        fused = [self._weight(f"{name}.self_attn.{p}_proj.weight", inner, c.hidden_size) for p in "qkv"]
        parts = g.split_at(g.linear(h, np.concatenate(fused)), [inner] * 3, 1)
        q, k, v = (g.permute(g.reshape(part, -1, c.num_heads, c.head_dim), 2) for part in parts)
        q, k = (g.rope(part, cos, sin) for part in (q, k))
        k, v = self._with_past_rows(k, f"k{layer}"), self._with_past_rows(v, f"v{layer}")
        h = g.attention(q, k, v, mask, c.head_dim**-0.5)
        h = g.reshape(g.permute(h, 2), -1, inner)
        x = g.add(
            x, g.linear(h, self._scaled(f"{name}.self_attn.o_proj", f"{name}.self_attn_layer_scale", inner))
        )

        h = g.rms_norm(
            x, self._weight(f"{name}.post_attention_layernorm.weight", c.hidden_size), c.rms_norm_eps
        )
        size = c.intermediate_size
        fused = [self._weight(f"{name}.mlp.{p}_proj.weight", size, c.hidden_size) for p in ("gate", "up")]
        gate, up = g.split_at(g.linear(h, np.concatenate(fused)), [size] * 2, 1)
        h = g.multiply(g.silu(gate), up)
        return g.add(x, g.linear(h, self._scaled(f"{name}.mlp.down_proj", f"{name}.mlp_layer_scale", size)))

    def _scaled(self, linear: str, scale: str, inputs: int) -> F32:
        """Weight (hidden, inputs) with the LayerScale that follows it."""
        weight = self._weight(f"{linear}.weight", self._c.hidden_size, inputs)
        return weight * self._weight(f"{scale}.scale", self._c.hidden_size)[:, None]

    def _upsample(self, x: Blob, i: int, ratio: int) -> Blob:
        """Transposed convolution with kernel = stride = ratio; the first one takes in ``output_proj``."""
        width = self._c.latent_dim
        weight = self._weight(f"upsample.{i}.0.conv.weight", width, width, ratio)
        phases = weight.transpose(1, 2, 0).reshape(width * ratio, width)
        bias = np.repeat(self._weight(f"upsample.{i}.0.conv.bias", width), ratio)
        if i == 0:
            inner = self._weight("pre_transformer.output_proj.weight", width, self._c.hidden_size)
            inner_bias = self._weight("pre_transformer.output_proj.bias", width)
            wide = phases.astype(np.float64)
            bias = (bias + wide @ inner_bias).astype(np.float32)
            phases = (wide @ inner).astype(np.float32)
        return self._interleave(self._g.conv(x, phases[:, :, None], bias), width, ratio)

    def _convnext(self, x: Blob, i: int) -> Blob:
        g, width, name = self._g, self._c.latent_dim, f"upsample.{i}.1"
        wide = CONVNEXT_WIDENING * width
        weight, bias = self._conv_weights(f"{name}.dwconv.conv", width, 1, CONV_KERNEL)
        h = self._rows(g.conv(self._with_past(x, f"convnext{i}"), weight, bias, groups=width), width)
        norm = self._weight(f"{name}.norm.weight", width), self._weight(f"{name}.norm.bias", width)
        h = g.layer_norm(h, *norm, CONVNEXT_EPS)
        weight = self._weight(f"{name}.pwconv1.weight", wide, width)
        h = g.gelu(g.linear(h, weight, self._weight(f"{name}.pwconv1.bias", wide)))
        gamma = self._weight(f"{name}.gamma", width)
        weight = self._weight(f"{name}.pwconv2.weight", width, wide) * gamma[:, None]
        h = g.linear(h, weight, self._weight(f"{name}.pwconv2.bias", width) * gamma)
        return g.add(x, self._columns(h, width))

    def _snake(self, x: Blob, name: str, channels: int) -> tuple[Blob, F64 | None]:
        """SnakeBeta without its constant, and that constant (channels,); None when it is not split off."""
        g = self._g
        alpha = np.exp(self._weight(f"{name}.alpha", channels).astype(np.float64))
        beta = 1.0 / (np.exp(self._weight(f"{name}.beta", channels).astype(np.float64)) + 1e-9)
        if g.precision in ("bf16", "fp16") or beta.max() > _LARGEST_FOLDED_BETA:
            sine = g.unary(g.multiply(x, g.constant(alpha.astype(np.float32))), "sin")
            square = g.unary(sine, "square")
            return g.add(x, g.multiply(square, g.constant(beta.astype(np.float32)))), None
        cosine = g.unary(g.multiply(x, g.constant((2 * alpha).astype(np.float32))), "cos")
        half = (0.5 * beta).astype(np.float32)
        return g.add(x, g.multiply(cosine, g.constant(-half))), half.astype(np.float64)

    @staticmethod
    def _shifted(bias: F32, weight: F32, shift: F64 | None) -> F32:
        """Bias of a convolution (O, C, K) whose input lacks ``shift`` (C,)."""
        if shift is None:
            return bias
        shifted: F32 = (bias + weight.astype(np.float64).sum(axis=2) @ shift).astype(np.float32)
        return shifted

    def _block(self, x: Blob, block: int, width: int, rate: int) -> Blob:
        """SnakeBeta, transposed convolution, three residual units."""
        g, name, half = self._g, f"decoder.{block + 1}.block", width // 2
        x, shift = self._snake(x, f"{name}.0", width)
        weight = self._weight(f"{name}.1.conv.weight", width, half, 2 * rate)
        # Taps of the past column, then of the present one.
        taps = np.stack([weight[:, :, rate:], weight[:, :, :rate]], axis=-1)
        taps = taps.transpose(1, 2, 0, 3).reshape(half * rate, width, 2)
        bias = np.repeat(self._weight(f"{name}.1.conv.bias", half), rate)
        x = self._conv(x, f"up{block}", taps, bias, shift)
        x = self._interleave(x, half, rate)
        for unit, dilation in enumerate(UNIT_DILATIONS):
            inner = f"{name}.{unit + 2}"
            h, shift = self._snake(x, f"{inner}.act1", half)
            weight, bias = self._conv_weights(f"{inner}.conv1.conv", half, half, CONV_KERNEL)
            h = self._conv(h, f"unit{block}_{unit}", weight, bias, shift, dilation)
            h, shift = self._snake(h, f"{inner}.act2", half)
            weight, bias = self._conv_weights(f"{inner}.conv2.conv", half, half, 1)
            x = g.add(x, g.conv(h, weight, self._shifted(bias, weight, shift)))
        return x
