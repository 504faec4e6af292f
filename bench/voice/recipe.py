"""What the evaluation shares with the recipe of the voice: sentences, error counts and the recogniser."""

from __future__ import annotations

import sys
from pathlib import Path

RECIPE = Path(__file__).parents[2] / "models" / "recipe"
sys.path.insert(0, str(RECIPE))  # the recipe is a record beside the packages, not one of them

from tinyvoice.recogniser import Recogniser  # noqa: E402
from tinyvoice.wer import character_errors, errors  # noqa: E402

KINDS = ("plain", "question", "number", "name", "long", "word")

__all__ = ["KINDS", "Recogniser", "character_errors", "errors", "sentences"]


def sentences() -> list[tuple[str, str]]:
    """(kind, text) of the 200 held-out sentences, in their order."""
    rows = (RECIPE / "heldout.tsv").read_text(encoding="utf-8").splitlines()
    return [(kind, text) for kind, text in (row.split("\t") for row in rows)]
