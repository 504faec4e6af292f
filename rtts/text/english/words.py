"""Abbreviations, words in capitals, codes of letters and digits, and signs: each becomes words a reader would say."""

from __future__ import annotations

import re
import unicodedata

from rtts.text.english import numbers as n
from rtts.text.english import tables as t
from rtts.text.english.quantities import AMOUNT_BEFORE, END, MONEY, NOT_WORD, Rule, Say, unit_words, version

_CAPITALISED = re.compile(r"\b[A-Z][a-z]+\s$")
_CERTAIN_ROMAN = re.compile(r"X{0,2}(?:V?III?|XI|XIV|XV|XVI)")
"""No abbreviations that anyone uses."""
_VOWELS = "AEIOU"
_CONSONANTS = re.compile(
    r"[^AEIOU]{3,}|^[^AEIOU]{2}(?<![BCDFGPT][LR])(?<!S[CKLMNPQTW])(?<![CGPSTW]H)(?<!WR)(?<!TW)"
)


def spoken_capitals(word: str, before: str = "") -> str:
    """A word in capitals: as a word where it is one, else letter by letter."""
    plural = word.endswith("s") and len(word) > 2
    core = word[:-1] if plural else word
    if core in t.AS_WORDS:
        said = t.AS_WORDS[core]
    elif (core.lower() in t.COMMON and (core not in ("IT", "US") or _shouts(before))) or _is_word(core):
        said = core.lower()
    else:
        said = n.letters(core)
    return f"{said}s" if plural else said


def _shouts(before: str) -> bool:
    return re.search(r"\b[A-Z]{2,}\s$", before) is not None


def _is_word(core: str) -> bool:
    """Whether capitals can be spoken as a word: four letters or more, vowels among them, no heap of consonants."""
    return len(core) >= 4 and any(c in _VOWELS for c in core) and not _CONSONANTS.search(core)


def _capitals(m: re.Match[str], before: str) -> str | None:
    word = m[0]
    if before.endswith("&") or m.string[m.end() : m.end() + 1] == "&":
        return n.letters(word)
    previous = re.search(r"([A-Za-z]+)\s$", before)
    if previous and not word.endswith("s"):
        value = n.roman(word)
        if value is not None and previous[1] in t.NUMBERED:
            return n.cardinal(value)
        certain = previous[1].istitle() and previous[1] not in t.REGNAL and _CERTAIN_ROMAN.fullmatch(word)
        if value is not None and certain:
            return n.cardinal(value)
        if value is not None and previous[1] in t.REGNAL and value > 1:
            return f"the {n.ordinal(value)}"
    return spoken_capitals(word, before)


def _single(m: re.Match[str], before: str) -> str | None:
    letter, after = m[0], m.string[m.end() :]
    if letter in "Ii":
        return None
    previous = re.search(r"([A-Za-z]+)\s$", before)
    value = n.roman(letter)
    if value and previous and previous[1] in t.NUMBERED and letter in "VX":
        return n.cardinal(value)
    if letter in "aA" and re.match(r"\s[\w\"'(]", after):
        return None
    if before[-1:] in ("'", "’") or (letter == "a" and not before.strip()):
        return None
    return n.letters(letter)


def _dotted(m: re.Match[str], before: str) -> str | None:
    return n.letters(m[0])


def _initial(m: re.Match[str], before: str) -> str | None:
    return None if m[2].lower() in t.COMMON else n.letters(m[1])


def _abbreviation(m: re.Match[str], before: str) -> str | None:
    return t.ABBREVIATIONS[m[1]]


def _title(m: re.Match[str], before: str) -> str | None:
    name = m[1]
    named = re.match(r"\s[A-Z]", m.string[m.end() :])
    if name == "St" and _CAPITALISED.search(before):
        named = None
    if name in t.STREETS and not named:
        return t.STREETS[name] if m[0].endswith(".") else None
    return t.TITLES[name]


def _before_number(m: re.Match[str], before: str) -> str | None:
    return t.BEFORE_NUMBER[m[1]]


def _mixed(m: re.Match[str], before: str) -> str | None:
    """ "H200" -> "aitch two hundred", "COVID-19" -> "covid nineteen"."""
    said = []
    for part in re.findall(r"\d+(?:\.\d+)*|[A-Z]+(?![a-z])|[A-Za-z][a-z]*", m[0]):
        if not part[0].isdecimal():
            said.append(_letter_group(part))
        elif "." in part:
            said.append(" point ".join(n.cardinal(p) for p in part.split(".")))
        else:
            said.append(n.cardinal(part) if len(part) < 3 or part.endswith("00") else n.digits(part))
    return " ".join(said)


def _letter_group(part: str) -> str:
    if part.isupper():
        return spoken_capitals(part) if len(part) > 1 else n.letters(part)
    pronounceable = len(part) > 2 and any(c in "aeiouy" for c in part.lower())
    return part if pronounceable else n.letters(part)


def _camel(m: re.Match[str], before: str) -> str | None:
    """A capital within a word: the next word, except in names such as McDonald."""
    if re.search(r"\bMa?c$", before):
        return m[0].lower()
    return f" {m[0]}" if m[0].capitalize() == m[0] else spoken_capitals(m[0])


def _domain(m: re.Match[str], before: str) -> str | None:
    """The domain of a URL, as a cleaner leaves it."""
    spoken = re.sub(r"\d+", lambda part: f" {n.digits(part[0])} ", m[1])
    return " ".join(spoken.replace(".", " dot ").replace("-", " dash ").replace("_", " ").split())


def _per(m: re.Match[str], before: str) -> str | None:
    """Behind an amount ("$5/mo", "9 people/year"): per."""
    counted = re.search(r"\d\S*(?:\s[a-z]+){0,2}$", before)
    return f" per {t.PER[m[1]]}" if counted else None


def _slash(m: re.Match[str], before: str) -> str | None:
    """Between two words: "or", or nothing where both are in capitals; in paths: "slash"."""
    left = re.search(r"(\S*)$", before)
    right = re.match(r"\S*", m.string[m.end() :])
    around = (left[1] if left else "") + (right[0] if right else "")
    if "/" in around or "." in around[:-1] or not before[-1:].isalnum():
        return " slash " if before[-1:].isalnum() else "slash "
    left_word = re.search(r"[A-Za-z]+$", before)
    if left_word and (left_word[0].isupper() or left_word[0].lower() in ("and", "or")):
        return " "
    return " or " if left_word else " per "


def _sign(m: re.Match[str], before: str) -> str | None:
    sign, after = m[0], m.string[m.end() : m.end() + 1]
    spaced = (not before[-1:].strip() or before[-1:].isalnum() or before[-1:] in ")]") and (
        not after.strip() or after.isalnum() or after in "([$£€-"
    )
    if sign in "<>" and not (before[-1:].isdecimal() or before[-1:].isspace()):
        return ""
    if sign in "+#" and not spaced:
        return ""
    if sign == "#" and after.isalpha():
        return "hashtag"
    if sign == "~" and not after.isdecimal():
        return ""
    return t.SIGNS[sign]


def _bracket(m: re.Match[str], before: str) -> str | None:
    return ", " if before[-1:].isalnum() or before[-1:] in "%°" else m[0][:-1]


def _bracket_end(m: re.Match[str], before: str) -> str | None:
    follows = m.string[m.end() : m.end() + 1]
    return "" if not follows or follows in ".,;:!?)]}\n" or before[-1:] in ".,;:!?" else ","


def _dash(m: re.Match[str], before: str) -> str | None:
    follows = m.string[m.end() : m.end() + 1]
    return ", " if before[-1:].isalnum() and follows else " "


def _dots(m: re.Match[str], before: str) -> str | None:
    after = re.match(r"\s*(\w)", m.string[m.end() :])
    if not before.strip():
        return ""
    return (
        ("," if m.string[m.end() : m.end() + 1].isspace() else ", ") if after and after[1].islower() else "."
    )


def _line(m: re.Match[str], before: str) -> str | None:
    if not before[-1:].isalnum():
        return None
    return "." + m[0] if m[0].count("\n") > 1 else ", "


def _fold(m: re.Match[str], before: str) -> str | None:
    """A letter without its accent; what is no letter of English at all stays."""
    special = {
        "ß": "ss",
        "ø": "o",
        "Ø": "O",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "ł": "l",
        "Ł": "L",
        "ð": "d",
        "þ": "th",
    }
    plain = special.get(m[0]) or unicodedata.normalize("NFKD", m[0]).encode("ascii", "ignore").decode()
    return plain or None


def _alternatives(words: object) -> str:
    return "|".join(sorted(map(re.escape, map(str, words)), key=len, reverse=True))  # type: ignore[call-overload]


def _rules() -> tuple[list[Rule], list[Rule]]:
    day, days = _alternatives(t.DAYS), _alternatives(t.RANGE_DAYS)
    words: list[Rule | tuple[str, Say]] = [
        (r"(?:https?://(?:www\.)?|www\.)([\w.-]*\w)(?:[/:?#]\S*?)?(?=[.,;!?)\]]*(?:\s|$))", _domain),
        MONEY,
        (rf"({days})\.?\s?[-–]\s?({days})\b", lambda m, _: f"{t.RANGE_DAYS[m[1]]} to {t.RANGE_DAYS[m[2]]}"),
        (rf"({day})(?:\.|(?=[,)]|\s\d))", lambda m, _: t.DAYS[m[1]]),
        (rf"(?:{_alternatives(t.ALONE)}){NOT_WORD}(?!/)", lambda m, _: unit_words(m[0], one=False)),
        (rf"([vV])\.?(\d+(?:\.\d+)*){END}", version),
        (r"(e\.g|i\.e|a\.k\.a|et al)\.", _abbreviation),
        (rf"({_alternatives(t.ABBREVIATIONS)})\.{NOT_WORD}", _abbreviation),
        (rf"({_alternatives(t.MONTH_OF)})\.?(?=\s\d)", lambda m, _: t.MONTH_OF[m[1]]),
        (rf"({_alternatives(t.TITLES)})(?:\.{NOT_WORD}|(?=\s[A-Z]))", _title),
        (rf"({_alternatives(t.BEFORE_NUMBER)})\.\s?(?=\d)", lambda m, _: t.BEFORE_NUMBER[m[1]] + " "),
        (r"(?<=/)etc" + NOT_WORD, lambda m, _: "et see"),  # the folder
        (rf"({_alternatives(t.BARE)}){NOT_WORD}", lambda m, _: t.BARE[m[1]]),
        (r"w/o" + NOT_WORD, lambda m, _: "without"),
        (r"w/(?=\s)", lambda m, _: "with"),
        (r"(?:Ph\.?D)\.?" + NOT_WORD, lambda m, _: n.letters("phd")),
        (r"C\+\+" + NOT_WORD, lambda m, _: "see plus plus"),
        (r"([CF])#" + NOT_WORD, lambda m, _: f"{n.letters(m[1])} sharp"),
        (r"(?:[A-Za-z]\.){2,}" + NOT_WORD, _dotted),
        (r"([A-Z])\.(?=\s([A-Z](?:[a-z]+|\.)))", _initial),
        (r"[A-Za-z]+-?\d[A-Za-z\d]*(?:[-.]\d[A-Za-z\d]*)*" + NOT_WORD, _mixed),
        (r"\d+(?:\.\d+)?-?[A-Za-z]+[A-Za-z\d]*(?:-\d+)*" + NOT_WORD, _mixed),
        (r"[A-Z]{2,}s?" + NOT_WORD, _capitals),
        (r"[a-z](?=[A-Z])", _dotted),
        (r"[A-Za-z](?!')" + NOT_WORD, _single),
    ]
    signs: list[tuple[str, Say]] = [
        (_alternatives(t.COMPARED), lambda m, _: t.COMPARED[m[0]]),
        (r"\s?[-–—]\s?(?=[$£€]?\d)", lambda m, before: " to " if AMOUNT_BEFORE.search(before) else None),
        (r"[ \t]*\n\s*", _line),
        (r"\s[(\[{]", lambda m, before: ", " if before[-1:].isalnum() else " "),
        (r"[(\[{]", lambda m, before: ", " if before[-1:].isalnum() else ""),
        (r"[)\]}]", _bracket_end),
        (r"\s?[—–―]\s?|\s-+\s|--+", _dash),
        (r"\.{2,}|…", _dots),
        (r"\^2" + NOT_WORD, lambda m, _: " squared"),
        (r"\^3" + NOT_WORD, lambda m, _: " cubed"),
        (r"(?<=\w)\^(?=[\w-])", lambda m, _: " to the power of "),
        (r"[’‘'](?=[^\W_])", lambda m, before: "'" if before[-1:].isalpha() else ""),
        (r"[’‘'\"“”„«»‹›`´*^|{}\\_•®™]+", lambda m, before: ""),
        (r"(?<=[a-z])\.(?=[a-z])|(?<=\d)\.(?=[a-z])", lambda m, _: " dot "),
        (r"(?<=\w)@(?=\w)", lambda m, _: " at "),
        (rf"°[CF]{NOT_WORD}", lambda m, _: unit_words(m[0], one=False)),
        (rf"/({_alternatives(t.PER)}){NOT_WORD}", _per),
        (r"/", _slash),
        (r"(?<=[A-Z\d])-(?=[A-Z])", lambda m, _: " "),
        (r"-(?=[^\W\d_])", lambda m, before: None if before[-1:].isalnum() else ""),
        (r"\${2,}", lambda m, _: ""),
        (rf"[{re.escape(''.join(t.SIGNS))}]", _sign),
        (r"[À-ɏ]", _fold),
    ]
    return (
        [rule if isinstance(rule, Rule) else Rule(re.compile(rule[0]), rule[1]) for rule in words],
        [Rule(re.compile(pattern), say) for pattern, say in signs],
    )


WORD_RULES, SIGN_RULES = _rules()
CAMEL = Rule(re.compile(r"[A-Z]{2,}(?![a-z])s?|[A-Z][a-z]*|[A-Z]"), _camel)
"""For capitals behind a small letter."""
