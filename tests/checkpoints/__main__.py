"""``python -m tests.checkpoints OUT --preset tiny --kind base``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import get_args

from . import KINDS, PRESETS, Dtype, write_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.checkpoints", description="Write a random checkpoint."
    )
    parser.add_argument("out", type=Path, help="directory to write")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="tiny")
    parser.add_argument("--kind", choices=KINDS, default="base")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=get_args(Dtype), default="bfloat16")
    parser.add_argument("--codec-dtype", choices=get_args(Dtype), default="float32")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument(
        "--eos-gain",
        type=float,
        default=1.0,
        help="of the end-of-speech row (0.3: rarely stops, 2: stops soon)",
    )
    options = vars(parser.parse_args())
    started = time.perf_counter()
    out = write_checkpoint(**options)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    print(f"{out}: {size / 1e6:.1f} MB in {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
