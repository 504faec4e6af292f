"""``rtts clone``: a reference clip becomes a saved voice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rtts.cli.options import Debug, check_target
from rtts.errors import RequestError

MAX_REFERENCE_SECONDS = 120.0
"""The prompt holds 12.5 rows for each second of the clip; a few seconds already carry the voice."""


def clone(
    reference: Annotated[
        Path, typer.Argument(metavar="REF.wav", help="A clean clip of one speaker, 3 to 20 s.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="VOICE.safetensors", help="Where to save the voice.")
    ],
    text: Annotated[
        str | None,
        typer.Option(
            "--text", metavar="TRANSCRIPT", help="What the clip says: a closer copy of the manner, too."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="M",
            help="A Base model: directory, installed name or hub id. The shipped voice cannot clone.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Save the voice of a clip, for --voice."""
    if output.suffix != ".safetensors":
        raise RequestError(f"-o {output}: the file's name must end with .safetensors")
    check_target(output)

    from rtts.audio import read_audio
    from rtts.cli.loading import load

    samples = read_audio(reference, max_seconds=MAX_REFERENCE_SECONDS)
    load(model).clone(samples, text, reference.stem).save(output)
    print(output)
