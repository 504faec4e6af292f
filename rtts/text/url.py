"""Reads a bare URL as it arrives: the domain is spoken, the rest is not."""

from __future__ import annotations

import re

from rtts.text.chars import is_cjk
from rtts.text.markup import MORE, Found

_END = re.compile(r"[.,;:!?'*_~)]+")
"""Marks that belong to the sentence when the URL ends with them."""
_NEVER = frozenset('<>[]{}|\\^`"')


class UrlReader:
    """State of one URL, behind ``https://`` and ``www.``."""

    def __init__(self) -> None:
        self._in_domain = True
        self._parentheses = 0

    def read(self, held: str, final: bool) -> Found | None:
        """The next character of the URL, spoken or not; MORE; or None where the URL has ended."""
        first = held[0]
        if marks := _END.match(held):
            if marks.end() == len(held) and not final:
                return MORE
            goes_on = _continues(held[marks.end() : marks.end() + 1])
            if not goes_on and not (first == ")" and self._parentheses):
                return None
        elif not _continues(first):
            return None
        self._parentheses += (first == "(") - (first == ")")
        self._in_domain = self._in_domain and (first.isalnum() or first in "-.")
        return Found(1, first if self._in_domain else "")


def _continues(character: str) -> bool:
    """Whether a URL goes on with this character; CJK text often follows one without a space."""
    if not character or character.isspace() or character in _NEVER:
        return False
    return character.isascii() or (character.isalnum() and not is_cjk(character))
