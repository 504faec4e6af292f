"""Cuts text that goes into a running utterance: where one utterance ends and the next begins."""

from __future__ import annotations

from rtts.text.boundary import Break, Context, Quotes, break_before
from rtts.text.chars import is_wide, joins_cluster
from rtts.text.lexicon import lexicon
from rtts.text.segment import Segment

_LATE = 3 / 4
"""From this share of the longest utterance on, the end of a clause will do."""


class RunningText:
    """Text at once, as it comes; only long utterances are cut, at places that are known when the next one starts.

    An utterance of half of ``max_chars`` ends with its sentence, a longer one at a clause, one of ``max_chars`` between
    words. What is cut where depends on the characters alone, not on the parts they came in. A place that only later
    text could tell ("etc. The") is not one to cut at: the text before it has long been spoken.
    """

    def __init__(self, language: str = "auto", max_chars: int = 200) -> None:
        """``language`` chooses the tables of abbreviations; a CJK character counts as two in ``max_chars``."""
        self._words = lexicon(language)
        self._ordinals = self._words == lexicon("de")
        self._max_chars = max_chars
        self._position = 0
        self._capitals = False
        self.cut()

    def cut(self) -> None:
        """The utterance was ended by someone else: the next text starts one."""
        self._text = ""
        self._chars = 0

    def feed(self, text: str) -> list[Segment]:
        """The text in pieces; one that is not ``open`` is the last of its utterance (it may be empty)."""
        pieces: list[Segment] = []
        start = 0
        for index, character in enumerate(text):
            if self._ends_before(character):
                pieces.append(self._piece(text[start:index], open_=False))
                start = index
                self.cut()
            self._text += character
            self._chars += 2 if is_wide(character) else 1
            self._capitals = self._capitals or character.isupper()
        if start < len(text):
            pieces.append(self._piece(text[start:], open_=True))
        return pieces

    def _piece(self, text: str, *, open_: bool) -> Segment:
        start, self._position = self._position, self._position + len(text)
        return Segment(text, start, self._position, "open" if open_ else "sentence")

    def _ends_before(self, character: str) -> bool:
        if 2 * self._chars < self._max_chars or character.isspace() or joins_cluster(self._text, character):
            return False
        if self._chars >= 2 * self._max_chars:
            return True  # nothing that is spoken has no place to cut at for so long
        context = Context(self._words, self._ordinals, not self._capitals, Quotes())
        kind = break_before(self._text, character, context)
        if kind is Break.UNSURE:
            return False
        if self._chars >= self._max_chars:
            return kind is not Break.NONE
        return kind >= (Break.COMMA if self._chars >= _LATE * self._max_chars else Break.SENTENCE)
