"""Where the benchmarks of this folder keep their results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rtts.bench import machine
from rtts.bench.machine import facts as facts

RESULTS = Path(__file__).parent / "results"


def write(name: str, command: str, result: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write ``bench/results/<name>.json`` (or ``out``): the command, the machine and the figures."""
    return machine.write(out or RESULTS / f"{name}.json", command, result)
