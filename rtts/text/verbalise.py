"""Writes out numbers, signs and abbreviations for a model that only reads words, while the text arrives.

The verbaliser reads one character at a time. What stands at the start of the text that it holds is decided once nothing
that may follow can change it, so the result is a function of the characters alone and not of the parts they came in.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from rtts.errors import RequestError
from rtts.text.chars import is_cjk, is_invisible, is_pictograph
from rtts.text.english.lookahead import LETTERS, MAY_BE_SPECIAL, settled
from rtts.text.english.numbers import cardinal
from rtts.text.english.quantities import PHONE, Rule
from rtts.text.english.quantities import RULES as QUANTITIES
from rtts.text.english.tables import COMMON, CURRENCIES, TITLES
from rtts.text.english.words import CAMEL, SIGN_RULES, WORD_RULES
from rtts.text.source_map import CleanText
from rtts_engine.tokenizer import check_text

MAX_HOLD_CHARS = 128
"""No more text than this ever waits for what follows."""

_PAST_CHARS = 48
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SPACE = re.compile(r"\s+")
_NUMBER_SIGNS = "+-−#~±.'’(" + "".join(sign for sign in CURRENCIES if len(sign) == 1)
_SIGN_WORDS = {
    "+": "plus",
    "-": "minus",
    "−": "minus",
    "±": "plus or minus",
    "~": "about",
    "#": "number",
}
_STARTS_SENTENCE = re.compile(r"(?:^|[.!?…][\"'”’)\]]*\s+|\n\s*)[\"'“‘(\[]*$")
_LIST_NUMBER = re.compile(r"(\d{1,3})[.)](?=\s)")


class Verbaliser:
    """English words from a stream of English text. See docs/text.md for what becomes of what.

    Takes the pieces of a ``Cleaner`` and returns pieces that tile the same source: what is written out stands for its
    source text as a whole.
    """

    def __init__(self) -> None:
        self._queue: deque[CleanText] = deque()
        self._held = ""
        self._past = ""
        self._spoken = ""
        self._out: list[CleanText] = []
        self._copied = False
        self._closed = False

    @property
    def held(self) -> str:
        """The text that waits for what follows; at most ``MAX_HOLD_CHARS``."""
        return self._held

    def feed(self, pieces: Iterable[CleanText]) -> list[CleanText]:
        """Takes the next pieces, in order; returns what is now certain.

        Raises:
            RequestError: the verbaliser is closed.
        """
        self._require_open()
        for piece in pieces:
            for part in _atoms(piece):
                self._queue.append(part)
                if part.text:
                    self._held += part.text
                    self._advance(final=False)
            self._drain()
        return self._take()

    def flush(self) -> list[CleanText]:
        """Decides what is held as if the text ended here; more may follow."""
        self._require_open()
        self._advance(final=True)
        return self._take()

    def close(self) -> list[CleanText]:
        """Ends the text; returns the rest. Nothing may follow."""
        pieces = self.flush()
        self._closed = True
        return pieces

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the verbaliser is closed; make a new one for the next utterance")

    def _take(self) -> list[CleanText]:
        out, self._out = self._out, []
        self._copied = False
        return out

    # Reading

    def _advance(self, final: bool) -> None:
        while self._held:
            found = self._read(final or len(self._held) >= MAX_HOLD_CHARS)
            if found is None:
                return
            length, said = found
            self._write(length, said)

    def _read(self, final: bool) -> tuple[int, str | None] | None:
        """Length of the next construct and its words (None: as it stands); None when what follows decides."""
        held = self._held
        before = self._past[-1:] if not is_cjk(self._past[-1:]) else ""
        first = held[0]
        if first.isascii() and first.isalpha():
            return self._read_letters(held, before, final)
        if first.isdecimal() and first.isascii():
            return self._read_number(held, before, final)
        if first in _NUMBER_SIGNS and not before.isalnum():
            if len(held) == 1 and not final:
                return None
            if (
                held[1:2].isdecimal()
                or (first in CURRENCIES and held[1:2] in " -.")
                or held[1:2] in CURRENCIES
            ):
                return self._read_number(held, before, final)
        return self._read_sign(held, final)

    def _read_letters(self, held: str, before: str, final: bool) -> tuple[int, str | None] | None:
        word = LETTERS.match(held)
        assert word is not None
        letters = word[0]
        if before.islower() and before.isalpha():  # within a word
            if not letters[0].isupper():
                return len(re.match(r"[a-z]+", letters)[0]), None  # type: ignore[index]
            if len(letters) == len(held) and not final:
                return None
            return self._apply([CAMEL]) or (len(letters), None)
        if before.isalnum() or (before and before in "'’" and self._past[-2:-1].isalpha()):
            return len(letters), None
        plain = len(letters) > 1 and letters[1:].islower() and letters not in MAY_BE_SPECIAL
        if plain:
            return len(letters), None
        if not final and not settled(held, self._past):
            return None
        return self._apply_words(held)

    def _apply_words(self, held: str) -> tuple[int, str | None]:
        found = self._apply(WORD_RULES)
        if found:
            return found
        word = _WORD.match(held)
        return (word.end() if word else 1), None

    def _read_number(self, held: str, before: str, final: bool) -> tuple[int, str | None] | None:
        if not final and not settled(held, self._past):
            return None
        item = _LIST_NUMBER.match(held)
        listed = _STARTS_SENTENCE.search(self._spoken) or self._spoken.endswith(": ")
        if item and (self._starts_line() or (listed and re.match(r"\s[A-Z]", held[item.end() :]))):
            return item.end(), f"{cardinal(item[1])},"
        if found := self._apply([*QUANTITIES, *WORD_RULES]):
            return found
        sign = _SIGN_WORDS.get(held[0])
        if sign and (found := self._apply(QUANTITIES, skip=1)):
            return found[0], f"{sign} {found[1]}"
        if held[0].isdecimal():
            digits = re.match(r"\d+", held)
            assert digits is not None
            return digits.end(), cardinal(digits[0])
        return self._read_sign(held, final)

    def _starts_line(self) -> bool:
        return not self._past.strip() or "\n" in self._past[-2:]

    def _read_sign(self, held: str, final: bool) -> tuple[int, str | None] | None:
        first = held[0]
        if first.isspace():
            space = _SPACE.match(held)
            assert space is not None
            if space.end() == len(held) and not final:
                return None
            follows = held[space.end() : space.end() + 1]
            if "\n" not in space[0] and follows not in tuple("([{—–―-"):
                return space.end(), None
            if follows == "(":
                if not final and not settled(held[space.end() :], ""):
                    return None
                if PHONE.match(held, space.end()):
                    return space.end(), None
        elif first in ",;:!?":
            return 1, None
        elif is_pictograph(first) or is_invisible(first):
            return 1, ""
        if not final and not self._signsettled(held):
            return None
        return self._apply(SIGN_RULES) or (1, None)

    @staticmethod
    def _signsettled(held: str) -> bool:
        """Whether enough follows a sign to read it."""
        marks = re.match(r"\s?[^\w\s]*\s?", held)
        assert marks is not None
        if held[0] == "/":
            return settled(held, "")
        return len(held) > marks.end() or len(held) >= 16

    def _apply(self, rules: list[Rule], skip: int = 0) -> tuple[int, str] | None:
        text = self._past + self._held
        start = len(self._past) + skip
        for rule in rules:
            m = rule.pattern.match(text, start)
            if m is None:
                continue
            said = rule.say(m, text[:start])
            if said is not None:
                said += self._stop(m)
                return m.end() - len(self._past), said
        return None

    @staticmethod
    def _stop(m: re.Match[str]) -> str:
        """The full stop that an abbreviation shares with its sentence."""
        if not m[0].endswith(".") or len(m[0]) < 2 or m[0].endswith(".."):
            return ""
        title = m[0][:-1] in TITLES
        after = m.string[m.end() :]
        follows = re.match(r"\s+[\"'“(]*([A-Z0-9][A-Za-z']*)", after)
        if title and follows:
            return ""
        time = m[0].lower().endswith(("m.", "etc."))
        if not after.strip() or after.startswith("\n") or "\n\n" in after[:2]:
            return "."
        return "." if follows and (time or follows[1].lower() in COMMON) else ""

    # Writing

    def _write(self, length: int, said: str | None) -> None:
        source = self._held[:length]
        if said is not None and said != source:
            said = self._fitted(said, source)
        self._spoken = (self._spoken + (source if said is None else said))[-_PAST_CHARS:]
        if said is None or said == source:
            for piece in self._consume(length):
                self._copy(piece)
        else:
            pieces = list(self._consume(length))
            self._out.append(CleanText(said, pieces[0].source_start, pieces[-1].source_end))
            self._copied = False
        self._held = self._held[length:]
        self._past = (self._past + source)[-_PAST_CHARS:]
        self._drain()

    def _fitted(self, said: str, source: str) -> str:
        """With a space where two words would grow together, and a capital at the start of a sentence."""
        if not said or (source.isalpha() and not source.isascii()):
            return said  # a letter without its accent
        before = self._spoken[-1:] if not is_cjk(self._spoken[-1:]) else " "
        after = self._held[len(source) : len(source) + 1]
        if said[0].isalnum() and _STARTS_SENTENCE.search(self._spoken):
            said = said[0].upper() + said[1:]
        if before.isspace() or not before:
            said = said.lstrip(" ") or said[:1]
        elif before.isalnum() and said[0].isalnum() and said.lower() != source.lower():
            said = " " + said
        if after.isascii() and after.isalnum() and said[-1].isalnum():
            said += " "
        return said

    def _consume(self, length: int) -> Iterator[CleanText]:
        while length > 0:
            piece = self._queue.popleft()
            length -= len(piece.text)
            yield piece

    def _drain(self) -> None:
        """Source text that is not spoken goes with what was written before it."""
        while self._queue and not self._queue[0].text:
            self._out.append(self._queue.popleft())
            self._copied = False

    def _copy(self, piece: CleanText) -> None:
        verbatim = len(piece.text) == piece.source_end - piece.source_start
        if verbatim and self._copied:
            last = self._out[-1]
            self._out[-1] = CleanText(last.text + piece.text, last.source_start, piece.source_end)
        else:
            self._out.append(piece)
        self._copied = verbatim


def _atoms(piece: CleanText) -> Iterator[CleanText]:
    """A piece in characters. One that maps as a whole is behind the listener with its last character."""
    text, start, end = piece.text, piece.source_start, piece.source_end
    if len(text) <= 1:
        yield piece
    elif len(text) == end - start:
        for i, character in enumerate(text):
            yield CleanText(character, start + i, start + i + 1)
    else:
        for character in text[:-1]:
            yield CleanText(character, start, start)
        yield CleanText(text[-1], start, end)


def verbalise(text: str) -> str:
    """A whole English text in words.

    Raises:
        TextError: the text is no string, or holds a lone surrogate.
    """
    check_text(text)
    verbaliser = Verbaliser()
    whole = [CleanText(text, 0, len(text))] if text else []
    return "".join(piece.text for piece in [*verbaliser.feed(whole), *verbaliser.close()])
