"""The codec decoder layer by layer: each product of its graph alone, against the arithmetic peak of its own form.

Nets of one layer with the shapes that the decoder's graph holds, timed as CPU time of one thread, and SnakeBeta, which
multiplies little and takes a good share of the time. What the layers take together is less than a decoded frame: states
go in and out there, and blobs are copied.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rtts_engine.graph.writer import GraphWriter, Precision
from rtts_engine.runtime import Net

INPUT_RANGE = 4.0
"""Of the int8 convolutions' inputs; speed does not depend on it."""


@dataclass(frozen=True, order=True)
class Shape:
    """One layer of the graph for so many columns."""

    kind: str
    """``conv``, ``depthwise``, ``linear`` or ``snake``."""
    form: Precision
    """What it multiplies in."""
    inputs: int
    outputs: int
    kernel: int
    dilation: int
    columns: int

    @property
    def macs(self) -> float:
        """Multiply-adds; those of SnakeBeta do not count."""
        if self.kind == "snake":
            return 0.0
        inputs = 1 if self.kind == "depthwise" else self.inputs
        return float(inputs * self.outputs * self.kernel * self.columns)

    def __str__(self) -> str:
        if self.kind == "snake":
            return f"snake {self.inputs}"
        taps = f" k{self.kernel}" + (f" d{self.dilation}" if self.dilation > 1 else "")
        return f"{self.kind} {self.inputs}>{self.outputs}" + (taps if self.kernel > 1 else "")


def layers(graph: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Kind and parameters of every layer of a ``.param`` file."""
    for line in graph.with_suffix(".param").read_text().splitlines()[2:]:
        fields = line.split()
        first = 4 + int(fields[2]) + int(fields[3])
        yield fields[0], dict(f.split("=", 1) for f in fields[first:])


def phases(kind: str, params: Mapping[str, str]) -> int:
    """Columns out of each column in: the phases of an up-sampling lie side by side before they become columns."""
    if kind == "Reshape" and params.get("0") == "-1" and int(params.get("2", 0)) > 0:
        return int(params["1"])
    return 1


def shapes(graph: Path, precision: Precision, frames: int) -> Counter[Shape]:
    """Every product and SnakeBeta of the decoder's graph, and how often it is there."""
    plain: Precision = "fp32" if precision == "int8" else precision
    found: Counter[Shape] = Counter()
    columns, width = frames, 0
    for kind, params in layers(graph):
        columns *= phases(kind, params)
        if kind in ("Convolution", "ConvolutionDepthWise"):
            outputs, kernel, size = (int(params[key]) for key in ("0", "1", "6"))
            deep = kind == "ConvolutionDepthWise"
            inputs = outputs if deep else size // outputs // kernel
            form = "int8" if params.get("8") == "1" else plain
            name = "depthwise" if deep else "conv"
            found[Shape(name, form, inputs, outputs, kernel, int(params["2"]), columns)] += 1
        elif kind == "Gemm" and params.get("5") == "1":
            form = "int8" if params.get("18") == "2" else plain
            found[Shape("linear", form, int(params["9"]), int(params["8"]), 1, 1, columns)] += 1
        elif kind == "InnerProduct":
            outputs = int(params["0"])
            found[Shape("linear", plain, int(params["2"]) // outputs, outputs, 1, 1, columns)] += 1
        elif kind == "MemoryData":
            width = int(params["0"])
        elif kind == "UnaryOp" and params["0"] in ("9", "10"):  # sin, cos
            found[Shape("snake", plain, width, width, 1, 1, columns)] += 1
    return found


def net(shape: Shape, precision: Precision, folder: Path) -> tuple[Net, np.ndarray]:
    """A net of this layer alone, and something to feed it with."""
    rng = np.random.default_rng(0)

    def normal(*size: int) -> np.ndarray:
        return rng.normal(0, 1, size).astype(np.float32)

    stem = folder / "layer"
    with GraphWriter(stem, shape.form) as g:
        x = g.input("x")
        if shape.kind == "linear":
            y = g.linear(x, normal(shape.outputs, shape.inputs))
            fed = normal(shape.columns, shape.inputs)
        elif shape.kind == "snake":
            y = g.unary(g.multiply(x, g.constant(normal(shape.inputs))), "cos")
            y = g.add(x, g.multiply(y, g.constant(normal(shape.inputs))))
            fed = normal(shape.inputs, 1, shape.columns)
        else:
            deep = shape.kind == "depthwise"
            y = g.conv(
                x,
                normal(shape.outputs, 1 if deep else shape.inputs, shape.kernel),
                normal(shape.outputs),
                dilation=shape.dilation,
                groups=shape.outputs if deep else 1,
                input_range=INPUT_RANGE if shape.form == "int8" else None,
            )
            fed = normal(shape.inputs, 1, shape.columns + (shape.kernel - 1) * shape.dilation)
        g.output(y, "y")
    return Net(stem, precision=precision), fed


def measure(
    graph: Path, precision: Precision, frames: int, probed: Mapping[Precision, float], repeats: int
) -> dict[str, Any]:
    """Rows, the slowest layer first, and what the products take together.

    The peak of a form is the best that any product of it reached here: ``probed`` (1e9 multiply-adds a second), or one
    of the layers, whose kernel may be better than the probe's.
    """
    found = []
    for shape, count in sorted(shapes(graph, precision, frames).items()):
        with tempfile.TemporaryDirectory() as folder:
            layer, fed = net(shape, precision, Path(folder))
        times = []
        for _ in range(repeats + 1):
            start = time.thread_time()
            layer.run({"x": fed}, states=["y"])
            times.append(time.thread_time() - start)
        found.append((shape, count, median(times[1:])))
    peaks: dict[Precision, float] = dict(probed)
    for shape, _, seconds in found:
        peaks[shape.form] = max(peaks[shape.form], shape.macs / seconds / 1e9)
    products = [(shape, count, seconds) for shape, count, seconds in found if shape.macs]
    taken = sum(count * seconds for _, count, seconds in products) * 1e3 / frames
    bound = sum(count * shape.macs / peaks[shape.form] for shape, count, _ in products) / 1e6 / frames
    rows = [
        {
            "layer": str(shape),
            "form": shape.form,
            "columns": shape.columns,
            "count": count,
            "ms_per_frame": round(count * seconds * 1e3 / frames, 3),
            "gmac_per_s": round(shape.macs / seconds / 1e9, 1) if shape.macs else None,
            "share": round(shape.macs / seconds / 1e9 / peaks[shape.form], 3) if shape.macs else None,
        }
        for shape, count, seconds in sorted(found, key=lambda row: -row[1] * row[2])
    ]
    return {
        "peak_gmac_per_s": {form: round(peak, 1) for form, peak in peaks.items()},
        "products_ms": round(taken, 2),
        "products_bound_ms": round(bound, 2),
        "share": round(bound / taken, 3),
        "snake_ms": round(sum(n * t for shape, n, t in found if not shape.macs) * 1e3 / frames, 2),
        "rows": rows,
    }
