"""This engine against the official PyTorch package: same weights, same text, same run.

    python -m bench.compare CHECKPOINT [--precisions int8 ...] [--torch fp32 bf16] [--frames 24] [--rounds 2]

CHECKPOINT is a CustomVoice checkpoint; for real dimensions without real weights, make one with ``python -m
tests.checkpoints DIR --preset 0.6b --kind custom_voice``. Every engine runs in a process of its own, with two threads
in all, and the rounds of all engines take turns. The official package (see the ``oracle`` extra) gives its sound at the
end; this one streams it, talker and codec on a thread each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from rtts.bench.machine import peak_memory_mb

TEXT = "Thank you for calling. I looked at your order, and it left our warehouse this morning."
FRAME_S = 0.08
THREADS = 2


def official(checkpoint: Path, dtype: str, frames: int) -> dict[str, Any]:
    """One run of the official package, without sampling, stopped after ``frames``."""
    from tests.oracle.official import torch, voice_model

    torch.set_num_threads(THREADS)
    start_s = time.perf_counter()
    model = voice_model(checkpoint, getattr(torch, {"fp32": "float32", "bf16": "bfloat16"}[dtype]))
    load_s = time.perf_counter() - start_s
    speaker = model.get_supported_speakers()[0]

    def speak(count: int) -> int:
        waves, rate_hz = model.generate_custom_voice(
            text=TEXT, language="english", speaker=speaker, do_sample=False, subtalker_dosample=False,
            max_new_tokens=count + 1,
        )  # fmt: skip
        return round(len(waves[0]) / rate_hz / FRAME_S)

    speak(2)
    start_s = time.perf_counter()
    made = speak(frames)
    wall_s = time.perf_counter() - start_s
    return figures(load_s, wall_s, wall_s * 1e3, made)


def ours(model_path: Path, frames: int) -> dict[str, Any]:
    """One streamed run through a session, greedy, of at most ``frames``."""
    from rtts import speech
    from rtts.cli.ledger import Ledger, LedgerEngine
    from rtts.stream.config import StreamConfig
    from rtts.stream.engine import ModelEngine
    from rtts.stream.tts import Tts
    from rtts_engine.sampling import Sampling

    start_s = time.perf_counter()
    model = speech.load(model_path)
    load_s = time.perf_counter() - start_s
    greedy = Sampling.from_defaults(model.manifest.config.generation).greedy()

    async def run() -> dict[str, Any]:
        for limit in (2, frames):
            engine = LedgerEngine(ModelEngine(model), Ledger(limit))
            config = StreamConfig(max_buffered_s=3600.0, repeat_timeout_s=60.0, silence_timeout_s=60.0)
            async with Tts(engine) as tts, tts.session(config=config, sampling=greedy) as session:
                start_s = time.perf_counter()
                session.feed(TEXT)
                session.end()
                async for _ in session:
                    pass
                wall_s = time.perf_counter() - start_s
                assert session.done is not None
                metrics = session.done.metrics
        return figures(load_s, wall_s, metrics.timeline.chunk_ms or 0.0, metrics.frames)

    return asyncio.run(run())


def figures(load_s: float, wall_s: float, ttfa_ms: float, frames: int) -> dict[str, Any]:
    """What one run is judged by."""
    return {
        "load_s": load_s,
        "ttfa_ms": ttfa_ms,
        "rtf": wall_s / (frames * FRAME_S),
        "frames": frames,
        "peak_mb": peak_memory_mb(),
    }


def in_process(engine: str, path: Path, frames: int) -> dict[str, Any]:
    """One run in a fresh process."""
    command = [sys.executable, "-m", "bench.compare", str(path), "--worker", engine, "--frames", str(frames)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(
    checkpoint: Path, precisions: list[str], dtypes: list[str], frames: int, rounds: int
) -> list[dict[str, Any]]:
    """Medians of every engine, and how many times faster than each official one this one is."""
    from rtts_engine.convert import convert

    with tempfile.TemporaryDirectory() as work:
        engines = {f"torch {dtype}": checkpoint for dtype in dtypes}
        for precision in precisions:
            engines[f"rtts {precision}"] = convert(checkpoint, Path(work) / precision, precision)  # type: ignore[arg-type]
        runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
        for _ in range(rounds):
            for engine, path in engines.items():
                runs[engine].append(in_process(engine, path, frames))
                print(engine, runs[engine][-1], flush=True)
    rows = [
        {"engine": engine, "rounds": rounds}
        | {name: round(median(run[name] for run in each), 3) for name in each[0]}
        for engine, each in runs.items()
    ]
    for row in rows:
        if row["engine"].startswith("rtts"):
            row["times_faster"] = {
                other["engine"]: round(other["rtf"] / row["rtf"], 2)
                for other in rows
                if other["engine"].startswith("torch")
            }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="This engine against the official PyTorch package.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--precisions", nargs="*", default=["fp32", "int8"])
    parser.add_argument("--torch", nargs="*", default=["fp32", "bf16"], dest="dtypes")
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, help="default: bench/results/compare.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        kind, _, form = arguments.worker.partition(" ")
        run = official(arguments.checkpoint, form, arguments.frames) if kind == "torch" else None
        print(json.dumps(run or ours(arguments.checkpoint, arguments.frames)))
        return
    rows = compare(
        arguments.checkpoint, arguments.precisions, arguments.dtypes, arguments.frames, arguments.rounds
    )
    for row in rows:
        print(row)
    machine.write("compare", machine.invocation("bench.compare"), {"rows": rows}, arguments.json)


if __name__ == "__main__":
    main()
