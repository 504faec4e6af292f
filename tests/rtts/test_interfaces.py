"""The command line is the one that docs/interfaces.md promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

import rtts
from rtts.cli.app import app
from rtts_engine.graph.writer import PRECISIONS

PAGE = (Path(__file__).parents[2] / "docs" / "interfaces.md").read_text(encoding="utf-8")
COMING = {"serve", "wyoming"}
"""Commands of the page that this version must not have, not even as a stub."""
EVERYWHERE = {"--debug", "--help"}

ROWS = {
    usage.split()[1]: (usage, text)
    for usage, text in re.findall(r"^\| `(rtts [^`]*)` \| (.*) \|$", PAGE, re.MULTILINE)
}
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def options_of(usage: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))


def test_the_page_lists_every_command() -> None:
    assert len(ROWS) == 11
    assert {name for name, (_, text) in ROWS.items() if text.startswith("*coming*")} == COMING
    assert set(COMMANDS) == set(ROWS) - COMING


@pytest.mark.parametrize("name", sorted(set(ROWS) - COMING))
def test_a_command_has_the_options_of_the_page(name: str) -> None:
    wanted = options_of(ROWS[name][0])
    options = [parameter for parameter in COMMANDS[name].params if parameter.opts[0].startswith("-")]
    found = [{*parameter.opts, *parameter.secondary_opts} for parameter in options]
    assert wanted <= set().union(*found)
    extra = [names for names in found if not names & (wanted | EVERYWHERE)]
    assert not extra, "options that the page does not know"


def test_the_page_names_the_options_that_checks_rely_on() -> None:
    """The page itself must not lose one."""
    assert options_of(ROWS["say"][0]) == {
        "-o", "--play", "--model", "--voice", "--language", "--instruct", "--seed", "--greedy", "--temperature",
        "--top-k", "--top-p", "--repetition-penalty", "--text-layout", "--max-frames", "--max-seconds", "--codes",
        "--device", "--threads", "--stream", "--first-chunk-frames", "--chunk-frames", "--json",
        "--verbalise", "--no-verbalise",
    }  # fmt: skip
    assert options_of(ROWS["clone"][0]) == {"--text", "--model", "-o"}
    assert options_of(ROWS["convert"][0]) == {"-o", "--precision"}
    assert options_of(ROWS["pull"][0]) == {"--precision"}


def test_every_exported_name_exists_and_every_error_is_on_the_page() -> None:
    for name in rtts.__all__:
        value = getattr(rtts, name)
        if isinstance(value, type) and issubclass(value, rtts.RttsError):
            assert f"`{name}`" in PAGE or f"`rtts.{name}`" in PAGE
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = rtts.nothing_like_this  # type: ignore[attr-defined]


def test_the_page_says_which_precisions_are_coming() -> None:
    listed = re.search(r"--precision ([^]]*)]", ROWS["convert"][0])
    assert listed is not None
    coming = set(re.findall(r"^`--precision (\w+)` is \*coming\*", PAGE, re.MULTILINE))
    assert set(listed[1].split("\\|")) - coming == {*PRECISIONS, "auto"}
