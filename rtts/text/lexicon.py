"""Abbreviations and other words the segmenter knows, by language. The tables are in ``data/``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

from rtts.errors import RequestError
from rtts_engine.config import LANGUAGE_CODES, full_name

LANGUAGES = {name: code for code, name in LANGUAGE_CODES.items()}
_FILES = {"zh": ("en",), "ja": ("en",), "ko": ("ko", "en")}
"""Where it is not the language's own file: abbreviations in these texts are in Latin letters."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """One language, or all of them ("auto"). See data/README.md for the meaning of each set."""

    never: frozenset[str] = frozenset()
    before_number: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    starters: frozenset[str] = frozenset()
    conjunctions: frozenset[str] = frozenset()
    ordinals_after: frozenset[str] = frozenset()


def has(words: frozenset[str], word: str) -> bool:
    """Whether a table holds the word: as it is written, or as an entry without capitals."""
    return word in words or word.lower() in words


@cache
def lexicon(language: str) -> Lexicon:
    """The words of a language: "auto", one of the model's names ("german") or a code ("de", "de-AT").

    Raises:
        RequestError: no such language.
    """
    name = full_name(language.strip())
    if name == "auto":
        return _union([lexicon(each) for each in LANGUAGES])
    code = LANGUAGES.get(name)
    if code is None:
        near = difflib.get_close_matches(name, ["auto", *LANGUAGES], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"use auto, {', '.join(LANGUAGES)} or their codes"
        raise RequestError(f"language {language!r} is unknown to the segmenter; {hint}")
    return _union([_read(each) for each in _FILES.get(code, (code,))])


def _union(tables: list[Lexicon]) -> Lexicon:
    return Lexicon(
        *(frozenset().union(*(getattr(table, field.name) for table in tables)) for field in fields(Lexicon))
    )


def _read(code: str) -> Lexicon:
    file = resources.files("rtts.text").joinpath("data").joinpath(f"{code}.txt")
    sections: dict[str, set[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = sections.setdefault(line.strip("[]"), set())
        elif line:
            words.update(line.split())
    return Lexicon(**{name: frozenset(words) for name, words in sections.items()})
