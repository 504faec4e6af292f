"""What a place in a text is: the end of a sentence, of a clause, of a word, or no place to cut at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from rtts.text.chars import CLOSERS, STOPS_CJK, STOPS_SPACED, is_cjk, is_hiragana
from rtts.text.lexicon import Lexicon
from rtts.text.stops import Verdict, judge


class Break(IntEnum):
    """How good a place is to cut at."""

    NONE = 0
    GLYPH = 1
    """Between two characters of a script without spaces."""
    WORD = 2
    CONJUNCTION = 3
    COMMA = 4
    CLAUSE = 5
    """Semicolon, colon, dash, line break."""
    SENTENCE = 6
    UNSURE = 7
    """The end of a sentence if the next word starts one."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """How many quotes and brackets are open."""

    paired: int = 0
    """CJK brackets and curly quotes."""
    guillemets: int = 0
    straight: int = 0
    """How many straight double quotes there were."""

    def after(self, text: str) -> Quotes:
        paired = sum(map(text.count, "「『“（《【")) - sum(map(text.count, "」』”）》】"))
        guillemets = text.count("«") - text.count("»")
        return Quotes(
            max(0, self.paired + paired),
            max(0, self.guillemets + guillemets),
            self.straight + text.count('"'),
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What the words of a text do not tell."""

    words: Lexicon
    ordinals: bool = False
    """A small number with a dot is an ordinal unless a starter follows (German)."""
    lowercase: bool = False
    """The writer uses no capitals."""
    quotes: Quotes = Quotes()
    """What was open before the text."""


_NEVER_FIRST = frozenset(",;:!?…%)]}”」』）】》〉。，、！？；：ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮー々")
_WORD = re.compile(r"[^\W_]+")


def break_before(text: str, after: str, context: Context) -> Break:
    """What the place between ``text`` (held, not blank) and the character ``after`` (no space) is."""
    body = text.rstrip()
    spaced = len(body) < len(text)
    if (
        not body
        or after in _NEVER_FIRST
        or (not spaced and after in CLOSERS and _closes(body, after, context))
    ):
        return Break.NONE
    if spaced and after == "»" and context.quotes.after(body).guillemets:
        return Break.NONE
    if text[len(body) :].count("\n") > 1:
        return Break.SENTENCE
    core = body.rstrip(CLOSERS)
    if len(core) < len(body):
        core = core.rstrip()
    found = _sentence_end(core, len(core) < len(body), spaced, after, context) if core else None
    if found is not None:
        return found
    return _clause_end(body, text[len(body) :], after)


def open_stop(text: str, context: Context) -> Literal["at once", "wait"] | None:
    """Whether the end of ``text`` is the end of a sentence as far as one can tell, and if to wait for more."""
    body = text.rstrip()
    core = body.rstrip(CLOSERS).rstrip()
    last, spaced = core[-1:], len(body) < len(text)
    if not last:
        return None
    if text[len(body) :].count("\n") > 1:
        return "wait"
    if last in STOPS_CJK or (last in "!?" and is_cjk(core[-2:-1])):
        quotes = context.quotes.after(text)
        return "wait" if quotes.paired or quotes.straight % 2 else "at once"
    if last in "!?‽؟" or last in STOPS_SPACED:
        return "wait"
    if last != "." or core.endswith("..") or (core[-2:-1].isdigit() and not spaced):
        return None
    verdict = judge(core, "", context.words, ordinals=context.ordinals, lowercase=context.lowercase)
    return "wait" if verdict is Verdict.ENDS else None


def first_word(text: str) -> str:
    """The word at the start of ``text``, or ""."""
    found = _WORD.match(text)
    return found[0] if found else ""


def _closes(body: str, after: str, context: Context) -> bool:
    """Whether ``after``, without a space before it, closes something; behind a CJK stop it may also open it."""
    if after == '"':
        return body[-1] not in STOPS_CJK or context.quotes.after(body).straight % 2 == 1
    return after not in "“«" or body[-1] in ".!?…,;:"


def _sentence_end(core: str, quoted: bool, spaced: bool, after: str, context: Context) -> Break | None:
    last, before = core[-1:], core[-2:-1]
    caseless = after.isalpha() and not after.isupper() and not after.islower()
    if last in STOPS_CJK or (last in "!?" and is_cjk(before)):
        if (last == "．" and after.isdigit()) or (not spaced and after in "!?."):
            return Break.NONE
        return Break.NONE if quoted and is_hiragana(after) else Break.SENTENCE
    if last in "!?‽؟":
        if spaced:
            goes_on = after.islower() and (quoted or not context.lowercase)
            return None if goes_on or (quoted and after == "라") else Break.SENTENCE
        word = core.split()[-1]
        starts = (after.isupper() or caseless) and not any(mark in word for mark in "/=&@")
        return Break.SENTENCE if starts else Break.NONE
    if last in STOPS_SPACED:
        return Break.SENTENCE if spaced or after.isalpha() else Break.NONE
    if last == "…" or core.endswith(".."):
        if spaced:
            return Break.CLAUSE if after.islower() else Break.SENTENCE
        return Break.CLAUSE if caseless else Break.NONE
    if last != ".":
        return None
    if not spaced:
        return Break.SENTENCE if is_cjk(before) and (caseless or after.isupper()) else Break.NONE
    if quoted and after.islower():
        return Break.NONE
    verdict = judge(core, after, context.words, ordinals=context.ordinals, lowercase=context.lowercase)
    if verdict is Verdict.ENDS:
        return Break.SENTENCE
    return Break.UNSURE if verdict is Verdict.NEXT_WORD else Break.NONE


def _clause_end(body: str, space: str, after: str) -> Break:
    last = body[-1]
    if last in "，；：、،؛":
        return Break.COMMA if last in "，、،" else Break.CLAUSE
    if not space:
        if last == "—" and after.isalpha():
            return Break.CLAUSE
        return Break.GLYPH if is_cjk(last) and is_cjk(after) else Break.NONE
    if "\n" in space or last in ";:—–" or body.endswith(" -"):
        return Break.CLAUSE
    if last == ",":
        return Break.COMMA
    return Break.NONE if last.isdigit() and after.isdigit() else Break.WORD
