"""Runs of one symbol: emphasis, dashes, rulers within a line. What stands on both sides decides."""

from __future__ import annotations

from rtts.text.chars import is_cjk, is_word
from rtts.text.markup import MORE, Found, run
from rtts.text.spoken import Gap

SYMBOLS = "=#^~"
"""Dropped in runs of three; ``~~`` strikes text through, which is spoken all the same."""
_LONG = 3


def emphasis(held: str, final: bool, before: str, is_open: bool) -> tuple[Found, bool]:
    """A run of ``*`` or ``_`` behind the source character ``before``; and whether a single one is open after it."""
    length = run(held, final)
    if not length:
        return MORE, is_open
    marks, after = held[:length], held[length : length + 1]
    free_before, free_after = not before or before.isspace(), not after or after.isspace()
    if length > _LONG:
        return Found(length, gap=Gap.SEAM), is_open
    if free_before and free_after:
        return Found(length, marks), is_open
    if not (is_word(before) and is_word(after)):
        return Found(length), (free_before or not free_after) if length == 1 else is_open
    if marks[0] == "_":
        return Found(length, gap=Gap.SPACE), is_open
    if is_cjk(before) or is_cjk(after):
        return Found(length), is_open
    if length == 1:
        return (Found(1), False) if is_open else (Found(1, marks), False)
    power = before.isdigit() and after.isdigit()
    return Found(length, marks if power else ""), is_open


def dashes(held: str, final: bool, before: str) -> Found | None:
    """Two hyphens or more are a dash, unless they start an option: ``--flag``."""
    length = run(held, final)
    if not length:
        return MORE
    if length == 1:
        return None
    option = is_word(held[length : length + 1]) and not is_word(before)
    return Found(length, "" if option else "—")


def symbols(held: str, final: bool, before: str, *, in_heading: bool) -> Found:
    """A run of one of ``SYMBOLS``."""
    length = run(held, final)
    if not length:
        return MORE
    closes_heading = held[0] == "#" and in_heading and before.isspace()
    if length >= _LONG or held[:length] == "~~" or closes_heading:
        return Found(length, gap=Gap.SEAM)
    return Found(length, held[:length])
