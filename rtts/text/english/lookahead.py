"""How much text must have arrived before the start of it can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rtts.text.english import tables as t
from rtts.text.english.tables import CURRENCIES, MONTH_OF, TITLES

_HOPS = 6
"""Words that a number looks ahead at most: "+1 555 010 01 00"."""
_CJK = "\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_TOKEN = re.compile(rf"[^\s{_CJK}]+")
LETTERS = re.compile(r"[A-Za-z]+")
_SPACE = re.compile(r"\s+")
_GOES_ON = re.compile(r"[-–—−x×+=*/<>]$|\d|(?:thousand|[mbtr]+illion)\b|[ap]\.?m\b", re.IGNORECASE)
_STOP = re.compile(r"[.!?,;:…)]$")
_AREA = re.compile(r"\(\d{3}\)$")
_DAY = re.compile(r"\d{1,2}(?:st|nd|rd|th)?,?$")
_NEEDS_NEXT_WORD = re.compile(r"\.$|\d0s$|^\D*\d{4}\D*$|^\D+$")
"""It may end a sentence or be a year, so that the whole next word counts."""


def _prefixes(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word[:i] for word in words for i in range(1, len(word) + 1))


_SHORT_MONTHS = [key for key, name in MONTH_OF.items() if key != name]
MAY_BE_SPECIAL = _prefixes(
    [
        *t.ABBREVIATIONS, *t.BARE, *t.BEFORE_NUMBER, *TITLES, *_SHORT_MONTHS, *t.RANGE_DAYS, *t.CURRENCY_CODES,
        *t.ALONE, "w", "Ph", "http", "https", "www",
    ]
)  # fmt: skip
"""Starts of words that mean something else with what follows: "Dr" with "."."""
_GOES_WITH_NUMBER = _prefixes(
    [*t.UNITS, *t.FIXED_UNITS, *t.SCALES, *MONTH_OF, *t.CURRENCY_CODES, "am", "pm", "AM", "PM", "Am", "Pm"]
)


def settled(held: str, past: str) -> bool:
    """Whether no text that may follow changes how the start of ``held`` is read."""
    number = ""
    for hop in range(_HOPS):
        token = _TOKEN.match(held)
        if token is None:
            return True
        word = LETTERS.match(held)
        if hop and word and word[0] not in _GOES_WITH_NUMBER and not _NEEDS_NEXT_WORD.search(number):
            return True
        number = token[0]
        space = _SPACE.match(held, token.end())
        if space is None:
            return token.end() < len(held)  # a CJK character ends it, too
        if "\n" in space[0]:
            return True
        if space.end() == len(held):
            return False
        if not _wants_more(token[0], past, hop):
            return True
        past, held = past + held[: space.end()], held[space.end() :]
    return True


def _wants_more(token: str, past: str, hop: int) -> bool:
    core = token.rstrip(".,")
    if core in MONTH_OF:
        return True
    if _DAY.match(token) and re.search(r"([A-Z][a-z]+)\.?\s(?:the\s)?$", past):
        return True
    if hop and not _GOES_ON.search(token):
        return False
    if _AREA.match(token):
        return True
    if _STOP.search(token):
        return token.endswith(".") and not any(c.isdecimal() for c in token) and hop == 0
    if hop == 0 and not any(c.isdecimal() for c in token) and token not in CURRENCIES:
        return token in TITLES or token == "et"
    return True
