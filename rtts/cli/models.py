"""``rtts convert``, ``pull``, ``models`` and ``voices``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rtts.cli.display import progress, stdout
from rtts.cli.options import Debug, Model, require_stdout
from rtts.errors import ModelError

if TYPE_CHECKING:
    from rtts_engine.graph.writer import Precision


def _precision(value: str) -> str:
    from rtts_engine.graph.writer import PRECISIONS

    if value not in (*PRECISIONS, "auto"):
        raise typer.BadParameter(f"{value!r} is none of {', '.join(PRECISIONS)} and auto")
    return value


def _chosen(precision: str, checkpoint: Path | None = None) -> Precision:
    """The precision that ``--precision`` asks for, or that ``auto`` finds for a checkpoint (or a large one)."""
    if precision != "auto":
        return cast("Precision", precision)
    from rtts_engine.checkpoint import Checkpoint
    from rtts_engine.choose import choose_precision

    try:
        choice = choose_precision(None if checkpoint is None else Checkpoint.open(checkpoint))
    except OSError as error:
        raise ModelError(
            f"--precision auto: no room to measure ({error.strerror}); name a precision"
        ) from None
    if sys.stderr.isatty():
        figures = ", ".join(f"{name} {ms:g}" for name, ms in choice.measured_ms.items())
        why = f"ms per 100 million weights: {figures}" if figures else "a small model"
        print(f"precision {choice.precision} ({why})", file=sys.stderr)
    return choice.precision


PrecisionOption = Annotated[
    str,
    typer.Option(
        "--precision",
        metavar="P",
        callback=_precision,
        help="Of the weights: fp32, fp16, bf16, int8, or auto: the fastest here.",
    ),
]


def convert(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CKPT_DIR", help="Checkpoint folder in the hub's layout.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Model folder. Default: an installed model of that name."
        ),
    ] = None,
    precision: PrecisionOption = "fp32",
    debug: Debug = False,
) -> None:
    """Convert a checkpoint to an ncnn model; no torch."""
    from rtts import store
    from rtts_engine.convert import convert as convert_checkpoint

    weights = _chosen(precision, checkpoint)
    target = output or store.install_path(checkpoint.resolve().name, weights)
    with progress("converting") as report:
        path = convert_checkpoint(checkpoint, target, weights, report)
    print(path)


def pull(
    repo_id: Annotated[str, typer.Argument(metavar="HF_REPO_ID", help="owner/name on the Hugging Face hub.")],
    precision: PrecisionOption = "fp32",
    debug: Debug = False,
) -> None:
    """Download a Qwen3-TTS checkpoint and convert it."""
    from rtts import hub

    hub.quiet(not sys.stderr.isatty())
    weights = _chosen(precision)
    with progress("pulling") as report:
        path = hub.pull(repo_id, weights, progress=report)
    print(path)


def models(debug: Debug = False) -> None:
    """List the models that --model accepts by name."""
    require_stdout()
    from rich.table import Table

    from rtts import store

    table = Table("NAME", "KIND", "PRECISION", "PATH", box=None, pad_edge=False)
    for entry in store.entries():
        default = " (default)" if entry.origin == "shipped" and entry.name == store.DEFAULT_MODEL else ""
        table.add_row(
            entry.name + default, entry.kind, store.precision(entry) or "on first use", str(entry.path)
        )
    stdout().print(table)


def voices(model: Model = None, debug: Debug = False) -> None:
    """List the speakers and languages of a model."""
    require_stdout()
    from rtts.cli.loading import find
    from rtts_engine.manifest import Manifest

    manifest = Manifest.load(find(model))
    print(f"model      {manifest.name} ({manifest.kind}, {manifest.precision})")
    print(
        f"speakers   {', '.join(manifest.speakers) or 'none: give a saved voice with --voice VOICE.safetensors'}"
    )
    print(f"languages  {', '.join(manifest.languages)}")
