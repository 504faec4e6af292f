"""Time and peak memory of converting a checkpoint at real 0.6B dimensions (random weights).

    python -m bench.convert [--precision fp32] [--checkpoint DIR] [--work DIR]

The ratio compares with reading every byte of the checkpoint and writing as many bytes as the model has: what the
disk alone costs, measured right before. Memory is the peak resident size of the converting process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from rtts_engine.graph.writer import PRECISIONS
from tests.checkpoints import write_checkpoint

_CONVERT = """
import json, resource, sys, time
from rtts_engine.convert import convert
steps = []
start = time.perf_counter()
convert(sys.argv[1], sys.argv[2], sys.argv[3], lambda step, _: steps.append((step, time.perf_counter() - start)))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "peak_mb": peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024),
    "steps": {step: round(seconds, 2) for step, seconds in steps},
}))
"""
_PIECE = 16 << 20


def copy_seconds(checkpoint: Path, model_bytes: int, work: Path) -> float:
    """Seconds to read the checkpoint and write ``model_bytes``."""
    start = time.perf_counter()
    for file in checkpoint.rglob("*.safetensors"):
        with file.open("rb") as stream:
            while stream.read(_PIECE):
                pass
    piece = b"\1" * _PIECE
    with (work / "copy").open("wb") as stream:
        for _ in range(model_bytes // _PIECE):
            stream.write(piece)
    (work / "copy").unlink()
    return time.perf_counter() - start


def largest_tensors_mb(checkpoint: Path) -> float:
    """The largest tensor as float32: what a converter without streaming would hold at least once."""
    from rtts_engine.checkpoint import Checkpoint

    opened = Checkpoint.open(checkpoint)
    sizes = []
    for source in (opened.main, opened.codec):
        for name in source:
            shape, _ = source.extent(name)
            count = 1
            for n in shape:
                count *= n
            sizes.append(count * 4 / 1e6)
    return max(sizes)


def measure(checkpoint: Path, precision: str, work: Path) -> dict[str, Any]:
    out = work / "model"
    run = subprocess.run(
        [sys.executable, "-c", _CONVERT, str(checkpoint), str(out), precision],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(run.stdout)
    model_bytes = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    shutil.rmtree(out)
    copied = copy_seconds(checkpoint, model_bytes, work)
    largest = largest_tensors_mb(checkpoint)
    return {
        "precision": precision,
        **result,
        "model_mb": model_bytes / 1e6,
        "disk_only_seconds": copied,
        "ratio_to_disk_only": result["seconds"] / copied,
        "largest_tensor_mb": largest,
        "peak_over_largest": result["peak_mb"] / largest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--precision", choices=PRECISIONS, action="append")
    parser.add_argument(
        "--checkpoint", type=Path, help="a checkpoint to convert; default: random weights, 0.6B"
    )
    parser.add_argument("--work", type=Path, help="folder for temporary files (7 GB)")
    parser.add_argument(
        "--json", type=Path, help="where to write the result; default bench/results/convert.json"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        work = Path(folder)
        checkpoint = arguments.checkpoint or write_checkpoint(work / "checkpoint", preset="0.6b", kind="base")
        rows = [measure(checkpoint, precision, work) for precision in arguments.precision or ["fp32"]]
    for row in rows:
        ratio, over = row["ratio_to_disk_only"], row["peak_over_largest"]
        print(
            f"{row['precision']}: {row['seconds']:.1f} s ({ratio:.1f}x the disk alone), peak {row['peak_mb']:.0f} MB "
            f"({over:.2f}x the largest tensor, {row['largest_tensor_mb']:.0f} MB)"
        )
    path = machine.write("convert", machine.invocation("bench.convert"), {"rows": rows}, arguments.json)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
