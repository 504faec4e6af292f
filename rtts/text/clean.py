"""Turns LLM output into text to speak while it arrives: markdown, HTML, URLs, code and emoji.

The cleaner reads one character at a time. At most ``MAX_HOLD_CHARS`` of them wait for what follows; what is certain is
acted on at once, so the result is a function of the characters alone and not of the parts they came in.
"""

from __future__ import annotations

import re

from rtts.errors import RequestError
from rtts.text.chars import is_cjk
from rtts.text.constructs import MAX_HOLD_CHARS as MAX_HOLD_CHARS
from rtts.text.constructs import ConstructReader
from rtts.text.markup import MORE
from rtts.text.source_map import CleanText
from rtts.text.spoken import Gap, SpokenWriter
from rtts_engine.tokenizer import check_text

# Characters that are letters or digits and nothing else, of scripts with spaces: no construct starts within a word.
_WORD = re.compile("[A-Za-z0-9À-ÖØ-öø-ʯΑ-ΡΣ-ϵϷ-ҁҊ-ԯ가-힣]+")


class Cleaner:
    """Speakable text from a stream of LLM output. See docs/text.md for what becomes of which construct.

    The pieces of all calls tile the source text (``CleanText``); their texts, joined, are the spoken text. Whitespace
    is written together with the word behind it, so the spoken text neither starts nor ends with any.

    Args:
        code_notice: said in place of every fenced code block; by default a block is only a pause.
    """

    def __init__(self, *, code_notice: str = "") -> None:
        check_text(code_notice)
        self._out = SpokenWriter()
        self._reader = ConstructReader(self._out, code_notice.strip())
        self._held = ""
        self._position = 0
        self._before = ""
        self._closed = False

    @property
    def held_chars(self) -> int:
        """How many source characters wait for what follows; at most ``MAX_HOLD_CHARS``."""
        return len(self._held)

    def feed(self, text: str) -> list[CleanText]:
        """Takes the next part of the source; returns what is now certain.

        Raises:
            TextError: the part holds a lone surrogate; the stream is as before the call.
            RequestError: the cleaner is closed.
        """
        self._require_open()
        check_text(text)
        i = 0
        while i < len(text):
            if not self._held and self._in_word() and (word := _WORD.match(text, i)):
                self._copy_word(word[0])
                i = word.end()
                continue
            self._held += text[i]
            i += 1
            self._advance(final=False)
        return self._out.take()

    def flush(self) -> list[CleanText]:
        """Decides what is held as if the text ended here; more may follow."""
        self._require_open()
        self._advance(final=True)
        return self._out.take()

    def close(self) -> list[CleanText]:
        """Ends the text; returns the rest. A heading, list or table at the end gets its stop. Nothing may follow."""
        self._require_open()
        self._closed = True
        self._advance(final=True)
        if self._reader.in_block:
            self._out.gap(Gap.BLOCK)
        self._out.end(self._position)
        return self._out.take()

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the cleaner is closed; make a new one for the next utterance")

    # Reading

    def _advance(self, final: bool) -> None:
        while self._held:
            full = len(self._held) >= MAX_HOLD_CHARS
            found = self._reader.read(self._held, final or full, self._before, self._position)
            if found is MORE:
                return
            if found.gap:
                self._out.gap(found.gap)
            if found.text:
                self._say(found.text, found.length)
            self._skip(found.length)

    def _say(self, text: str, length: int) -> None:
        """Says ``text`` for the next ``length`` source characters; character by character where it is the source."""
        verbatim = text == self._held[:length]
        end = self._position + length
        for i, character in enumerate(text):
            start = self._position + i if verbatim else self._position if i == 0 else end
            self._out.copy(character, start, start + 1 if verbatim else end)

    def _skip(self, length: int) -> None:
        self._before = self._held[length - 1]
        self._held = self._held[length:]
        self._position += length

    def _in_word(self) -> bool:
        return self._reader.in_text and self._before.isalnum() and not is_cjk(self._before)

    def _copy_word(self, word: str) -> None:
        self._out.say(word, self._position, self._position + len(word))
        self._before = word[-1]
        self._position += len(word)
