"""Writes spoken text: spaces and stops between what is said, and the source span of every piece."""

from __future__ import annotations

from enum import IntEnum

from rtts.text.chars import CLOSERS, PAUSES, is_cjk, is_invisible, is_pictograph, is_word
from rtts.text.source_map import CleanText


class Gap(IntEnum):
    """What stands between two spoken characters; the strongest of several wins."""

    NONE = 0
    SEAM = 1
    """Something silent was here: a space, if two words would grow together."""
    SPACE = 2
    CELL = 3
    """The next cell of a table: a comma."""
    LINE = 4
    """A line break."""
    BLOCK = 5
    """A heading, list item, table row or paragraph ends: a full stop unless there is one, and a line break."""


_ONCE = frozenset("!?,;:！？，、；：。…—–")
_STOP_AT_MOST = 3
_HUGS_LEFT = frozenset(".,;:!?…)]}。，、！？；：）】》」』")


class SpokenWriter:
    """Collects the output of a cleaner. Gaps are written with the text behind them, never at either end."""

    def __init__(self) -> None:
        self._pieces: list[CleanText] = []
        self._verbatim: list[str] = []
        self._verbatim_start = 0
        self._position = 0
        self._gap = Gap.NONE
        self._silent = False
        self._last = ""
        self._paused = False
        self._marks = ""

    def gap(self, gap: Gap) -> None:
        """Leaves at least this gap before the next text."""
        self._gap = max(self._gap, gap)
        self._silent = self._silent or gap is Gap.SEAM

    def copy(self, character: str, start: int, end: int) -> None:
        """Says one character for the source span, unless it is one that is not spoken."""
        if character.isspace():
            self.gap(Gap.SPACE)
        elif is_pictograph(character):
            self.gap(Gap.SEAM)
        elif is_invisible(character) or self._is_repeated(character):
            pass
        else:
            marks = "" if is_word(character) else self._marks + character
            self.say(character, start, end)
            self._marks = marks

    def say(self, text: str, start: int, end: int) -> None:
        """Says ``text`` for the source span. Spans only move forward; what lies between two is unspoken."""
        if not text:
            return
        self._fill_to(start, self._gap_text(text[0]))
        self._append(text, start, end)
        self._position = end
        self._gap = Gap.NONE
        self._silent = False
        self._marks = ""
        self._last = text[-1]
        if self._last in PAUSES:
            self._paused = True
        elif self._last not in CLOSERS:
            self._paused = False

    def end(self, position: int) -> None:
        """Ends the stream at this source position; a block that ended gets its stop."""
        self._fill_to(position, self._stop() if self._gap is Gap.BLOCK else "")

    def take(self) -> list[CleanText]:
        """The pieces since the last call."""
        self._close_run()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _is_repeated(self, character: str) -> bool:
        if self._gap is not Gap.NONE:
            self._marks = ""
        if character == ".":
            return self._marks.count(".") >= _STOP_AT_MOST
        return character in _ONCE and character in self._marks

    def _gap_text(self, following: str) -> str:
        last = self._last
        if not last or self._gap is Gap.NONE:
            return ""
        if self._gap is Gap.SEAM:
            spaced = is_word(last) and is_word(following) and not (is_cjk(last) or is_cjk(following))
            return " " if spaced else ""
        if self._gap is Gap.SPACE:
            return "" if self._silent and following in _HUGS_LEFT else " "
        if self._gap is Gap.CELL:
            return " " if self._paused else "，" if is_cjk(last) else ", "
        return "\n" if self._gap is Gap.LINE else self._stop() + "\n"

    def _stop(self) -> str:
        if not self._last or self._paused:
            return ""
        return "。" if is_cjk(self._last) else "."

    def _fill_to(self, position: int, text: str) -> None:
        if position > self._position or text:
            self._append(text, self._position, position)
            self._position = position

    def _append(self, text: str, start: int, end: int) -> None:
        if len(text) == end - start:
            if not self._verbatim:
                self._verbatim_start = start
            self._verbatim.append(text)
        else:
            self._close_run()
            self._pieces.append(CleanText(text, start, end))

    def _close_run(self) -> None:
        if self._verbatim:
            text = "".join(self._verbatim)
            start = self._verbatim_start
            self._pieces.append(CleanText(text, start, start + len(text)))
            self._verbatim = []
