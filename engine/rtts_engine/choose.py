"""``--precision auto``: the fastest form of the weights on this CPU, by a short measurement.

Generation reads every weight for each frame and multiplies it with one row, so that what counts is the time per weight
of a one-row product whose weights are in memory, not in cache. That depends on the CPU's instructions (AVX2, VNNI,
BF16, F16C), on ncnn's kernels for them and on the memory: it is measured rather than looked up.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.graph.writer import PRECISIONS, GraphWriter, Precision
from rtts_engine.runtime import Net
from rtts_engine.tables import table_shapes

SMALL_WEIGHTS = 32_000_000
"""A model of fewer weights fits into the caches of many CPUs in any precision: the exact one is taken."""
WORTH = 0.85
"""A less exact precision must take at most this share of the time."""
_WIDTH, _LAYERS, _ROUNDS = 1024, 40, 5


@dataclass(frozen=True, slots=True)
class Choice:
    """A precision, and what it was chosen by."""

    precision: Precision
    measured_ms: dict[Precision, float]
    """Milliseconds of a one-row product per 100 million weights; empty where nothing was measured."""


def choose_precision(checkpoint: Checkpoint | None = None, folder: Path | None = None) -> Choice:
    """The most exact precision of which no other is much faster on this CPU; a few seconds.

    Args:
        checkpoint: what is to be converted; a small model stays fp32 without a measurement. None: a large one.
        folder: room for 600 MB of temporary files; the system's own place for such if None.

    Raises:
        OSError: the files cannot be written.
    """
    if checkpoint is not None and matrix_weights(checkpoint) < SMALL_WEIGHTS:
        return Choice("fp32", {})
    measured = measure(folder)
    return Choice(best(measured), measured)


def best(measured_ms: dict[Precision, float]) -> Precision:
    """From the most to the least exact: the first that none behind it beats by far."""
    order = [precision for precision in PRECISIONS if precision in measured_ms]
    chosen = order[0]
    for precision in order[1:]:
        if measured_ms[precision] <= WORTH * measured_ms[chosen]:
            chosen = precision
    return chosen


def matrix_weights(checkpoint: Checkpoint) -> int:
    """Weights of the language model without its look-up tables."""
    tables = set(table_shapes(checkpoint.config.talker))
    shapes = [checkpoint.main.extent(name)[0] for name in checkpoint.main if name not in tables]
    return int(sum(np.prod(shape, dtype=np.int64) for shape in shapes))


def measure(folder: Path | None = None) -> dict[Precision, float]:
    """Milliseconds per 100 million weights of every precision, measured in turn, as CPU time of one thread."""
    rng = np.random.default_rng(0)
    weight = rng.normal(0, _WIDTH**-0.5, (_WIDTH, _WIDTH)).astype(np.float32)
    row = rng.normal(0, 1, (1, _WIDTH)).astype(np.float32)
    nets: dict[Precision, Net] = {}
    for precision in PRECISIONS:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".precision") as work:
            with GraphWriter(Path(work) / "product", precision) as g:
                x = g.input("x")
                for _ in range(_LAYERS):
                    x = g.linear(x, weight)
                g.output(x, "y")
            nets[precision] = Net(Path(work) / "product", precision=precision)
    times: dict[Precision, list[float]] = {precision: [] for precision in PRECISIONS}
    for _ in range(_ROUNDS):
        for precision, net in nets.items():
            start = time.thread_time()
            net.run({"x": row}, ["y"])
            times[precision].append(time.thread_time() - start)
    scale = 1e3 * 1e8 / (_LAYERS * _WIDTH**2)
    return {precision: round(median(values) * scale, 2) for precision, values in times.items()}
