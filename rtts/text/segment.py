"""Cuts a stream of text into what is synthesised at once: sentences, the first one early, long ones at clauses.

The segmenter looks at one character after the other, and ``feed`` never looks at the clock: what it returns depends on
the characters alone and not on the parts they came in. Only ``poll`` knows time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rtts.errors import RequestError
from rtts.text.boundary import Break, Context, Quotes, break_before, first_word, open_stop
from rtts.text.chars import PAUSES, is_cjk, is_wide, joins_cluster
from rtts.text.lexicon import has, lexicon
from rtts_engine.tokenizer import check_text

Boundary: TypeAlias = Literal["sentence", "clause", "word", "end", "open"]

FIRST_MAX_CHARS = 100
_STARTER_MAX_CHARS = 16
_EARLIEST_CUT = 1 / 3


@dataclass(frozen=True, slots=True)
class Segment:
    """Text to synthesise at once, with the whitespace behind it."""

    text: str
    start: int
    """Position in the text fed so far, in characters; where the segment before ended."""
    end: int
    boundary: Boundary
    """What it ends with; "end" when the caller ended the text or asked for a flush, "open" when the next goes on."""

    @property
    def open(self) -> bool:
        """Whether the next segment goes on with this one (``running``)."""
        return self.boundary == "open"

    def joined(self, following: Segment) -> Segment:
        """This one and the one behind it."""
        return Segment(self.text + following.text, self.start, following.end, following.boundary)


@dataclass(frozen=True, slots=True)
class SegmenterConfig:
    """How long to wait and how much to say at once. A CJK character counts as two in every length."""

    language: str = "auto"
    """"auto" (the tables of all languages), a name of the model's ("german") or a code ("de")."""
    first_min_words: int | None = 4
    """The first segment may end at a clause with as many words (two CJK characters are one); None: it is a sentence."""
    first_max_chars: int = FIRST_MAX_CHARS
    """Length at which the first segment is cut even where no clause ends."""
    max_chars: int = 200
    """Length at which any segment is cut, at the best place so far; 20 at least. Twice as much is never held."""
    min_chars: int = 0
    """A shorter sentence is spoken together with the next one."""
    wait_s: float = 0.3
    """How long a stop at the end of the text waits for what may follow ("3." for "3.5"). CJK stops do not wait."""
    stall_s: float | None = 1.5
    """When no text came for so long, whole words are released in mid-sentence; None: never."""

    def __post_init__(self) -> None:
        lexicon(self.language)
        _check("first_min_words", self.first_min_words, 1)
        _check("first_max_chars", self.first_max_chars, 20)
        _check("max_chars", self.max_chars, 20)
        _check("min_chars", self.min_chars, 0)
        _check("wait_s", self.wait_s, 0.0)
        _check("stall_s", self.stall_s, 0.0)


def _check(name: str, value: float | None, least: float) -> None:
    kinds = (int, float) if isinstance(least, float) else (int,)
    if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or not value >= least):
        raise RequestError(f"{name} is {value!r}; it must be a number from {least:g} up")


class Segmenter:
    """Segments of one utterance from text that arrives in parts of any size.

    The segments' texts, joined, are the text fed, to the character. Time is whatever clock the caller uses, in seconds;
    call ``poll`` at ``deadline``.
    """

    def __init__(self, config: SegmenterConfig | None = None) -> None:
        self._config = config or SegmenterConfig()
        self._words = lexicon(self._config.language)
        self._ordinals = self._words == lexicon("de")
        self._text = ""
        self._start = 0
        self._chars = 0
        self._breaks: list[tuple[int, Break]] = []
        self._unsure: int | None = None
        self._quotes = Quotes()
        self._first = True
        self._capitals = False
        self._fed_at_s = 0.0
        self._closed = False

    @property
    def held_chars(self) -> int:
        """How much text is held, in characters: at most twice ``max_chars``."""
        return len(self._text)

    @property
    def deadline(self) -> float | None:
        """The time at which ``poll`` has something to release if no more text comes; None: only text can tell."""
        waits = [wait for wait, _, _ in self._releases()]
        return self._fed_at_s + min(waits) if waits else None

    def feed(self, text: str, now: float) -> list[Segment]:
        """Takes the next part of the text; returns the segments it completes. ``now`` is only noted for ``poll``.

        Raises:
            TextError: the part holds a lone surrogate; the stream is as before the call.
            RequestError: the segmenter is closed.
        """
        self._require_open()
        check_text(text)
        segments: list[Segment] = []
        for character in text:
            self._push(character, segments)
        if text:
            self._fed_at_s = now
        return segments

    def poll(self, now: float) -> list[Segment]:
        """Releases what has waited long enough. Whitespace that comes later starts the next segment."""
        self._require_open()
        segments: list[Segment] = []
        for wait, position, boundary in self._releases():
            if now >= self._fed_at_s + wait:
                self._cut(position, boundary, segments)
                break
        return segments

    def flush(self) -> list[Segment]:
        """Releases everything, at the caller's choice; more text may follow."""
        self._require_open()
        segments: list[Segment] = []
        self._cut(len(self._text), "end", segments)
        return segments

    def close(self) -> list[Segment]:
        """Ends the text; returns the rest. Nothing may follow."""
        segments = self.flush()
        self._closed = True
        return segments

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the segmenter is closed; make a new one for the next utterance")

    def _push(self, character: str, segments: list[Segment]) -> None:
        if self._unsure is not None and not character.isalnum():
            self._settle(self._unsure, character, segments)
        self._capitals = self._capitals or character.isupper()
        text = self._text
        if not character.isspace() and text and not text.isspace() and not joins_cluster(text, character):
            self._consider(character, segments)
        self._text += character
        self._chars += 2 if is_wide(character) else 1
        if self._chars >= 2 * self._config.max_chars:
            self._cut_anywhere(segments)

    def _settle(self, position: int, after: str, segments: list[Segment]) -> None:
        """The word behind a doubtful stop is complete. One letter with a stop is an initial and starts nothing."""
        self._unsure = None
        word = self._text[position:]
        initial = len(word) == 1 and after == "."
        if len(word) <= _STARTER_MAX_CHARS and not initial and has(self._words.starters, word):
            self._end_sentence(position, segments)

    def _consider(self, character: str, segments: list[Segment]) -> None:
        """Looks at the place between the held text and ``character``."""
        position = len(self._text)
        kind = break_before(self._text, character, self._context())
        if kind is Break.UNSURE:
            self._unsure = position
        elif kind is Break.SENTENCE:
            self._end_sentence(position, segments)
        elif kind is not Break.NONE:
            self._breaks.append((position, kind))
            if kind >= Break.COMMA and self._may_start():
                self._cut(position, "clause", segments)
        limit = self._config.first_max_chars if self._first else self._config.max_chars
        if self._chars >= limit and self._breaks:
            self._cut_long(segments)

    def _end_sentence(self, position: int, segments: list[Segment]) -> None:
        if len(self._text[:position].strip()) >= self._config.min_chars:
            self._cut(position, "sentence", segments)
        else:
            self._breaks.append((position, Break.CLAUSE))

    def _may_start(self) -> bool:
        least = self._config.first_min_words
        if not self._first or least is None:
            return False
        n_cjk = sum(map(is_cjk, self._text))
        return len(self._text.split()) - bool(n_cjk) + n_cjk // 2 >= least

    def _cut_long(self, segments: list[Segment]) -> None:
        """Cuts at the best place: the strongest break that is not too early, the last of equals."""
        late = [each for each in self._breaks if each[0] >= len(self._text) * _EARLIEST_CUT] or self._breaks
        kind, position = max((self._strength(position, kind), position) for position, kind in late)
        self._cut(position, "clause" if kind >= Break.COMMA else "word", segments)

    def _strength(self, position: int, kind: Break) -> Break:
        if kind is Break.WORD and has(self._words.conjunctions, first_word(self._text[position:])):
            return Break.CONJUNCTION
        return kind

    def _cut_anywhere(self, segments: list[Segment]) -> None:
        """Nowhere to cut in twice the longest segment: no speech. Cuts between clusters, outside numbers if it can."""
        text = self._text
        clusters = [i for i in range(len(text) - 1, 0, -1) if not joins_cluster(text[:i], text[i])]
        outside = [i for i in clusters if not (text[i].isdigit() and text[i - 1] in "0123456789.,")]
        self._cut(next(iter(outside or clusters), len(text)), "word", segments)

    def _cut(self, position: int, boundary: Boundary, segments: list[Segment]) -> None:
        text, self._text = self._text[:position], self._text[position:]
        if not text:
            return
        segments.append(Segment(text, self._start, self._start + len(text), boundary))
        self._start += len(text)
        self._quotes = self._quotes.after(text)
        self._chars = sum(2 if is_wide(character) else 1 for character in self._text)
        self._breaks = [(at - position, kind) for at, kind in self._breaks if at > position]
        self._unsure = None if self._unsure is None or self._unsure <= position else self._unsure - position
        self._first = self._first and not text.strip()

    def _releases(self) -> list[tuple[float, int, Boundary]]:
        """What time alone would release: after how many seconds, up to where, as what. The best one first."""
        text, releases = self._text, list[tuple[float, int, Boundary]]()
        stop = open_stop(text, self._context())
        if stop is not None and len(text.strip()) >= self._config.min_chars:
            releases.append((0.0 if stop == "at once" else self._config.wait_s, len(text), "sentence"))
        if self._config.stall_s is not None:
            position = self._last_word_end()
            if position:
                releases.append((self._config.stall_s, position, "word"))
        return releases

    def _last_word_end(self) -> int:
        """Up to where whole words are held. A number at the end may go on ("10 000")."""
        text, body = self._text, self._text.rstrip()
        paused = body[-1:] in tuple(PAUSES) and not body[-2:-1].isdigit()
        spaced = len(body) < len(text) and body[-1:].isalpha()
        if body and (paused or spaced):
            return len(text)
        return self._breaks[-1][0] if self._breaks else 0

    def _context(self) -> Context:
        return Context(self._words, self._ordinals, not self._capitals, self._quotes)
