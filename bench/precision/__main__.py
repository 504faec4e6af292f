"""How exact each precision is against fp32, on the shipped voice and on random weights at real 0.6B dimensions.

    python -m bench.precision [--models lark 0.6b] [--precisions P ...] [--checkpoint DIR] [--json FILE]
    python -m bench.precision --wer [--clips 100]

fp32 speaks a few sentences greedily; then every network of every precision is given fp32's codes. Hidden states are
compared after each layer by cosine, choices by the divergence of their distributions and by the greedy code, and the
codec by its sound. ``--wer`` (extra ``judge``) has the shipped voice's sentences heard by an independent recogniser
and adds its figures to those that are there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.precision import page
from bench.precision.networks import Script, compare, look, speak
from rtts import store
from rtts_engine import int8_loss
from rtts_engine.convert import convert
from rtts_engine.graph.writer import PRECISIONS
from rtts_engine.manifest import Manifest
from rtts_engine.model import Model

RESULT = machine.RESULTS / "precision.json"
VOICES = Path(store.__file__).parents[1] / "models"
RANDOM = "0.6b"
PLAIN = "int8-plain"
"""int8 without what the calibration finds, to see what it is worth."""
CHOICES = (*PRECISIONS[1:], PLAIN)
TEXTS = (
    "Good evening, and thank you for calling.",
    "The meeting was moved from Monday to Thursday afternoon.",
    "Would you like a window seat or one on the aisle?",
    "It rained all night, but the morning was bright and clear.",
    "Please leave your name and number after the tone.",
    "My brother bought a red bicycle at the market.",
    "How long does it take to get there by train?",
    "Sure, one moment.",
)
FRAMES = {"random": 24, "voice": 80}
"""Most frames of a sentence: random weights never end by themselves."""


@contextmanager
def uncalibrated() -> Iterator[None]:
    """Every product of an int8 conversion in plain int8."""
    limit = int8_loss.LIMIT
    int8_loss.LIMIT = float("inf")
    try:
        yield
    finally:
        int8_loss.LIMIT = limit


def converted(checkpoint: Path, out: Path, precision: str) -> Path:
    """The model in a precision, or in ``PLAIN``."""
    if precision != PLAIN:
        return convert(checkpoint, out, precision)  # type: ignore[arg-type]
    with uncalibrated():
        return convert(checkpoint, out, "int8")


def measure(checkpoint: Path, precisions: Sequence[str], texts: Sequence[str], frames: int) -> dict[str, Any]:
    """Figures of every precision of one checkpoint; one model is loaded at a time."""
    exact, scripts, rows, source = None, [], {}, ""
    with tempfile.TemporaryDirectory() as work:
        for precision in ("fp32", *precisions):
            path = converted(checkpoint, Path(work) / "model", precision)
            model, manifest = Model.load(path), Manifest.load(path)
            source = manifest.source_sha256
            if exact is None:
                speakers = manifest.speakers
                chosen = [(text, speakers[i % len(speakers)]) for i, text in enumerate(texts)]
                scripts = [Script(text, who, speak(model, text, who, frames)) for text, who in chosen]
                exact = look(model, scripts, None, frames)
                continue
            rows[precision] = compare(exact, look(model, scripts, exact, frames), scripts)
            if precision == "int8":
                rows[precision]["products"] = {n: asdict(product) for n, product in manifest.products.items()}
            print(precision, {k: v for k, v in rows[precision].items() if isinstance(v, float)}, flush=True)
            del model
    return {"source_sha256": source, "sentences": len(scripts), "precisions": rows}


def words(voice: Path, precisions: Sequence[str], clips: int) -> dict[str, Any]:
    """Word errors of the shipped voice in every precision."""
    from bench.precision.words import measure, texts

    with tempfile.TemporaryDirectory() as work:
        models = {p: converted(voice, Path(work) / p, p) for p in ("fp32", *precisions)}
        source = Manifest.load(models["fp32"]).source_sha256
        return {"model": voice.name, "source_sha256": source, "clips": clips, **measure(models, texts(clips))}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.precision", description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=[store.DEFAULT_MODEL, RANDOM])
    parser.add_argument("--precisions", nargs="+", default=list(CHOICES), choices=CHOICES)
    parser.add_argument("--checkpoint", type=Path, help=f"in place of random weights for {RANDOM}")
    parser.add_argument("--wer", action="store_true", help="count word errors instead, of the shipped voice")
    parser.add_argument("--clips", type=int, default=100, help="sentences of --wer")
    parser.add_argument("--json", type=Path, default=RESULT)
    parser.add_argument("--plot", type=Path, help="default: beside the JSON")
    return parser.parse_args()


def main() -> None:
    """Measure, and add to what is there."""
    a = arguments()
    kept = json.loads(a.json.read_text(encoding="utf-8")) if a.json.exists() else {}
    result = {name: kept.get(name, {}) for name in ("models", "wer")}
    command = machine.invocation("bench.precision")
    if a.wer:
        found = words(VOICES / store.DEFAULT_MODEL, a.precisions, a.clips)
        result["wer"] = {"command": command, "machine": machine.facts(), **found}
        command = kept.get("command", command)
    for name in [] if a.wer else a.models:
        print(name, flush=True)
        if name != RANDOM:
            result["models"][name] = measure(VOICES / name, a.precisions, TEXTS, FRAMES["voice"])
            continue
        with tempfile.TemporaryDirectory() as work:
            from tests.checkpoints import write_checkpoint

            checkpoint = a.checkpoint or write_checkpoint(
                Path(work) / "c", preset=RANDOM, kind="custom_voice"
            )
            result["models"][name] = measure(checkpoint, a.precisions, TEXTS[:3], FRAMES["random"])
    result["aims"] = [asdict(aim) for aim in page.check(result)]
    path = machine.write("precision", command, result, a.json)
    from bench.precision.plot import draw

    if result["models"]:
        draw(result, a.plot or path.with_suffix(".png"))
    print(page.table(result))
    print(page.aim_table(result))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
