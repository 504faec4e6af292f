"""Text ids while the text is still arriving, equal to the ids of the finished text.

The ids of a prefix are not always a prefix of the final ids: a word may go on, whitespace may become part of the
next piece, a combining mark may change the character before it. So text is held back until nothing that
follows can change its ids:

* NFC: later characters change the last starter (a character that is not a combining mark) and what
  follows it, never anything before.
* Split patterns: both match from left to right without look-behind, and a match looks no further than the first
  character that cannot extend it, so only the last piece can change, with two exceptions. Trailing whitespace may
  still be divided in another way or join a line break. In the "mistral" pattern a piece may also swallow the one
  before it, within a run of letters and marks ("日" and "A" become one piece when a small letter follows).
* Unspaced scripts (Chinese, Japanese): a piece lasts until the next punctuation mark, but the tokens at its start
  are certain much earlier, see ``Tokenizer.certain_tokens``.
"""

from __future__ import annotations

import unicodedata
from itertools import accumulate

from rtts_engine.errors import RequestError
from rtts_engine.tokenizer import WHITESPACE, Piece, Tokenizer, check_text

_LONG_HOLD_CHARS = 256

# Characters that this Python's Unicode tables do not know ("Cn") may be marks or letters in those of the tokenizer,
# so they count as the class that holds more back.
_MARKS = frozenset({"Mn", "Mc", "Me", "Cn"})
_LETTERS_AND_MARKS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"}) | _MARKS
_CASELESS_LETTERS = frozenset({"Lo", "Lm"})
_NO_CASELESS_PREFIX = frozenset({"Lu", "Ll", "Lt", "Cn"})


class IncrementalTokenizer:
    """Ids of one utterance whose text arrives in parts of any size.

    The ids of all ``feed`` calls and the final ``close`` are together ``Tokenizer.encode_spoken`` of the whole
    text, whatever the parts: whitespace around the utterance is dropped, and added tokens are ordinary text.
    Only an early ``flush`` may lead to other ids. A call's work is proportional to the new and the held text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._parts: list[str] = []
        self._held_chars = 0
        self._scan_at_chars = 0
        self._started = False
        self._closed = False

    @property
    def held_chars(self) -> int:
        """How much text waits for what follows, in characters."""
        return self._held_chars

    def feed(self, text: str) -> list[int]:
        """Takes the next part of the text; returns the ids that are now certain, often none.

        Words are released when the next one begins. When more than 256 characters are held, they are looked at again
        only when they have grown by a quarter: such a run is no speech, and this keeps a long stream linear.

        Raises:
            TextError: the part holds a lone surrogate; the stream is as before the call.
            RequestError: the stream is closed.
        """
        self._require_open()
        check_text(text)
        if not self._started:
            text = text.lstrip(WHITESPACE)
            self._started = bool(text)
        if not text:
            return []
        self._parts.append(text)
        self._held_chars += len(text)
        if self._held_chars < self._scan_at_chars:
            return []
        return self._release_certain()

    def flush(self) -> list[int]:
        """Releases everything that is held, at the caller's choice: later text starts a new piece.

        For a caller that would rather speak now than wait, in a pause of the source. Ids may then differ from those
        of the whole text where the flush fell within a word.
        """
        self._require_open()
        pieces = self._tokenizer.split(self._tokenizer.normalize("".join(self._parts)))
        self._hold("")
        return self._ids(pieces)

    def close(self) -> list[int]:
        """Ends the text; returns the ids still held, whitespace at the end dropped. No other call may follow."""
        self._require_open()
        self._hold("".join(self._parts).rstrip(WHITESPACE))
        ids = self.flush()
        self._closed = True
        return ids

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the text stream is closed; open a new one for the next utterance")

    def _release_certain(self) -> list[int]:
        text = self._tokenizer.normalize("".join(self._parts))
        pieces = self._tokenizer.split(text)
        hold = self._hold_point(text, pieces)
        n_certain = 0
        while pieces[n_certain].end <= hold:
            n_certain += 1
        ids = self._ids(pieces[:n_certain])
        rest = text[pieces[n_certain - 1].end :] if n_certain else text
        if len(pieces) - n_certain == 1 and _is_caseless_run(rest):
            more, n_chars = self._certain_start(rest, pieces[-1].symbols)
            ids += more
            rest = rest[n_chars:]
        self._hold(rest)
        return ids

    def _hold(self, text: str) -> None:
        self._parts = [text]
        self._held_chars = len(text)
        self._scan_at_chars = len(text) * 5 // 4 if len(text) > _LONG_HOLD_CHARS else 0

    def _ids(self, pieces: list[Piece]) -> list[int]:
        return [token.id for piece in pieces for token in self._tokenizer.merge(piece.symbols)]

    def _hold_point(self, text: str, pieces: list[Piece]) -> int:
        """Pieces that end at or before this character are final. Less than ``len(text)``, which is not empty."""
        last_piece = pieces[-2].end if len(pieces) > 1 else 0
        last_starter = max(0, _run_start(text, _MARKS) - 1)
        hold = min(last_piece, last_starter, len(text.rstrip(WHITESPACE)))
        if self._tokenizer.split_rule == "mistral":
            hold = min(hold, _run_start(text, _LETTERS_AND_MARKS))
        return hold

    def _certain_start(self, text: str, symbols: str) -> tuple[list[int], int]:
        """Ids of whole characters at the start of the unfinished piece ``text``, and how many characters they are.

        A later mark may change the last character, so it is not counted on. The rest of the text is a new piece of
        its own: within a run of caseless letters both patterns go on the same way from any character.
        """
        certain = self._tokenizer.certain_tokens(symbols[: -_utf8_length(text[-1])])
        chars_by_bytes = {n: i for i, n in enumerate(accumulate(map(_utf8_length, text)), start=1)}
        n_chars = n_bytes = n_tokens = 0
        for i, token in enumerate(certain, start=1):
            n_bytes += token.n_bytes
            if n_bytes in chars_by_bytes:
                n_chars, n_tokens = chars_by_bytes[n_bytes], i
        return [token.id for token in certain[:n_tokens]], n_chars


def _utf8_length(text: str) -> int:
    return len(text.encode("utf-8"))


def _run_start(text: str, categories: frozenset[str]) -> int:
    """Start of the run of characters of these categories at the end of ``text``."""
    start = len(text)
    while start and unicodedata.category(text[start - 1]) in categories:
        start -= 1
    return start


def _is_caseless_run(piece: str) -> bool:
    """Whether a piece is caseless letters, at least two characters, perhaps after one character that is no letter."""
    categories = [unicodedata.category(character) for character in piece]
    return (
        len(piece) > 1
        and categories[0] not in _NO_CASELESS_PREFIX
        and all(category in _CASELESS_LETTERS for category in categories[1:])
    )
