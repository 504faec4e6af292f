"""The README's figures are those of the committed results."""

from __future__ import annotations

from bench import readme
from bench.machine import RESULTS


def test_the_table_is_not_stale() -> None:
    """Write it with: python -m bench.readme"""
    text = readme.README.read_text(encoding="utf-8")
    assert text.count("<!-- measured -->") == text.count("<!-- /measured -->") == 1
    assert readme.updated(text) == text


def test_every_source_has_a_result() -> None:
    assert [name for name in readme.SOURCES if not (RESULTS / f"{name}.json").exists()] == []
