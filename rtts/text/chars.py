"""Classes of characters that both the cleaner and the segmenter ask about."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

STOPS_CJK = "。！？｡．"
"""End a sentence without a space behind them."""
STOPS_SPACED = "।॥۔։።"
"""End a sentence in scripts without capitals: danda, Arabic, Armenian and Ethiopic full stops."""
CLOSERS = "\"'”’»›«‹“)]}」』）】》〉］｝〕"
"""Quotes and brackets that belong to the sentence they close. Some of them open one in other languages."""
SENTENCE_END = ".!?…‽؟" + STOPS_CJK + STOPS_SPACED
PAUSES = SENTENCE_END + ",;:，、；：،؛—–-"
"""After one of these a line needs no further stop to be heard as ended."""

_CJK = (
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3041, 0x3096), (0x309D, 0x309F), (0x30A1, 0x30FA),
    (0x30FC, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9D),
    (0x20000, 0x3FFFF),
)  # fmt: skip
_PICTOGRAPHS = (
    (0x20E3, 0x20E3), (0x2139, 0x2139), (0x231A, 0x231B), (0x2328, 0x2328), (0x23CF, 0x23CF), (0x23E9, 0x23FA),
    (0x24C2, 0x24C2), (0x25A0, 0x27BF), (0x2934, 0x2935), (0x2B00, 0x2BFF), (0x3030, 0x3030), (0x303D, 0x303D),
    (0xE000, 0xF8FF), (0xFFFC, 0xFFFD), (0x1F000, 0x1FAFF), (0xF0000, 0x10FFFF),
)  # fmt: skip
_CJK_STARTS = [first for first, _ in _CJK]
_PICTOGRAPH_STARTS = [first for first, _ in _PICTOGRAPHS]


def is_cjk(character: str) -> bool:
    """Han, kana and their extensions: scripts written without spaces. Hangul is not among them."""
    return _within(character, _CJK, _CJK_STARTS)


def is_hiragana(character: str) -> bool:
    return "ぁ" <= character <= "ゖ"


def is_wide(character: str) -> bool:
    """Counts as two in a length: one such character is about a syllable, two Latin letters."""
    return character >= "\u1100" and unicodedata.east_asian_width(character) in "WF"


def is_pictograph(character: str) -> bool:
    """Emoji, dingbats, geometric shapes, stars, keycaps, private use: seen, but not read aloud.

    Arrows, currency and letter-like signs such as © and ™ are read and stay.
    """
    return _within(character, _PICTOGRAPHS, _PICTOGRAPH_STARTS)


def is_invisible(character: str) -> bool:
    """Control, zero-width, direction and variation characters: they neither sound nor part words."""
    return (
        unicodedata.category(character) in ("Cc", "Cf")
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0000" <= character <= "\U000e01ef"
        or character == "\u034f"
    )


def is_word(character: str) -> bool:
    """A letter, a digit or a mark on one; False for the empty string."""
    return character.isalnum() or (character != "" and unicodedata.category(character)[0] == "M")


def joins_cluster(before: str, character: str) -> bool:
    """Whether a grapheme cluster goes on from ``before`` (text, not empty) into ``character``.

    The rules of UAX #29 that matter for speech: marks, joiners, emoji modifiers, flags, Hangul jamo, CR LF.
    """
    if unicodedata.category(character) in ("Mn", "Me", "Mc") or character in "\u200c\u200d":
        return True
    if before[-1] == "\u200d" or "\U0001f3fb" <= character <= "\U0001f3ff":
        return True
    if "\U000e0020" <= character <= "\U000e007f" or "\u1160" <= character <= "\u11ff":
        return True
    if _is_flag_half(character):
        halves = len(before) - len(before.rstrip(_FLAG_HALVES))
        return halves % 2 == 1
    return before[-1] == "\r" and character == "\n"


_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _within(character: str, ranges: tuple[tuple[int, int], ...], starts: list[int]) -> bool:
    if len(character) != 1:
        return False
    code = ord(character)
    i = bisect_right(starts, code) - 1
    return i >= 0 and code <= ranges[i][1]
