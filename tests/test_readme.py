"""The figures of README and docs are those of the committed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import readme
from bench.machine import RESULTS


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_the_tables_are_not_stale(page: Path) -> None:
    """Write them with: python -m bench.readme"""
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- measured -->") == text.count("<!-- /measured -->") == 1
    assert readme.updated(text, readme.PAGES[page]) == text


def test_every_source_has_a_result() -> None:
    assert [name for name in readme.SOURCES if not (RESULTS / f"{name}.json").exists()] == []
