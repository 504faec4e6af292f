"""The tensor table of a checkpoint: every name and shape (semantics 1.5) with the rule that fills it.

Scales are chosen so that every branch of the network changes the result visibly, logits are neither flat nor
saturated, the text track is about as loud as the code track (greedy output keeps moving while text is consumed),
and the waveform rarely reaches the clamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from . import randomness
from .presets import CONTROL_IDS, NUM_CODE_GROUPS, CodecDims, Kind, Preset, StackDims
from .randomness import FloatArray

_WAVEFORM_STD = 0.2
"""About -14 dBFS, so that the final clamp is rare but does occur."""
_XVECTOR_STD = 0.7
"""The level of a row of the codec embedding, which the x-vector stands in for."""
_UNUSED_CODE = 1
"""This entry of every codebook has usage 0, which exercises the clamp of the divisor."""
_MIN_USAGE = 1e-5


@dataclass(frozen=True)
class TensorSpec:
    """One tensor: N(mean, std^2) in file order, then ``finish`` (small tensors only) on the whole array."""

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    finish: Callable[[FloatArray], FloatArray] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def blocks(self, seed: int) -> Iterator[FloatArray]:
        """The values, flat, a million at a time."""
        if self.finish is None:
            yield from randomness.normal_blocks(seed, self.name, self.size, self.std, self.mean)
        else:
            yield self.values(seed).reshape(-1)

    def values(self, seed: int) -> FloatArray:
        """The whole tensor."""
        array = randomness.normal(seed, self.name, self.shape, self.std, self.mean)
        return array if self.finish is None else self.finish(array)


def _weight(name: str, shape: tuple[int, ...], gain: float = 1.0, fan_in: int | None = None) -> TensorSpec:
    """A matrix or convolution kernel ``(out, in, ...)`` that multiplies the standard deviation by ``gain``."""
    return TensorSpec(name, shape, gain / math.sqrt(fan_in or math.prod(shape[1:])))


def _norm(name: str, width: int, spread: float) -> TensorSpec:
    return TensorSpec(name, (width,), spread, mean=1.0)


def _conv(
    name: str, shape: tuple[int, ...], gain: float, bias_std: float, *, fan_in: int | None = None
) -> Iterator[TensorSpec]:
    yield _weight(f"{name}.weight", shape, gain, fan_in)
    yield TensorSpec(f"{name}.bias", (shape[0],), bias_std)


def _silent_on_constant(kernel: FloatArray) -> FloatArray:
    """Makes each output's weights sum to zero over a constant input (all channels, all taps)."""
    return np.asarray(kernel - kernel.mean(axis=(1, 2), keepdims=True, dtype=np.float32), dtype=np.float32)


def _taps_sum_to_zero(kernel: FloatArray) -> FloatArray:
    """Makes the taps of every (out, in) pair sum to zero, so that the convolution passes changes in time only."""
    return np.asarray(kernel - kernel.mean(axis=2, keepdims=True, dtype=np.float32), dtype=np.float32)


# ---------------------------------------------------------------------------------------------------------------
# language model
# ---------------------------------------------------------------------------------------------------------------


def _stack(prefix: str, dims: StackDims) -> Iterator[TensorSpec]:
    width, q_width, kv_width = dims.hidden, dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    for layer in range(dims.layers):
        base = f"{prefix}.layers.{layer}"
        yield _norm(f"{base}.input_layernorm.weight", width, 0.15)
        yield _weight(f"{base}.self_attn.q_proj.weight", (q_width, width))
        yield _weight(f"{base}.self_attn.k_proj.weight", (kv_width, width))
        yield _weight(f"{base}.self_attn.v_proj.weight", (kv_width, width))
        yield _weight(f"{base}.self_attn.o_proj.weight", (width, q_width), 0.9)
        yield _norm(f"{base}.self_attn.q_norm.weight", dims.head_dim, 0.15)
        yield _norm(f"{base}.self_attn.k_norm.weight", dims.head_dim, 0.15)
        yield _norm(f"{base}.post_attention_layernorm.weight", width, 0.15)
        yield _weight(f"{base}.mlp.gate_proj.weight", (dims.inter, width))
        yield _weight(f"{base}.mlp.up_proj.weight", (dims.inter, width))
        yield _weight(f"{base}.mlp.down_proj.weight", (width, dims.inter), 0.9)
    yield _norm(f"{prefix}.norm.weight", width, 0.15)


def _talker(preset: Preset, eos_gain: float) -> Iterator[TensorSpec]:
    width, text, vocab = preset.talker.hidden, preset.text_hidden, preset.codec.codebook_size + CONTROL_IDS
    eos_id = preset.codec.codebook_size + 102

    def scale_eos(head: FloatArray) -> FloatArray:
        head[eos_id] *= np.float32(eos_gain)
        return head

    yield TensorSpec("talker.model.text_embedding.weight", (preset.text_vocab, text), 1.0)
    yield TensorSpec("talker.model.codec_embedding.weight", (vocab, width), 0.7)
    yield from _conv("talker.text_projection.linear_fc1", (text, text), 1.6, 0.1)
    yield from _conv("talker.text_projection.linear_fc2", (width, text), 1.6, 0.1)
    yield from _stack("talker.model", preset.talker)
    yield replace(_weight("talker.codec_head.weight", (vocab, width), 2.5), finish=scale_eos)


def _predictor(preset: Preset) -> Iterator[TensorSpec]:
    base, width, vocab = "talker.code_predictor", preset.predictor.hidden, preset.codec.codebook_size
    yield from _stack(f"{base}.model", preset.predictor)
    for group in range(NUM_CODE_GROUPS - 1):
        yield TensorSpec(f"{base}.model.codec_embedding.{group}.weight", (vocab, preset.talker.hidden), 0.35)
        yield _weight(f"{base}.lm_head.{group}.weight", (vocab, width), 2.5)
    if preset.has_projection:
        yield from _conv(f"{base}.small_to_mtp_projection", (width, preset.talker.hidden), 1.0, 0.1)


def _speaker_encoder(preset: Preset) -> Iterator[TensorSpec]:
    dims, width = preset.speaker, preset.speaker.channels
    base, group = "speaker_encoder", width // dims.res2net_scale

    def conv(name: str, shape: tuple[int, ...]) -> Iterator[TensorSpec]:
        return _conv(f"{base}.{name}", shape, 1.4, 0.1)

    # log-mel bins share a large negative offset; without it the x-vector follows the clip
    first = f"{base}.blocks.0.conv"
    yield replace(_weight(f"{first}.weight", (width, 128, 5), 1.4), finish=_silent_on_constant)
    yield TensorSpec(f"{first}.bias", (width,), 0.1)
    for block in (1, 2, 3):
        yield from conv(f"blocks.{block}.tdnn1.conv", (width, width, 1))
        for j in range(dims.res2net_scale - 1):
            yield from conv(f"blocks.{block}.res2net_block.blocks.{j}.conv", (group, group, 3))
        yield from conv(f"blocks.{block}.tdnn2.conv", (width, width, 1))
        yield from conv(f"blocks.{block}.se_block.conv1", (dims.squeeze, width, 1))
        yield from conv(f"blocks.{block}.se_block.conv2", (width, dims.squeeze, 1))
    yield from conv("mfa.conv", (3 * width, 3 * width, 1))
    yield from conv("asp.tdnn.conv", (dims.attention, 9 * width, 1))
    yield from conv("asp.conv", (3 * width, dims.attention, 1))
    scale = _XVECTOR_STD / preset.levels.speaker
    yield from _conv(f"{base}.fc", (preset.talker.hidden, 6 * width, 1), 1.4 * scale, 0.1 * scale)


def main_tensors(preset: Preset, kind: Kind, *, eos_gain: float = 1.0) -> list[TensorSpec]:
    """The tensors of ``model.safetensors``."""
    specs = [*_talker(preset, eos_gain), *_predictor(preset)]
    return specs + list(_speaker_encoder(preset)) if kind == "base" else specs


# ---------------------------------------------------------------------------------------------------------------
# codec
# ---------------------------------------------------------------------------------------------------------------


def _codebook(
    prefix: str, sum_name: str, rows: int, width: int, std: float, seed: int
) -> Iterator[TensorSpec]:
    """Usage counts and the sums that, divided by them, give entries of N(0, std^2)."""

    def usage_counts(_: FloatArray) -> FloatArray:
        counts = randomness.uniform(seed, f"{prefix}.cluster_usage", rows, 0.4, 3.0)
        counts[_UNUSED_CODE] = 0.0
        return counts

    def to_sums(entries: FloatArray) -> FloatArray:
        divisor = np.maximum(usage_counts(entries), np.float32(_MIN_USAGE))
        return np.asarray(entries * divisor[:, None], dtype=np.float32)

    yield TensorSpec(f"{prefix}.cluster_usage", (rows,), 1.0, finish=usage_counts)
    yield TensorSpec(f"{prefix}.{sum_name}", (rows, width), std, finish=to_sums)


def _snake(prefix: str, width: int) -> Iterator[TensorSpec]:
    yield TensorSpec(f"{prefix}.alpha", (width,), 0.3)
    yield TensorSpec(f"{prefix}.beta", (width,), 0.3)


def _transposed_conv(name: str, cin: int, cout: int, kernel: int, stride: int) -> Iterator[TensorSpec]:
    """Stored (in, out, kernel); every output sees ``cin * kernel / stride`` taps."""
    yield _weight(f"{name}.weight", (cin, cout, kernel), fan_in=cin * kernel // stride)
    yield TensorSpec(f"{name}.bias", (cout,), 0.05)


def _decoder_transformer(dims: CodecDims) -> Iterator[TensorSpec]:
    base, width, inner = "decoder.pre_transformer", dims.hidden, dims.heads * dims.head_dim
    yield from _conv(f"{base}.input_proj", (width, dims.latent), 1.0, 0.05)
    for layer in range(dims.layers):
        name = f"{base}.layers.{layer}"
        for part in "qkv":
            yield _weight(f"{name}.self_attn.{part}_proj.weight", (inner, width))
        yield _weight(f"{name}.self_attn.o_proj.weight", (width, inner))
        yield _weight(f"{name}.mlp.gate_proj.weight", (dims.inter, width))
        yield _weight(f"{name}.mlp.up_proj.weight", (dims.inter, width))
        yield _weight(f"{name}.mlp.down_proj.weight", (width, dims.inter))
        yield _norm(f"{name}.input_layernorm.weight", width, 0.1)
        yield _norm(f"{name}.post_attention_layernorm.weight", width, 0.1)
        yield TensorSpec(f"{name}.self_attn_layer_scale.scale", (width,), 0.1, mean=0.5)
        yield TensorSpec(f"{name}.mlp_layer_scale.scale", (width,), 0.1, mean=0.5)
    yield _norm(f"{base}.norm.weight", width, 0.1)
    yield from _conv(f"{base}.output_proj", (dims.latent, width), 1.0, 0.05)


def _decoder(preset: Preset, seed: int) -> Iterator[TensorSpec]:
    dims = preset.codec
    stored, rows, base = dims.codebook_dim // 2, dims.codebook_size, "decoder.quantizer"
    for part, books in (("rvq_first", 1), ("rvq_rest", NUM_CODE_GROUPS - 1)):
        for q in range(books):
            prefix = f"{base}.{part}.vq.layers.{q}._codebook"
            yield from _codebook(prefix, "embedding_sum", rows, stored, round(0.9**q, 6), seed)
        yield _weight(f"{base}.{part}.input_proj.weight", (stored, dims.codebook_dim, 1))
        yield _weight(f"{base}.{part}.output_proj.weight", (dims.codebook_dim, stored, 1))
    yield from _conv("decoder.pre_conv.conv", (dims.latent, dims.codebook_dim, 3), 1.0, 0.05)
    yield from _decoder_transformer(dims)

    width, inner = dims.latent, dims.convnext_expansion * dims.latent
    for u, ratio in enumerate(dims.upsampling_ratios):
        yield from _transposed_conv(f"decoder.upsample.{u}.0.conv", width, width, ratio, ratio)
        name = f"decoder.upsample.{u}.1"
        yield from _conv(f"{name}.dwconv.conv", (width, 1, 7), 1.0, 0.05)
        yield _norm(f"{name}.norm.weight", width, 0.1)
        yield TensorSpec(f"{name}.norm.bias", (width,), 0.05)
        yield from _conv(f"{name}.pwconv1", (inner, width), 1.0, 0.05)
        yield from _conv(f"{name}.pwconv2", (width, inner), 1.0, 0.05)
        yield TensorSpec(f"{name}.gamma", (width,), 0.1, mean=0.5)

    width = dims.decoder_dim
    yield from _conv("decoder.decoder.0.conv", (width, dims.latent, 7), 1.0, 0.05)
    for block, rate in enumerate(dims.upsample_rates, start=1):
        name, half = f"decoder.decoder.{block}.block", width // 2
        yield from _snake(f"{name}.0", width)
        yield from _transposed_conv(f"{name}.1.conv", width, half, 2 * rate, rate)
        for unit in (2, 3, 4):
            yield from _snake(f"{name}.{unit}.act1", half)
            yield from _conv(f"{name}.{unit}.conv1.conv", (half, half, 7), 1.0, 0.05)
            yield from _snake(f"{name}.{unit}.act2", half)
            yield from _conv(f"{name}.{unit}.conv2.conv", (half, half, 1), 0.6, 0.05)
        width = half
    last = len(dims.upsample_rates) + 1
    yield from _snake(f"decoder.decoder.{last}", width)
    scale = _WAVEFORM_STD / preset.levels.final_conv
    yield from _conv(f"decoder.decoder.{last + 1}.conv", (1, width, 7), scale, 0.05 * scale)


def _encoder(preset: Preset, seed: int) -> Iterator[TensorSpec]:
    dims = preset.codec
    width, index = dims.enc_filters, 1
    yield from _conv("encoder.encoder.layers.0.conv", (width, 1, 7), 1.3, 0.05)
    for ratio in reversed(dims.enc_ratios):
        name, half = f"encoder.encoder.layers.{index}.block", width // 2
        yield from _conv(f"{name}.1.conv", (half, width, 3), 1.3, 0.05)
        yield from _conv(f"{name}.3.conv", (width, half, 1), 1.3, 0.05)
        yield from _conv(f"encoder.encoder.layers.{index + 2}.conv", (2 * width, width, 2 * ratio), 1.3, 0.05)
        width, index = 2 * width, index + 3
    yield from _conv(f"encoder.encoder.layers.{index + 1}.conv", (dims.enc_hidden, width, 3), 1.3, 0.05)

    width = dims.enc_hidden
    for layer in range(dims.enc_layers):
        name = f"encoder.encoder_transformer.layers.{layer}"
        for part in "qkvo":
            yield _weight(f"{name}.self_attn.{part}_proj.weight", (width, width))
        yield _weight(f"{name}.mlp.fc1.weight", (dims.enc_inter, width))
        yield _weight(f"{name}.mlp.fc2.weight", (width, dims.enc_inter))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield _norm(f"{name}.{norm}.weight", width, 0.1)
            yield TensorSpec(f"{name}.{norm}.bias", (width,), 0.05)
        yield TensorSpec(f"{name}.self_attn_layer_scale.scale", (width,), 0.1, mean=0.5)
        yield TensorSpec(f"{name}.mlp_layer_scale.scale", (width,), 0.1, mean=0.5)
    # The latent is then centred on zero whatever offset the layers above produce, and codebooks centred on zero
    # give varied codes without a calibration pass.
    yield replace(_weight("encoder.downsample.conv.weight", (width, width, 4)), finish=_taps_sum_to_zero)
    for part, books in (("semantic", 1), ("acoustic", dims.enc_quantizers - 1)):
        base = f"encoder.quantizer.{part}_residual_vector_quantizer"
        yield _weight(f"{base}.input_proj.weight", (dims.enc_codebook_dim, width, 1))
        yield _weight(f"{base}.output_proj.weight", (width, dims.enc_codebook_dim, 1))
        for q, std in enumerate(_residual_levels(dims, preset.levels.encoder_latent, books)):
            prefix = f"{base}.layers.{q}.codebook"
            yield TensorSpec(f"{prefix}.initialized", (1,), 0.0, mean=1.0)
            yield from _codebook(prefix, "embed_sum", dims.codebook_size, dims.enc_codebook_dim, std, seed)


def _residual_levels(dims: CodecDims, latent_std: float, books: int) -> list[float]:
    """Entry deviations of successive random codebooks, each fitted to the residual the ones before it leave.

    Of K random entries the best one correlates with an isotropic residual of d components by about
    ``best / sqrt(d)``, ``best`` being the expected maximum of K normals; entries of ``best / sqrt(d)`` times the
    residual's deviation then take off the most, a share ``best^2 / d`` of its energy.
    """
    best = NormalDist().inv_cdf((dims.codebook_size - 0.375) / (dims.codebook_size + 0.25))
    share = min(0.5, best**2 / dims.enc_codebook_dim)
    return [round(latent_std * math.sqrt(share) * math.sqrt(1 - share) ** q, 6) for q in range(books)]


def codec_tensors(preset: Preset, seed: int) -> list[TensorSpec]:
    """The tensors of ``speech_tokenizer/model.safetensors``; they do not depend on the kind, as on the hub.

    ``seed`` is needed here as well, because the sums of a codebook depend on its usage counts.
    """
    return [*_decoder(preset, seed), *_encoder(preset, seed)]
