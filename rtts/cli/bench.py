"""``rtts bench``: how fast this machine is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rtts.cli.options import Debug, Model, Threads, check_target
from rtts.errors import RequestError, StoreError

Name = Literal["latency", "throughput", "long", "codec", "barge-in"]


def bench(
    name: Annotated[Name, typer.Argument(help="What to measure.")] = "latency",
    model: Model = None,
    threads: Threads = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few runs only: a minute instead of several.")
    ] = False,
    json_: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Also draw them (needs matplotlib).")
    ] = None,
    debug: Debug = False,
) -> None:
    """Measure this machine with a model: the first sound, speed, a minute of speech, the codec, or an interruption."""
    from rtts.bench import machine, plots
    from rtts.bench.run import PLOTS, run
    from rtts.cli.loading import load
    from rtts_engine.files import reason

    for path in (json_, plot):
        if path is not None:
            check_target(path)
    if plot is not None:
        if plot.suffix.lower() not in plots.FORMATS:
            raise RequestError(f"--plot {plot}: the file's name must end with {' or '.join(plots.FORMATS)}")
        if json_ is not None and json_.absolute() == plot.absolute():
            raise RequestError(f"--json and --plot both name {plot}; give two files")
        plots.pyplot()
    result = run(name, load(model, threads), quick=quick)
    try:
        if json_ is not None:
            machine.write(json_, f"rtts bench {name}", result)
        if plot is not None:
            PLOTS[name](result, plot)
    except OSError as error:
        raise StoreError(f"{error.filename or json_ or plot}: cannot be written ({reason(error)})") from None
