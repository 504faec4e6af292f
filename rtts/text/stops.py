"""Whether a full stop ends a sentence: the one question that needs words and not only punctuation."""

from __future__ import annotations

import re
from enum import Enum, auto

from rtts.text.lexicon import Lexicon, has


class Verdict(Enum):
    ENDS = auto()
    GOES_ON = auto()
    NEXT_WORD = auto()
    """The next word decides: ends the sentence if it is a starter."""


_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,3}")
_ROMAN = re.compile(r"[IVXLC]{2,}")
_ELISION = re.compile(r".+['’](?=\w{2})")
_OPENERS = "([{«»“„‚‘\"'’¿¡—–/-"
_LIST_NUMBER_MAX_DIGITS = 3
_ORDINAL_MAX_DIGITS = 2


def judge(text: str, after: str, words: Lexicon, *, ordinals: bool, lowercase: bool) -> Verdict:
    """Judges the full stop that ends ``text``, with a space behind it.

    Args:
        text: from the start of the segment to the stop, included.
        after: the first character of the next word; "" when it is not known.
        words: tables of the language.
        ordinals: a small number with a dot is an ordinal unless a starter follows (German).
        lowercase: the writer uses no capitals, so a small letter behind the stop says nothing.
    """
    tokens = text[:-1].split()
    token = tokens[-1].lstrip(_OPENERS) if tokens and text[-2:-1].strip() else ""
    small = after.islower()
    if not token:
        return Verdict.ENDS
    if len(tokens) == 1 and _is_list_number(token):
        return Verdict.GOES_ON
    before = tokens[-2] if len(tokens) > 1 else ""
    joined = before.lstrip(_OPENERS) + token if before.endswith(".") and len(before) <= len("z.B.") else token
    bare = token if len(token) == 1 else _ELISION.sub("", token)
    if (after.isdigit() and has(words.before_number, bare)) or has(words.never, bare):
        return Verdict.GOES_ON
    if joined != token and has(words.never, joined):
        return Verdict.GOES_ON
    if _may_go_on(token, joined, words):
        return _next_word_decides(after, initial=len(token) == 1)
    if token.isdigit() and len(token) <= _ORDINAL_MAX_DIGITS and (small or after.isupper() or not after):
        if small and not lowercase:
            return Verdict.GOES_ON
        if ordinals or has(words.ordinals_after, before):
            return Verdict.NEXT_WORD
    return Verdict.GOES_ON if small and not lowercase else Verdict.ENDS


def _is_list_number(token: str) -> bool:
    """Whether it numbers an item when it stands first: 12 or B."""
    return (token.isdigit() and len(token) <= _LIST_NUMBER_MAX_DIGITS) or (
        len(token) == 1 and token.isupper()
    )


def _may_go_on(token: str, joined: str, words: Lexicon) -> bool:
    letter = len(token) == 1 and token.isalpha() and (token.isupper() or token.islower())
    known = has(words.may_end, token) or has(words.may_end, joined)
    return letter or known or bool(_DOTTED.fullmatch(token) or _ROMAN.fullmatch(token))


def _next_word_decides(after: str, initial: bool) -> Verdict:
    if not after or after.isupper():
        return Verdict.NEXT_WORD
    if after.islower() or after.isdigit():
        return Verdict.GOES_ON
    return Verdict.GOES_ON if initial and not after.isalpha() else Verdict.ENDS
