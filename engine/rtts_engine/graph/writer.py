"""Writes ncnn graphs: the ``.param`` text and the ``.bin`` weights, layer by layer, from numpy arrays.

Weights go to the file as soon as a layer is added, so that converting a network holds one layer in memory. ncnn
wants a blob that is read twice to pass through a ``Split`` layer; the writer adds those by itself when it closes.

The parameter numbers are ncnn's own (``docs/developer-guide/operators.md`` of ncnn); an axis counts from the
outermost: for a (c, h, w) blob 0, 1, 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal

import numpy as np
import numpy.typing as npt

from rtts_engine.graph.rotation import block_size, hadamard, rotated

F32 = npt.NDArray[np.float32]
Precision = Literal["fp32", "fp16", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "bf16", "int8")
Form = Literal["int8", "rotated", "fp16"]
"""How one product of an int8 graph is written: as it is, with rotated inputs (see ``rotation``), or wider."""
FORMS: tuple[Form, ...] = ("int8", "rotated", "fp16")

_MAGIC = "7767517"
_TAG_F32 = np.uint32(0)
_TAG_F16 = np.uint32(0x01306B47)
_TAG_INT8 = np.uint32(0x000D4B38)
TO_END = -233
"""ncnn's "up to the end" in Slice and Crop."""
_BINARY = {"add": 0, "subtract": 1, "multiply": 2}
_UNARY = {"square": 4, "sqrt": 5, "sin": 9, "cos": 10}

Params = Mapping[int, "int | float | Sequence[int]"]


@dataclass(frozen=True, slots=True)
class Blob:
    """A value in the graph: what one layer wrote."""

    name: str


@dataclass(slots=True)
class _Layer:
    kind: str
    name: str
    inputs: list[str]
    outputs: list[str]
    params: str


def _render(params: Params) -> str:
    parts = []
    for key, value in params.items():
        if isinstance(value, Sequence):
            parts.append(f"{-23300 - key}={len(value)}," + ",".join(str(v) for v in value))
        elif isinstance(value, float):
            parts.append(f"{key}={value:.9e}")
        else:
            parts.append(f"{key}={value}")
    return " ".join(parts)


def quantise(weight: F32) -> tuple[F32, npt.NDArray[np.int8]]:
    """Largest magnitude of each row (N,), and the rows (N, K) in 127ths of it."""
    scale = np.maximum(np.abs(weight).max(axis=1), 1e-12).astype(np.float32)
    return scale, np.clip(np.rint(weight / scale[:, None] * 127), -127, 127).astype(np.int8)


class GraphWriter:
    """Context manager that writes ``stem.param`` and ``stem.bin``; complete only after a clean exit."""

    def __init__(
        self, stem: Path, precision: Precision = "fp32", forms: Mapping[str, Form] | None = None
    ) -> None:
        """``forms``: of an int8 graph's products, by the names that ``linear`` is given; others are plain int8."""
        self._stem = stem
        self.precision = precision
        self._forms = (forms or {}) if precision == "int8" else {}
        self._layers: list[_Layer] = []
        self._names = 0
        self._results: list[tuple[str, str]] = []
        self._bin: IO[bytes] = stem.with_suffix(".bin").open("wb")

    def __enter__(self) -> GraphWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bin.close()
        if kind is None:
            self._stem.with_suffix(".param").write_text(self._text(), encoding="ascii")

    # -- structure ---------------------------------------------------------------------------

    def layer(self, kind: str, inputs: Sequence[Blob], params: Params | None = None) -> Blob:
        """Add a layer with one output."""
        return self.layers(kind, inputs, 1, params)[0]

    def layers(
        self, kind: str, inputs: Sequence[Blob], outputs: int, params: Params | None = None
    ) -> list[Blob]:
        """Add a layer with several outputs."""
        blobs = [Blob(f"b{self._names + i}") for i in range(outputs)]
        self._names += outputs
        name = f"l{len(self._layers)}"
        names = [b.name for b in inputs]
        self._layers.append(_Layer(kind, name, names, [b.name for b in blobs], _render(params or {})))
        return blobs

    def input(self, name: str) -> Blob:
        """A graph input that the runtime feeds by ``name``."""
        self._layers.append(_Layer("Input", name, [], [name], ""))
        return Blob(name)

    def label(self, blob: Blob, name: str) -> Blob:
        """Name the blob that was written last, so that a run may stop at it or feed it in place of its layer."""
        outputs = self._layers[-1].outputs
        outputs[outputs.index(blob.name)] = name
        return Blob(name)

    def output(self, blob: Blob, name: str) -> None:
        """Give ``blob`` the name under which the runtime extracts it.

        No layer is added: any layer would repack a key/value cache, whose layout is private.
        """
        self._results.append((blob.name, name))

    def _text(self) -> str:
        """The ``.param`` file: a blob with several readers goes through a ``Split``."""
        readers: dict[str, list[str | None]] = {}  # None: a layer; otherwise the output name
        for layer in self._layers:
            for blob in layer.inputs:
                readers.setdefault(blob, []).append(None)
        for blob, result in self._results:
            readers.setdefault(blob, []).append(result)
        # What each reader of a blob sees, in reading order.
        seen: dict[str, list[str]] = {}
        for blob, names in readers.items():
            if len(names) == 1:
                seen[blob] = [names[0] or blob]
            else:
                seen[blob] = [name or f"{blob}_{i}" for i, name in enumerate(names)]
        lines: list[_Layer] = []
        for layer in self._layers:
            inputs = [seen[blob].pop(0) for blob in layer.inputs]
            outputs = [seen[blob][0] if len(readers.get(blob, ())) == 1 else blob for blob in layer.outputs]
            lines.append(_Layer(layer.kind, layer.name, inputs, outputs, layer.params))
            for blob in outputs:
                if len(readers.get(blob, ())) > 1:
                    lines.append(_Layer("Split", f"split_{blob}", [blob], list(seen[blob]), ""))
        blobs = sum(len(line.outputs) for line in lines)
        text = [_MAGIC, f"{len(lines)} {blobs}"]
        for line in lines:
            counts = [str(len(line.inputs)), str(len(line.outputs))]
            fields = [line.kind, line.name, *counts, *line.inputs, *line.outputs, line.params]
            text.append(" ".join(f for f in fields if f))
        return "\n".join(text) + "\n"

    # -- weights -----------------------------------------------------------------------------

    def _write(self, array: npt.NDArray[np.generic]) -> None:
        self._bin.write(np.ascontiguousarray(array).data)
        self._bin.write(b"\0" * (-array.nbytes % 4))

    def _plain(self, values: F32) -> None:
        """Values without a tag: biases, norm weights, constants."""
        self._write(values.astype(np.float32, copy=False))

    def _tagged(self, values: F32) -> None:
        """A weight matrix with its storage tag: fp16 halves the file where the precision allows it."""
        if self.precision == "fp16":
            self._half(values)
        else:
            self._write(_TAG_F32.reshape(1))
            self._write(values.astype(np.float32, copy=False))

    def _half(self, values: F32) -> None:
        self._write(_TAG_F16.reshape(1))
        self._write(values.astype(np.float16))

    # -- layers with weights -----------------------------------------------------------------

    def constant(self, values: F32) -> Blob:
        """A constant vector (w,), or with more axes (c, 1, 1) to scale the channels of a (c, h, w) blob."""
        shape = tuple(values.shape)
        params: dict[int, int] = {0: shape[-1]}
        if len(shape) == 3:
            params = {0: shape[2], 1: shape[1], 2: shape[0]}
        blob = self.layer("MemoryData", [], params)
        self._plain(values)
        return blob

    def linear(self, x: Blob, weight: F32, bias: F32 | None = None, name: str = "") -> Blob:
        """``x @ weight.T + bias`` for rows x (n, K), weight (N, K); ``name`` decides on its form in an int8 graph."""
        out_features, in_features = weight.shape
        form = self._forms.get(name, "int8")
        if self.precision == "fp16" or form == "fp16":
            # Gemm keeps fp32 weights on x86; InnerProduct stores and reads them as fp16. Without packing it computes
            # a row alike in any company, as int8 products do.
            blob = self.layer(
                "InnerProduct", [x], {0: out_features, 1: int(bias is not None), 2: weight.size}
            )
            self._half(weight)
            if bias is not None:
                self._plain(bias)
            return blob
        params: dict[int, int] = {2: 0, 3: 1, 4: 0, 5: 1, 6: 1, 7: 0, 8: out_features, 9: in_features}
        if self.precision == "int8":
            if form == "rotated":
                x, weight = self._rotate(x, in_features), rotated(weight)
            return self._linear_int8(x, weight, bias, params)
        blob = self.layer("Gemm", [x], params | {10: -1 if bias is None else 4})
        self._tagged(weight)
        if bias is not None:
            self._tagged(bias)
        return blob

    def _linear_int8(self, x: Blob, weight: F32, bias: F32 | None, params: dict[int, int]) -> Blob:
        """Rows of the weight scaled to absmax 1, one int8 scale for all; outputs times the row's scale.

        ncnn quantises the activations per row at run time. Per-output-channel accuracy at the cost of one product.
        """
        scale, quantised = quantise(weight)
        blob = self.layer("Gemm", [x], params | {10: -1, 18: 2})
        self._write(_TAG_INT8.reshape(1))
        self._write(quantised)
        self._plain(np.array([127.0], np.float32))
        blob = self.multiply(blob, self.constant(scale))
        return blob if bias is None else self.add(blob, self.constant(bias))

    def _rotate(self, x: Blob, width: int) -> Blob:
        size = block_size(width)
        params = {2: 0, 3: 1, 4: 0, 5: 1, 6: 1, 7: 0, 8: size, 9: size, 10: -1}
        blob = self.layer("Gemm", [self.reshape(x, -1, size)], params)
        self._write(_TAG_F32.reshape(1))
        self._write(hadamard(size))
        return self.reshape(blob, -1, width)

    def rms_norm(self, x: Blob, weight: F32, eps: float) -> Blob:
        """RMSNorm over the last axis."""
        blob = self.layer("RMSNorm", [x], {0: weight.size, 1: eps, 2: 1})
        self._plain(weight)
        return blob

    def layer_norm(self, x: Blob, weight: F32, bias: F32, eps: float) -> Blob:
        """LayerNorm over the last axis with an affine."""
        blob = self.layer("LayerNorm", [x], {0: weight.size, 1: eps, 2: 1})
        self._plain(weight)
        self._plain(bias)
        return blob

    def conv(
        self,
        x: Blob,
        weight: F32,
        bias: F32 | None,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        input_range: float | None = None,
    ) -> Blob:
        """Unpadded 1-D convolution of a (C, 1, T) blob; weight (O, C/groups, K).

        It is a 2-D convolution with 1 x K kernels: ncnn's fast x86 kernels are the 2-D ones. With ``input_range``, the
        largest magnitude of ``x``, it is an int8 one: weights scaled per output, inputs by that range.
        """
        outputs, _, kernel = weight.shape
        params: dict[int, int] = {
            0: outputs,
            1: kernel,
            11: 1,
            2: dilation,
            12: 1,
            3: stride,
            13: 1,
            4: 0,
            14: 0,
        }
        params |= {5: int(bias is not None), 6: weight.size}
        if input_range is not None:
            scale, quantised = quantise(weight.reshape(outputs, -1))
            blob = self.layer("Convolution", [x], params | {8: 1})
            self._write(_TAG_INT8.reshape(1))
            self._write(quantised)
            if bias is not None:
                self._plain(bias)
            self._plain((127 / scale).astype(np.float32))
            self._plain(np.array([127 / input_range], np.float32))
            return blob
        if groups == 1:
            blob = self.layer("Convolution", [x], params)
        else:
            blob = self.layer("ConvolutionDepthWise", [x], params | {7: groups})
        self._tagged(weight)
        if bias is not None:
            self._plain(bias)
        return blob

    # -- layers without weights --------------------------------------------------------------

    def add(self, a: Blob, b: Blob) -> Blob:
        return self.layer("BinaryOp", [a, b], {0: _BINARY["add"]})

    def subtract(self, a: Blob, b: Blob) -> Blob:
        return self.layer("BinaryOp", [a, b], {0: _BINARY["subtract"]})

    def multiply(self, a: Blob, b: Blob) -> Blob:
        return self.layer("BinaryOp", [a, b], {0: _BINARY["multiply"]})

    def unary(self, x: Blob, function: Literal["square", "sqrt", "sin", "cos"]) -> Blob:
        return self.layer("UnaryOp", [x], {0: _UNARY[function]})

    def rope(self, x: Blob, cos: Blob, sin: Blob) -> Blob:
        """Rotate-half RoPE of (heads, n, head_dim); cos and sin (n, head_dim / 2)."""
        return self.layer("RotaryEmbed", [x, cos, sin], {0: 0})

    def attention(self, q: Blob, k: Blob, v: Blob, mask: Blob, scale: float) -> Blob:
        """(heads, n, head_dim) of queries against all keys; ``mask`` (n, keys) is added to the scores."""
        return self.layer("SDPA", [q, k, v, mask], {5: 1, 6: scale})

    def cached_attention(
        self, q: Blob, k: Blob, v: Blob, mask: Blob | None, scale: float, past: tuple[Blob, Blob]
    ) -> tuple[Blob, Blob, Blob]:
        """The same behind the keys and values of ``past``; returns the output and the grown caches (opaque).

        ``mask`` None: every row sees all keys.
        """
        masks = [] if mask is None else [mask]
        out, keys, values = self.layers("SDPA", [q, k, v, *masks, *past], 3, {5: len(masks), 6: scale, 7: 1})
        return out, keys, values

    def silu(self, x: Blob) -> Blob:
        return self.layer("Swish", [x])

    def gelu(self, x: Blob) -> Blob:
        """The exact (erf) form."""
        return self.layer("GELU", [x])

    def reshape(self, x: Blob, *shape: int) -> Blob:
        """Reshape to ``shape``, outermost axis first; one entry may be -1."""
        return self.layer("Reshape", [x], dict(enumerate(reversed(shape))))

    def permute(self, x: Blob, order: int) -> Blob:
        """ncnn's ``Permute`` order types: for 2-D 1 transposes; for (c, h, w) 2 swaps c and h."""
        return self.layer("Permute", [x], {0: order})

    def concat(self, blobs: Sequence[Blob], axis: int) -> Blob:
        return self.layer("Concat", blobs, {0: axis})

    def split_at(self, x: Blob, sizes: Sequence[int], axis: int) -> list[Blob]:
        """Cut ``x`` along ``axis`` into pieces of ``sizes``."""
        return self.layers("Slice", [x], len(sizes), {0: [*sizes[:-1], TO_END], 1: axis})

    def pick(self, x: Blob, rows: Blob) -> Blob:
        """Rows of x (n, C) by a matrix of zeros and ones (m, n): exact, because the others count zero times."""
        return self.layer("Gemm", [rows, x], {2: 0, 3: 0, 6: 1, 10: -1})

    def last(self, x: Blob, count: int, axis: int) -> Blob:
        """The last ``count`` entries along ``axis``."""
        return self.layer("Crop", [x], {9: [-count], 10: [TO_END], 11: [axis]})
