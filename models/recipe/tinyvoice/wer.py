"""Word and character errors between a text and what a recogniser heard. `bench/voice` uses this, too."""

import re
from collections.abc import Sequence

_SAME = {
    "seashells": "sea shells",
    "seashore": "sea shore",
    "smokey": "smoky",
    "real-time": "real time",
    "mr": "mister",
    "dr": "doctor",
    "mrs": "missus",
    "ok": "okay",
    "till": "until",
}
_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["x", "x", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spell_number(n: int) -> str:
    """Whole number in words, without "and"."""
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f" {_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (f" {spell_number(n % 100)}" if n % 100 else "")
    if n < 1_000_000:
        return f"{spell_number(n // 1000)} thousand" + (f" {spell_number(n % 1000)}" if n % 1000 else "")
    return f"{spell_number(n // 1_000_000)} million" + (
        f" {spell_number(n % 1_000_000)}" if n % 1_000_000 else ""
    )


def words(text: str) -> list[str]:
    """Lower-case words, numbers spelled out, "and" inside numbers dropped on both sides."""
    text = text.lower().replace("’", "'").replace("%", " percent").replace("½", " half")
    text = re.sub(r"\$(\d+)\.(\d\d)\b", r"\1 dollars \2 cents", text)
    text = re.sub(r"\$([\d,]+)", r"\1 dollars", text)
    text = re.sub(r"(\d),(\d{3})\b", r"\1\2", text)
    text = re.sub(r"\b(\d{1,2}):(\d\d)\b", r"\1 \2", text)
    text = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", text)
    text = re.sub(
        r"\d+", lambda m: " " + spell_number(int(m.group())) + " " if len(m.group()) < 8 else m.group(), text
    )
    text = re.sub(r"[^a-z' ]", " ", text.replace("-", " "))
    return " ".join(_SAME.get(w, w) for w in text.split()).split()


_ORDINAL = {
    "first": "one",
    "second": "two",
    "third": "three",
    "fourth": "four",
    "fifth": "five",
    "twelfth": "twelve",
    "eighth": "eight",
}
_NUMBER_WORDS = {*_ONES, *_TENS, "hundred", "thousand", "million", "oh", "half"}


def loose(tokens: list[str]) -> list[str]:
    """Spellings of numbers that speech does not tell apart: years, digits in groups, "and", ordinals."""
    out: list[str] = []
    for i, w in enumerate(tokens):
        w = _ORDINAL.get(w, w)
        near = {*tokens[max(0, i - 1) : i + 2]} & _NUMBER_WORDS
        if w in ("hundred", "thousand", "and", "a") and near:
            continue
        out.append("zero" if w == "oh" and near else w)
    return out


def edits(reference: Sequence[str], heard: Sequence[str]) -> int:
    """Levenshtein distance: in words of lists, in characters of strings."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(reference, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def errors(reference: str, heard: str) -> tuple[int, int]:
    """(errors, words of the reference)."""
    a, b = loose(words(reference)), loose(words(heard))
    return (0 if "".join(a) == "".join(b) else edits(a, b)), len(a)


def character_errors(reference: str, heard: str) -> tuple[int, int]:
    """(errors, characters of the reference), of the same words; spaces do not count."""
    a, b = ("".join(loose(words(text))) for text in (reference, heard))
    return edits(a, b), len(a)
