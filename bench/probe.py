"""What this machine can do, measured: memory bandwidth and arithmetic, to hold a network's time against.

Products run through the engine's own nets, so that a precision is compared with the best that its kernels reach in
cache, and fp32 with numpy's BLAS as well where that is faster. Needs ``OPENBLAS_NUM_THREADS=1`` for the figure of one
core.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from rtts_engine.graph.writer import GraphWriter, Precision
from rtts_engine.runtime import Net

BUFFER_BYTES = 512 << 20
"""Far beyond any cache."""
_SIZE, _ROWS, _LAYERS = 512, 256, 8


def read_bandwidth(threads: int, buffer: np.ndarray) -> float:
    """GB/s that ``threads`` threads together read from memory."""
    if threads == 1:
        return buffer.nbytes / seconds(lambda: np.bitwise_or.reduce(buffer), 1, 1) / 1e9
    parts = np.array_split(buffer.view(np.uint64), threads)
    workers = [threading.Thread(target=np.bitwise_or.reduce, args=(part,)) for part in parts]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return buffer.nbytes / (time.perf_counter() - start) / 1e9


class ProductProbe:
    """Products that stay in cache: the rate of the arithmetic alone."""

    def __init__(self, precision: Precision, threads: int) -> None:
        rng = np.random.default_rng(0)
        weight = rng.normal(0, _SIZE**-0.5, (_SIZE, _SIZE)).astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            stem = Path(folder) / "probe"
            with GraphWriter(stem, precision) as g:
                x = g.input("x")
                for _ in range(_LAYERS):
                    x = g.linear(x, weight)
                g.output(x, "y")
            self._net = Net(stem, precision=precision, threads=threads)
        self._rows = rng.normal(0, 1, (_ROWS, _SIZE)).astype(np.float32)
        self._weight = weight
        self._threads = threads
        self._blas = precision == "fp32" and threads == 1

    def gmac_per_s(self) -> float:
        """1e9 multiply-adds a second."""
        work = _ROWS * _SIZE * _SIZE / 1e9
        best = _LAYERS * work / seconds(lambda: self._net.run({"x": self._rows}, ["y"]), 3, self._threads)
        if self._blas:
            best = max(best, work / seconds(lambda: self._rows @ self._weight, 9, self._threads))
        return best


def seconds(call: Callable[[], object], repeats: int, threads: int) -> float:
    """Median time of a call: CPU time where one thread works, else wall time."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return median(times)
