"""docs/sessions.md runs, and knows every field and every method."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from rtts.stream import config as config_module
from rtts.stream.config import StreamConfig
from rtts.stream.events import Metrics, StopReason, Timeline
from rtts.stream.session import Session
from rtts.stream.tts import Tts

PAGE = Path(__file__).parents[3] / "docs" / "sessions.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
_FIELDS = re.compile(r"(<!-- fields -->\n).*?(<!-- /fields -->)", re.DOTALL)


def field_table() -> str:
    """The fields with their defaults, bounds and docstrings, as a table."""
    (cls,) = [
        node
        for node in ast.parse(inspect.getsource(config_module)).body
        if isinstance(node, ast.ClassDef) and node.name == "StreamConfig"
    ]
    told = {
        field.target.id: text.value.value
        for field, text in zip(cls.body, cls.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
    bounds = {name: f"{low} to {high}" for name, (low, high) in config_module._WHOLE.items()}
    bounds |= {name: f"{bounds[name]} or `'auto'`" for name in config_module._OR_AUTO}
    bounds |= {name: f"{low:g} to {high:g} s" for name, (low, high) in config_module._SECONDS.items()}
    bounds |= {name: " or ".join(map(repr, choices)) for name, choices in config_module._CHOICES.items()}
    lines = ["| field | default | values | |", "|---|---|---|---|"]
    for field in fields(StreamConfig):
        words = " ".join(told[field.name].split()).replace("``", "`")
        lines.append(
            f"| `{field.name}` | `{field.default!r}` | {bounds.get(field.name, 'True or False')} | {words} |"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "block", "exec"), {})
    assert capsys.readouterr().out


def test_the_table_is_that_of_the_code() -> None:
    """Run this file to write it: python -m tests.rtts.stream.test_docs"""
    assert _FIELDS.sub(lambda found: found[1] + field_table() + found[2], TEXT) == TEXT


@pytest.mark.parametrize(
    "name", [name for name in dir(Session) if not name.startswith("_")] + ["seed", "done"]
)
def test_every_member_of_a_session_is_there(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT.split("## Speaking")[1].split("## Sentences")[0])


def test_every_argument_reason_and_figure_is_there() -> None:
    for name in list(inspect.signature(Tts.session).parameters)[1:]:
        assert f"| `{name}` |" in TEXT
    for reason in StopReason.__args__:  # type: ignore[attr-defined]
        assert f"| `{reason}` |" in TEXT
    for figure in (*fields(Metrics), *fields(Timeline)):
        assert f"`{figure.name}`" in TEXT.split("## Metrics")[1]


if __name__ == "__main__":
    PAGE.write_text(_FIELDS.sub(lambda found: found[1] + field_table() + found[2], TEXT), encoding="utf-8")
