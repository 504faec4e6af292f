"""Options that several commands share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import rtts
from rtts.errors import AudioError, RttsError
from rtts_engine import files

MAX_THREADS = 256


@dataclass(slots=True)
class Shared:
    """What every command shares."""

    debug: bool = False


def _debug(context: typer.Context, value: bool) -> None:
    if value:
        context.find_root().obj.debug = True


def _version(value: bool) -> None:
    if value:
        typer.echo(f"rtts {rtts.__version__}")
        raise typer.Exit


def _threads(value: str | None) -> str | None:
    if value not in (None, "auto"):
        parts = value.split(",")
        if len(parts) != 2 or not all(
            part.isdecimal() and len(part) <= 3 and 1 <= int(part) <= MAX_THREADS for part in parts
        ):
            raise typer.BadParameter(
                f"{value[:40]!r} is not two numbers from 1 to {MAX_THREADS}, for example 1,1, or auto"
            )
    return value


Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, is_eager=True, help="Show the traceback of an error.")
]
Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="M", help="Directory, installed name or hub id. Default: the shipped voice."
    ),
]
Threads = Annotated[
    str | None,
    typer.Option(
        "--threads", callback=_threads, metavar="AR,CODEC", help="Threads of the two stages, or auto."
    ),
]


def require_stdout(instead: str = "run it with one") -> None:
    """Refuse a command that is about its output where whoever started us has closed it; ``cli.main`` has put a place
    that keeps nothing there."""
    if sys.__stdout__ is None:
        raise RttsError(f"standard output is closed, so that nothing can be written to it; {instead}")


def check_target(path: Path) -> None:
    """Refuse a file that cannot be written before anything is computed."""
    if not path.parent.is_dir():
        raise AudioError(f"{path.parent}: no such folder; make it first")
    try:
        files.check_target(path)
    except OSError as error:
        raise AudioError(f"{path}: cannot be written ({files.reason(error)})") from None
