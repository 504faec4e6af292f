"""Where the benchmarks of this folder keep their results."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rtts.bench import machine
from rtts.bench.machine import facts as facts

RESULTS = Path(__file__).parent / "results"


def invocation(module: str) -> str:
    """The command that runs, for the record: with its options, of paths the last part only."""
    given = [Path(value).name if os.sep in value else value for value in sys.argv[1:]]
    return shlex.join(["python", "-m", module, *given])


def write(name: str, command: str, result: Mapping[str, Any], out: Path | None = None) -> Path:
    """Write ``bench/results/<name>.json`` (or ``out``): the command, the machine and the figures."""
    return machine.write(out or RESULTS / f"{name}.json", command, result)
