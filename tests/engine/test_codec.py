"""The streaming codec decoder: against a slow numpy one, and against itself in other chunkings."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rtts_engine import calibrate
from rtts_engine.calibrate import codec_ranges
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.codec import MAX_RUN_FRAMES, CodecDecoder
from rtts_engine.errors import CheckpointError, ModelError, RequestError
from rtts_engine.graph import codec_decoder
from rtts_engine.graph.codec_decoder import (
    BOOKS,
    INITIAL,
    codec_tables,
    conv_context_frames,
    quantised_convs,
    state_specs,
    write_codec_decoder,
)
from rtts_engine.graph.writer import Precision
from rtts_engine.runtime import Net, to_numpy
from rtts_engine.tensors import TensorSource
from tests.engine.conftest import Models

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
Codes = NDArray[np.int64]


def make_decoder(checkpoint: Checkpoint, folder: Path, precision: Precision = "fp32") -> CodecDecoder:
    stem = folder / "decoder"
    tables = codec_tables(checkpoint) | write_codec_decoder(checkpoint, stem, precision)
    return CodecDecoder(Net(stem, precision=precision), checkpoint.config.codec, tables)


@pytest.fixture(scope="module")
def source(models: Models) -> Checkpoint:
    return Checkpoint.open(models.checkpoint("tiny"))


@pytest.fixture(scope="module")
def decoder(source: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> CodecDecoder:
    return make_decoder(source, tmp_path_factory.mktemp("codec"))


def random_codes(decoder: CodecDecoder, frames: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, decoder.codebook_size, (frames, decoder.num_quantizers))


def in_chunks(decoder: CodecDecoder, codes: Codes, next_size: Callable[[], int]) -> F32:
    state, pieces, start = decoder.init_state(), [], 0
    while start < len(codes):
        size = next_size()
        pieces.append(decoder.decode(state, codes[start : start + size]))
        start += size
    assert state.frames == len(codes)
    return np.concatenate(pieces)


# -- an independent decoder: float64, one full pass, straight from the formulas -----------------------------------


class SlowDecoder:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self.c = checkpoint.config.codec.decoder
        self.tensors = checkpoint.codec

    def w(self, name: str) -> F64:
        tensors = self.tensors.with_prefix(f"decoder.{name}")
        return tensors[f"decoder.{name}"].astype(np.float64)

    def conv(self, x: F64, name: str, dilation: int = 1, groups: int = 1) -> F64:
        weight, bias = self.w(f"{name}.conv.weight"), self.w(f"{name}.conv.bias")
        kernel, length = weight.shape[2], x.shape[1]
        padded = np.pad(x, ((0, 0), ((kernel - 1) * dilation, 0)))
        out = np.zeros((len(weight), length)) + bias[:, None]
        for tap in range(kernel):
            column = padded[:, tap * dilation : tap * dilation + length]
            out += weight[:, 0, tap, None] * column if groups > 1 else weight[:, :, tap] @ column
        return out

    def transposed(self, x: F64, name: str, stride: int) -> F64:
        weight, bias = self.w(f"{name}.conv.weight"), self.w(f"{name}.conv.bias")
        kernel, length = weight.shape[2], x.shape[1]
        out = np.zeros((weight.shape[1], length * stride + kernel)) + bias[:, None]
        for column in range(length):
            out[:, column * stride : column * stride + kernel] += np.einsum("c,cok->ok", x[:, column], weight)
        return out[:, : length * stride]

    def snake(self, x: F64, name: str) -> F64:
        alpha, beta = np.exp(self.w(f"{name}.alpha"))[:, None], np.exp(self.w(f"{name}.beta"))[:, None]
        return x + np.sin(alpha * x) ** 2 / (beta + 1e-9)

    def rms(self, x: F64, name: str) -> F64:
        return (
            x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.c.rms_norm_eps) * self.w(f"{name}.weight")
        )

    def attention(self, x: F64, name: str) -> F64:
        c, n = self.c, len(x)
        q, k, v = (
            (x @ self.w(f"{name}.{p}_proj.weight").T).reshape(n, c.num_heads, c.head_dim).swapaxes(0, 1)
            for p in "qkv"
        )
        half = c.head_dim // 2
        angles = np.arange(n)[:, None] * c.rope_theta ** (-np.arange(half) / half)

        def rotate(y: F64) -> F64:
            a, b = y[..., :half], y[..., half:]
            return np.concatenate(
                [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1
            )

        scores = rotate(q) @ rotate(k).swapaxes(1, 2) / np.sqrt(c.head_dim)
        age = np.arange(n)[:, None] - np.arange(n)
        scores[:, (age < 0) | (age >= c.sliding_window)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (p / p.sum(-1, keepdims=True)) @ v
        return mixed.swapaxes(0, 1).reshape(n, -1) @ self.w(f"{name}.o_proj.weight").T

    def decode(self, codes: Codes) -> F64:
        c = self.c
        entries = []
        for group in range(c.num_quantizers):
            part, index = ("rvq_first", 0) if group == 0 else ("rvq_rest", group - 1)
            book = f"quantizer.{part}.vq.layers.{index}._codebook"
            usage = np.maximum(self.w(f"{book}.cluster_usage"), 1e-5)
            entries.append(self.w(f"{book}.embedding_sum")[codes[:, group]] / usage[codes[:, group], None])
        x = entries[0] @ self.w("quantizer.rvq_first.output_proj.weight")[:, :, 0].T
        x = x + sum(entries[1:]) @ self.w("quantizer.rvq_rest.output_proj.weight")[:, :, 0].T
        x = self.conv(x.T, "pre_conv").T
        t = "pre_transformer"
        x = x @ self.w(f"{t}.input_proj.weight").T + self.w(f"{t}.input_proj.bias")
        for layer in range(c.num_layers):
            name = f"{t}.layers.{layer}"
            h = self.attention(self.rms(x, f"{name}.input_layernorm"), f"{name}.self_attn")
            x = x + self.w(f"{name}.self_attn_layer_scale.scale") * h
            h = self.rms(x, f"{name}.post_attention_layernorm")
            gate = h @ self.w(f"{name}.mlp.gate_proj.weight").T
            h = gate / (1 + np.exp(-gate)) * (h @ self.w(f"{name}.mlp.up_proj.weight").T)
            x = x + self.w(f"{name}.mlp_layer_scale.scale") * (h @ self.w(f"{name}.mlp.down_proj.weight").T)
        x = self.rms(x, f"{t}.norm") @ self.w(f"{t}.output_proj.weight").T + self.w(f"{t}.output_proj.bias")
        x = x.T
        for i, ratio in enumerate(c.upsampling_ratios):
            x = self.transposed(x, f"upsample.{i}.0", ratio)
            name = f"upsample.{i}.1"
            h = self.conv(x, f"{name}.dwconv", groups=len(x)).T
            h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-6)
            h = h * self.w(f"{name}.norm.weight") + self.w(f"{name}.norm.bias")
            h = h @ self.w(f"{name}.pwconv1.weight").T + self.w(f"{name}.pwconv1.bias")
            h = h * 0.5 * (1 + _erf(h / np.sqrt(2)))
            h = h @ self.w(f"{name}.pwconv2.weight").T + self.w(f"{name}.pwconv2.bias")
            x = x + (self.w(f"{name}.gamma") * h).T
        x = self.conv(x, "decoder.0")
        for block, rate in enumerate(c.upsample_rates):
            name = f"decoder.{block + 1}.block"
            x = self.transposed(self.snake(x, f"{name}.0"), f"{name}.1", rate)
            for unit, dilation in enumerate((1, 3, 9)):
                inner = f"{name}.{unit + 2}"
                h = self.conv(self.snake(x, f"{inner}.act1"), f"{inner}.conv1", dilation)
                x = x + self.conv(self.snake(h, f"{inner}.act2"), f"{inner}.conv2")
        last = len(c.upsample_rates) + 1
        x = self.conv(self.snake(x, f"decoder.{last}"), f"decoder.{last + 1}")
        return np.clip(x[0], -1, 1)


def _erf(x: F64) -> F64:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def test_equals_a_slow_decoder_beyond_the_attention_window(source: Checkpoint, decoder: CodecDecoder) -> None:
    frames = source.config.codec.decoder.sliding_window + 5
    codes = random_codes(decoder, frames)
    codes[3] = 1  # the entries whose usage is 0
    expected = SlowDecoder(source).decode(codes)
    actual = decoder.decode(decoder.init_state(), codes)
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape == (1920 * frames,)
    error = ((actual - expected) ** 2).sum()
    assert 10 * np.log10((expected**2).sum() / error) > 85


# -- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 25, "random"])
def test_any_chunking_equals_one_pass(decoder: CodecDecoder, chunk: int | str) -> None:
    rng = np.random.default_rng(1)
    codes = random_codes(decoder, 60)
    once = decoder.decode(decoder.init_state(), codes)
    size = (lambda: int(rng.integers(0, 40))) if isinstance(chunk, str) else (lambda: int(chunk))
    assert np.abs(in_chunks(decoder, codes, size) - once).max() <= 1e-4


def test_the_sine_form_equals_the_cosine_form(
    source: Checkpoint, decoder: CodecDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_decoder, "_LARGEST_FOLDED_BETA", 0.0)
    tables = write_codec_decoder(source, tmp_path / "sine", "fp32")
    assert not tables
    sine = CodecDecoder(Net(tmp_path / "sine"), source.config.codec, codec_tables(source))
    codes = random_codes(decoder, 10)
    difference = sine.decode(sine.init_state(), codes) - decoder.decode(decoder.init_state(), codes)
    assert np.abs(difference).max() <= 1e-4


def test_interleaved_streams_do_not_touch_each_other(decoder: CodecDecoder) -> None:
    a, b = random_codes(decoder, 20, 1), random_codes(decoder, 20, 2)
    first, second = decoder.init_state(), decoder.init_state()
    pieces_a, pieces_b = [], []
    for start in range(0, 20, 4):
        pieces_a.append(decoder.decode(first, a[start : start + 4]))
        pieces_b.append(decoder.decode(second, b[start : start + 4]))
    assert np.abs(np.concatenate(pieces_a) - decoder.decode(decoder.init_state(), a)).max() <= 1e-4
    assert np.abs(np.concatenate(pieces_b) - decoder.decode(decoder.init_state(), b)).max() <= 1e-4


def test_a_copy_is_an_independent_continuation(decoder: CodecDecoder) -> None:
    codes = random_codes(decoder, 30)
    whole = decoder.decode(decoder.init_state(), codes)[10 * 1920 :]
    state = decoder.init_state()
    decoder.decode(state, codes[:10])
    snapshot = state.copy()
    decoder.decode(state, codes[:20])  # goes elsewhere
    for fork in (snapshot, snapshot.copy()):
        again = fork.copy()
        assert np.abs(decoder.decode(again, codes[10:]) - whole).max() <= 1e-4
        assert (snapshot.frames, again.frames) == (10, 30)


def test_streams_in_threads_share_a_decoder(decoder: CodecDecoder) -> None:
    codes = [random_codes(decoder, 24, seed) for seed in range(4)]
    results: dict[int, F32] = {}

    def stream(i: int) -> None:
        results[i] = in_chunks(decoder, codes[i], lambda: 3)

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, rows in enumerate(codes):
        assert np.abs(results[i] - decoder.decode(decoder.init_state(), rows)).max() <= 1e-4


def test_positions_stay_accurate_after_a_hundred_hours(source: Checkpoint, decoder: CodecDecoder) -> None:
    """A stream at frame 4.5 million sounds like a fresh one once its start is out of sight."""
    c = source.config.codec.decoder
    reach = c.num_layers * (c.sliding_window - 1) + conv_context_frames(c) + 2
    codes = random_codes(decoder, reach + 15)
    late = decoder.init_state()
    late.frames = 4_500_000
    fresh = decoder.decode(decoder.init_state(), codes)
    difference = np.abs(decoder.decode(late, codes) - fresh)
    assert difference.max() > 1e-3  # the start is heard: a late stream sees the (here empty) past
    assert difference[reach * 1920 :].max() <= 1e-4


def test_a_long_input_is_cut_and_an_empty_one_is_nothing(decoder: CodecDecoder) -> None:
    codes = random_codes(decoder, 2 * MAX_RUN_FRAMES + 1)
    state = decoder.init_state()
    assert decoder.decode(state, codes).shape == (1920 * len(codes),)
    before = dict(state.handles)
    assert decoder.decode(state, codes[:0]).shape == (0,)
    assert decoder.decode(state, []).shape == (0,)
    assert state.handles == before


def test_state_size_is_what_the_shapes_say(source: Checkpoint, decoder: CodecDecoder) -> None:
    specs = state_specs(source.config.codec.decoder)
    state = decoder.init_state()
    assert state.nbytes == 4 * sum(int(np.prod(spec.shape)) for spec in specs)
    decoder.decode(state, random_codes(decoder, 3))
    for spec in specs:
        mat = state.handles[spec.name].mat
        assert (mat.c, mat.h, mat.w) == spec.shape


# -- priming and restarts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference_frames", [0, 1, 9, 10, 11, 50])
def test_priming_equals_decoding_and_discarding(decoder: CodecDecoder, reference_frames: int) -> None:
    codes = random_codes(decoder, reference_frames + 15)
    state = decoder.init_state()
    decoder.prime(state, codes[:reference_frames])
    assert state.frames == reference_frames
    whole = decoder.decode(decoder.init_state(), codes)
    primed = decoder.decode(state, codes[reference_frames:])
    assert np.abs(primed - whole[reference_frames * 1920 :]).max() <= 1e-4


def test_reference_mode_restarts_behind_25_frames(decoder: CodecDecoder) -> None:
    codes = random_codes(decoder, 330)
    official = decoder.decode_reference(codes)
    once = decoder.decode(decoder.init_state(), codes)
    restarted = decoder.decode(decoder.init_state(), codes[275:])[25 * 1920 :]
    assert official.shape == once.shape
    assert np.abs(official[: 300 * 1920] - once[: 300 * 1920]).max() <= 1e-4
    assert np.abs(official[300 * 1920 :] - restarted).max() <= 1e-4
    assert np.abs(official[300 * 1920 :] - once[300 * 1920 :]).max() > 1e-3
    assert decoder.decode_reference(codes[:0]).shape == (0,)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_codes_out_of_range_are_named_and_leave_the_state_alone(decoder: CodecDecoder) -> None:
    codes = random_codes(decoder, MAX_RUN_FRAMES + 4)
    state = decoder.init_state()
    for value in (-1, decoder.codebook_size, 2150):
        codes[-1, 5] = value
        with pytest.raises(RequestError, match=rf"code {value} at frame {MAX_RUN_FRAMES + 3}, group 5"):
            decoder.decode(state, codes)
    assert state.frames == 0


@pytest.mark.parametrize(
    "codes", [np.zeros((3, 15), int), np.zeros(16, int), np.zeros((3, 16)), np.zeros((5, 0), int)]
)
def test_codes_of_another_shape_or_type_are_refused(
    decoder: CodecDecoder, codes: NDArray[np.generic]
) -> None:
    with pytest.raises(RequestError, match=r"expected integers \(frames, 16\)"):
        decoder.decode(decoder.init_state(), codes)


def test_missing_or_foreign_codebooks_are_refused(source: Checkpoint, tmp_path: Path) -> None:
    write_codec_decoder(source, tmp_path / "d", "fp32")
    with pytest.raises(ModelError, match="missing"):
        CodecDecoder(Net(tmp_path / "d"), source.config.codec, {})
    with pytest.raises(ModelError, match="shape"):
        CodecDecoder(Net(tmp_path / "d"), source.config.codec, {BOOKS: np.zeros((16, 3, 4), np.float32)})


def test_a_missing_or_misshapen_tensor_is_named(source: Checkpoint, tmp_path: Path) -> None:
    name = "decoder.decoder.2.block.3.conv1.conv.weight"
    tensors = {
        n: source.codec.get(n, source.codec.extent(n)[0]) for n in source.codec if n.startswith("decoder.")
    }
    for kept in ({}, {name: tensors["decoder.decoder.0.conv.bias"]}):
        damaged = {n: t for n, t in tensors.items() if n != name} | kept
        broken = Checkpoint(source.path, source.config, source.main, TensorSource(damaged, source.codec.path))
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            write_codec_decoder(broken, tmp_path / "d", "fp32")


# -- precisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "decibels"), [("fp16", 25), ("bf16", 10), ("int8", 10)])
def test_lower_precisions_run_and_resemble_fp32(
    source: Checkpoint, decoder: CodecDecoder, tmp_path: Path, precision: Precision, decibels: float
) -> None:
    """The bounds are loose: random weights amplify rounding far more than trained ones."""
    low = make_decoder(source, tmp_path, precision)
    codes = random_codes(decoder, 12)
    exact = decoder.decode(decoder.init_state(), codes).astype(np.float64)
    rough = in_chunks(low, codes, lambda: 5)
    assert 10 * np.log10((exact**2).sum() / ((exact - rough) ** 2).sum()) > decibels


def test_int8_convolutions_resemble_fp32(source: Checkpoint, decoder: CodecDecoder, tmp_path: Path) -> None:
    """Any cut of the stream gives the same samples: the scales do not depend on what is decoded."""
    config = source.config.codec.decoder
    ranges = codec_ranges(source, tmp_path)
    assert set(ranges) == set(quantised_convs(config))
    assert list(tmp_path.iterdir()) == []
    tables = codec_tables(source) | write_codec_decoder(source, tmp_path / "d", "fp32", ranges)
    low = CodecDecoder(Net(tmp_path / "d"), source.config.codec, tables)
    graph = (tmp_path / "d.param").read_text()
    assert len(re.findall(r"^Convolution .* 8=1$", graph, re.MULTILINE)) == len(ranges)
    codes = random_codes(decoder, 12, seed=9)
    exact = decoder.decode(decoder.init_state(), codes).astype(np.float64)
    rough = in_chunks(low, codes, lambda: 5)
    assert 10 * np.log10((exact**2).sum() / ((exact - rough) ** 2).sum()) > 12
    np.testing.assert_allclose(in_chunks(low, codes, lambda: 1), rough, atol=2e-3)


def test_ranges_are_those_of_the_inputs(source: Checkpoint, decoder: CodecDecoder) -> None:
    """More codes widen them; the state's own columns are part of what a convolution reads."""
    names = quantised_convs(source.config.codec.decoder)
    codes = random_codes(decoder, 20, seed=4)
    some, more = decoder.input_ranges(codes[:6], names), decoder.input_ranges(codes, names)
    assert all(0 < some[name] <= more[name] for name in names)
    state, largest = decoder.init_state(), 0.0
    for row in codes:
        decoder.decode(state, row[None])
        largest = max(largest, float(np.abs(to_numpy(state.handles["conv_in"])).max()))
    assert more["conv_in"] == pytest.approx(largest, rel=1e-4)


def test_values_that_overflow_are_no_ranges(
    source: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = codec_tables(source)
    monkeypatch.setattr(calibrate, "codec_tables", lambda _: {BOOKS: original[BOOKS] * np.float32(1e38)})
    message = r"values are (nan|inf) at 'conv_in'; its weights are damaged"
    with np.errstate(all="ignore"), pytest.raises(CheckpointError, match=message):
        codec_ranges(source, tmp_path)


def test_initial_states_belong_to_known_states(source: Checkpoint, tmp_path: Path) -> None:
    names = {spec.name for spec in state_specs(source.config.codec.decoder)}
    tables = write_codec_decoder(source, tmp_path / "d", "fp32")
    assert tables
    assert all(key.removeprefix(INITIAL) in names for key in tables)
