"""``rtts doctor``."""

from __future__ import annotations

import typer
from rich.text import Text

from rtts.cli.display import stdout
from rtts.cli.options import Debug

MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "bold red")}


def doctor(debug: Debug = False) -> None:
    """Show versions, CPU, threads, devices and models, and what to do about each problem."""
    from rtts.doctor import examine

    console = stdout()
    problems = 0
    for finding in examine():
        word, style = MARKS[finding.level]
        problems += finding.level == "problem"
        line = Text.assemble((f"{word:8}", style), (f"{finding.subject:9}", "bold"), finding.detail)
        if finding.advice:
            line.append(f" -> {finding.advice}")
        console.print(line, soft_wrap=True)
    if problems:
        console.print(f"{problems} problem{'s' if problems > 1 else ''} found")
        raise typer.Exit(1)
