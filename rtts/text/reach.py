"""Whether a text is one that a model can speak: its script, and for Latin letters its language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from rtts.text.lexicon import LANGUAGES, lexicon

_SCRIPTS = {
    "chinese": {"Chinese"},
    "japanese": {"Chinese", "Japanese"},
    "korean": {"Korean", "Chinese"},
    "russian": {"Cyrillic"},
}
"""Of languages that are not written in Latin letters."""
_BY_NAME = {
    "CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean", "LATIN": "Latin",
    "FULLWIDTH": "Latin",
}  # fmt: skip
_LETTERS = 4
"""Fewer letters are a name or a sign."""
_WORDS = 5
"""Fewer words do not tell a language."""
_SURE = 0.25
"""Part of the words that are small words of the language."""


def out_of_reach(text: str, languages: Iterable[str]) -> str | None:
    """What most of the text is, where a model of these languages cannot speak it: "Cyrillic script", "German".

    Args:
        text: any text.
        languages: names that the model lists; dialects and "auto" count for nothing. Without any, nothing is known.
    """
    known = {name for name in languages if name in LANGUAGES}
    if not known:
        return None
    scripts = Counter(map(_script, filter(str.isalpha, text)))
    if sum(scripts.values()) < _LETTERS:
        return None
    most, count = scripts.most_common(1)[0]
    if not any(most in _SCRIPTS.get(name, {"Latin"}) for name in known):
        return f"{most} script" if 2 * count > sum(scripts.values()) else None
    return _foreign_language(text, known) if most == "Latin" else None


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "OTHER").split()[0]
    return _BY_NAME.get(name, name.capitalize())


def _foreign_language(text: str, known: set[str]) -> str | None:
    words = re.findall(r"[^\W\d_]+", text.lower())
    if len(words) < _WORDS:
        return None
    hits = {
        name: sum(word in _small_words(name) for word in words) for name in LANGUAGES if name not in _SCRIPTS
    }
    best = max(hits, key=lambda name: hits[name])
    listed = max((hits[name] for name in known if name in hits), default=0)
    sure = best not in known and hits[best] >= _SURE * len(words) and hits[best] >= 2 * listed + 2
    return best.capitalize() if sure else None


def _small_words(name: str) -> frozenset[str]:
    words = lexicon(name)
    return words.starters | words.conjunctions
