"""Which source text a stretch of spoken text came from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CleanText:
    """Spoken text and the source characters it stands for.

    The pieces of one stream tile the source: each starts where the one before ended, so nothing is unaccounted for.
    Where both sides are of equal length, character maps to character; else the piece maps as a whole.
    """

    text: str
    """What is spoken; "" for source text that is not."""
    source_start: int
    """First character of the source, counted from the start of the stream."""
    source_end: int
    """Behind the last one."""


class SourceMap:
    """Positions in the spoken text (all pieces joined) -> positions in the source text."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._pieces: list[CleanText] = []

    def add(self, pieces: Iterable[CleanText]) -> None:
        """Takes the next pieces of the stream, in order."""
        for piece in pieces:
            self._ends.append(self.length + len(piece.text))
            self._pieces.append(piece)

    @property
    def length(self) -> int:
        """Length of the spoken text so far, in characters."""
        return self._ends[-1] if self._ends else 0

    def source_end(self, position: int) -> int:
        """How much of the source is behind the listener once ``position`` characters are spoken.

        Unspoken source text counts with the text before it, and a replaced stretch (a URL) once it is spoken whole, so
        that ``source[:source_end(position)]`` was heard. 0 for 0; a position past the end is the end.
        """
        if position <= 0 or not self._pieces:
            return 0
        i = bisect_left(self._ends, position)
        if i == len(self._pieces):
            return self._pieces[-1].source_end
        piece = self._pieces[i]
        if self._ends[i] > position:
            spoken = position - (self._ends[i] - len(piece.text))
            verbatim = len(piece.text) == piece.source_end - piece.source_start
            return piece.source_start + (spoken if verbatim else 0)
        while i + 1 < len(self._pieces) and not self._pieces[i + 1].text:
            i += 1
        return self._pieces[i].source_end

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """The source behind ``[start, end)`` of the spoken text; the spans of consecutive segments tile the source."""
        return self.source_end(start), self.source_end(end)
