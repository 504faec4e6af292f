"""Options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

import rtts


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
