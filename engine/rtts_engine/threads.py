"""Threads of the two stages: the numbers, and what they are by default on this machine.

One thread a stage is right on two cores. With more of them, a large model may gain from more threads: that depends on
the memory, the processor and on what else runs, so it is measured once per process, under the load of the moment.
ncnn's threads wait for each other by spinning: where another process wants one of their cores, a product takes a
hundred times as long. A number that is not much faster on average is therefore not taken.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from rtts_engine.errors import RequestError
from rtts_engine.graph.writer import GraphWriter
from rtts_engine.runtime import Net

Stage = Literal["ar", "codec"]

SMALL_BYTES = 128 << 20
"""Weights below this are fast enough with one thread, and threads would mostly wait for each other."""
WORTH = 0.75
"""Twice the threads must take at most this share of the time."""
BUDGET_S = 0.4
"""No further number is measured after so long."""
_TOPOLOGY = Path("/sys/devices/system/cpu")
_ROWS: dict[Stage, int] = {"ar": 1, "codec": 64}
_LAYERS: dict[Stage, int] = {"ar": 16, "codec": 1}
_WIDTH, _ROUNDS = 1024, 7


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads per stage. The two stages run at the same time, so their sum should not exceed the cores."""

    ar: int = 1
    """Talker, code predictor and text projection."""
    codec: int = 1
    """Codec decoder, and the encoders when a voice is cloned."""

    def __post_init__(self) -> None:
        for name, value in (("AR", self.ar), ("codec", self.codec)):
            if not isinstance(value, int) or not 1 <= value <= 256:
                raise RequestError(f"{value!r} {name} threads, expected 1 to 256")


def automatic(weight_bytes: int) -> Threads:
    """What a model with so many bytes of weights gets when nobody says: measured once per process, half a second."""
    return Threads() if weight_bytes < SMALL_BYTES else _measured()


def choose(cores: int, measure: Callable[[Stage, int], float | None]) -> Threads:
    """Threads by what a stage takes with them.

    Args:
        cores: physical ones that the process may use.
        measure: seconds of a stage's work with so many threads; None: the time for measuring is over.
    """
    found: dict[Stage, int] = {"ar": 1, "codec": 1}
    stages: tuple[Stage, ...] = ("ar", "codec")  # the first is the slower one
    for stage in stages:
        best: float | None = None
        while True:
            wanted = found[stage] * 2
            if sum(found.values()) - found[stage] + wanted > cores:
                break
            best = measure(stage, found[stage]) if best is None else best
            seconds = None if best is None else measure(stage, wanted)
            if best is None or seconds is None or seconds > WORTH * best:
                break
            found[stage], best = wanted, seconds
    return Threads(**found)


def physical_cores() -> int:
    """Cores that this process may run on, two threads of one core counted once where the system tells."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    usable = affinity(0) if affinity else set(range(os.cpu_count() or 1))
    cores = set()
    for cpu in usable:
        try:
            cores.add((_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


@lru_cache(maxsize=1)
def _measured() -> Threads:
    cores = physical_cores()
    if cores <= 2:
        return Threads()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rtts-threads") as folder:
        stems = {stage: _probe(Path(folder), stage) for stage in _ROWS}

        def measure(stage: Stage, threads: int) -> float | None:
            if time.perf_counter() - start > BUDGET_S:
                return None
            return seconds(stems[stage], _ROWS[stage], threads)

        return choose(cores, measure)


def _probe(folder: Path, stage: Stage) -> Path:
    """Products of the stage's shape: a row and more weights than caches hold, or many rows."""
    weight = np.zeros((_WIDTH, _WIDTH), np.float32)
    with GraphWriter(folder / stage) as g:
        x = g.input("x")
        for _ in range(_LAYERS[stage]):
            x = g.linear(x, weight)
        g.output(x, "y")
    return folder / stage


def seconds(stem: Path, rows: int, threads: int) -> float:
    """Mean wall time of a pass: one that waits for a busy core counts in full."""
    net = Net(stem, threads=threads)
    x = np.zeros((rows, _WIDTH), np.float32)
    net.run({"x": x}, ["y"])
    start = time.perf_counter()
    for _ in range(_ROUNDS):
        net.run({"x": x}, ["y"])
    return (time.perf_counter() - start) / _ROUNDS
