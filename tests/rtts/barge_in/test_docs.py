"""The Python blocks of docs/barge-in.md run, and its table of the configuration is whole."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rtts.barge_in import BargeInConfig

PAGE = Path(__file__).parents[3] / "docs" / "barge-in.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str) -> None:
    exec(compile(block, str(PAGE), "exec"), {})


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("field", dataclasses.fields(BargeInConfig), ids=lambda field: field.name)
def test_every_field_is_explained_with_its_default(field: dataclasses.Field[object]) -> None:
    (row,) = [
        line for line in TEXT.splitlines() if line.startswith("|") and f"`{field.name}`" in line.split("|")[1]
    ]
    names = re.findall(r"`(\w+)`", row.split("|")[1])
    shown = [value.strip() for value in row.split("|")[2].split(",")][names.index(field.name)]
    expected = (
        {True: "on", False: "off"}.get(field.default)
        if isinstance(field.default, bool)
        else str(field.default)
    )
    assert shown in (expected, f"{field.default:g}" if isinstance(field.default, float) else expected)
