"""Progress on stderr where it is a terminal, and tables on stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from rtts_engine.convert import Progress as Report


@contextlib.contextmanager
def progress(title: str) -> Iterator[Report]:
    """A bar that appears with the first report; nothing at all when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _step, _fraction: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(title, total=1.0, visible=False)

    def report(step: str, fraction: float) -> None:
        bar.update(task, description=f"{title}: {step}", completed=fraction, visible=True)

    with bar:
        yield report


def stdout() -> Console:
    """For tables; wide when piped, so that nothing is cut."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
