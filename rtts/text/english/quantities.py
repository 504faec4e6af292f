"""Amounts, dates, times and numbers with a unit: each rule reads one construct at the start of a text.

A rule is a pattern and what it becomes in words; None from the latter means that the next rule has its turn. Patterns
look at complete text only: whoever applies them waits until what follows is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from rtts.text.english import numbers as n
from rtts.text.english import tables as t

Say = Callable[[re.Match[str], str], "str | None"]


class Rule(NamedTuple):
    """``say`` gets the match and the text before it."""

    pattern: re.Pattern[str]
    say: Say


NUM = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
NOT_WORD = r"(?![A-Za-z0-9À-ɏ])"
_NO_WORD = r"(?![A-Za-z0-9À-ɏ-])"
END = rf"{NOT_WORD}(?!\.\d)(?!,\d{{3}}(?!\d))"
_SCALE = (
    r"(?:(k|K|m|M|mn|bn|b|B|tn|T)(?![A-Za-z0-9À-ɏ])|\s(thousand|million|billion|trillion)(?![A-Za-z0-9À-ɏ]))"
)
_UNIT = "|".join(sorted(map(re.escape, {*t.UNITS, *t.FIXED_UNITS}), key=len, reverse=True))
_DASH = r"\s?[-–—−]\s?"
_AMPM = r"(?:\s?([AaPp])(?:[mM]|\.\s?[mM])\.?(?![A-Za-z0-9À-ɏ]))"
_CLOCK = r"(\d{1,2})(?:[:.](\d{2})(?::(\d{2}))?)?"
_MONTH = "|".join(sorted(t.MONTH_OF, key=len, reverse=True))
_MONTH_BEFORE = re.compile(rf"\b(?:{_MONTH})\.?\s(?:the\s)?$")
_YEAR_BEFORE = re.compile(
    r"(?:\b(?:in|since|until|till|year|circa|early|late|mid|spring|summer|fall|autumn|winter|before|after)|"
    rf"\b(?:{_MONTH})\.?,?)\s$",
    re.IGNORECASE,
)
_CODE_BEFORE = re.compile(
    rf"\b{t.CODES}(?:\s(?:number|no\.?|code|id|(?-i:[A-Z]{{2}})))?(?:\s(?:is|was))?(?:\snow)?[:#]?\s?#?$",
    re.IGNORECASE,
)
_PLURAL = re.compile(
    r"\s(?:[a-z]+s|people|men|women|children)\b(?<!\bwas)(?<!\bis)(?<!\bhas)(?<!\bthis)(?<!\bits)"
)


def plural(word: str) -> str:
    """More than one of a unit."""
    first, of, rest = word.partition(" per ")
    head, _, last = first.rpartition(" ")
    last = t.PLURALS.get(last, last if last.endswith(("s", "hertz")) else f"{last}s")
    return f"{head} {last}".strip() + of + rest


def amount(text: str) -> str:
    """A plain number, with or without decimals."""
    return n.decimal(text)


def _one(text: str) -> bool:
    return text == "1"


def _iso_date(m: re.Match[str], before: str) -> str | None:
    year, month, day = int(m[1]), int(m[2]), int(m[3])
    said = _date(day, month, str(year))
    return said and said + (" at" if m[4] else "")


def _date(day: int, month: int, year: str) -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    spoken = n.year(year) if len(year) == 4 else n.year(f"20{year}")
    return f"{t.MONTHS[month - 1]} {n.ordinal(day)}, {spoken}"


def _slash_date(m: re.Match[str], before: str) -> str | None:
    """Month first, as in the United States, unless that is no date. With dots, day first."""
    first, second = int(m[1]), int(m[3])
    day_first = m[2] == "." or first > 12
    return _date(first, second, m[4]) if day_first else _date(second, first, m[4])


def _day_month(m: re.Match[str], before: str) -> str | None:
    if not 1 <= int(m[1]) <= 31:
        return None
    the = "" if re.search(r"\bthe\s$", before, re.IGNORECASE) else "the "
    year = f" {n.year(m[4])}" if m[4] else ""
    return f"{the}{n.ordinal(m[1])} of {t.MONTH_OF[m[3]]}{year}"


def _month_day(m: re.Match[str], before: str) -> str | None:
    if not _MONTH_BEFORE.search(before) or not 1 <= int(m[1]) <= 31:
        return None
    return n.ordinal(m[1]) + (f", {n.year(m[2])}" if m[2] else "")


def clock(hour: str, minute: str | None, second: str | None, half: str | None) -> str | None:
    """10, 30, None, "a" -> "ten thirty ay em"."""
    h, m = int(hour), int(minute or 0)
    if h > 24 or m > 59:
        return None
    said = n.cardinal(h if h or half else 12)
    if minute and (m or second):
        said += f" oh {n.cardinal(m)}" if 0 < m < 10 else f" {n.cardinal(m) if m else 'oh oh'}"
    elif not half:
        said += " hundred" if h > 12 else " o'clock"
    if second:
        said += f" and {n.cardinal(int(second))} seconds"
    return said + (f" {n.letters(half + 'm')}" if half else "")


def _time(m: re.Match[str], before: str) -> str | None:
    if not m[4] and not (m[2] and ":" in m[0]):
        return None
    return clock(m[1], m[2], m[3], m[4])


def _time_range(m: re.Match[str], before: str) -> str | None:
    if ":" not in m[0] and not (m[4] or m[8]):
        return None
    first = clock(m[1], m[2], m[3], m[4])
    second = clock(m[5], m[6], m[7], m[8])
    if first is None or second is None:
        return None
    if not m[2] and not m[4]:
        first = n.cardinal(int(m[1]))
    return f"{first} to {second}"


def _money(sign: str, value: str, scale: str | None, value2: str | None = None) -> str:
    unit, part = t.CURRENCIES[sign]
    spoken_scale = f" {t.SCALES[scale]}" if scale else ""
    if value2:
        return f"{amount(value)} to {amount(value2)}{spoken_scale} {plural(unit)}"
    whole, point, cents = value.replace(",", "").partition(".")
    if scale or not point or len(cents) != 2 or not part:
        return f"{amount(value)}{spoken_scale} {unit if _one(value) and not scale else plural(unit)}"
    words = [] if not int(whole or 0) and int(cents) else [_count(whole or "0", unit)]
    return " and ".join(words + ([_count(cents.lstrip("0"), part)] if int(cents) else []))


def _count(value: str, unit: str) -> str:
    return f"{amount(value)} {unit if _one(value) else plural(unit)}"


def _sign_first(m: re.Match[str], before: str) -> str | None:
    minus = "minus " if m[1] or m[3] else ""
    return minus + _money(m[2][-1] if m[2][-1] in t.CURRENCIES else m[2], m[4], m[6] or m[7], m[5])


def _sign_last(m: re.Match[str], before: str) -> str | None:
    return _money(m[2], m[1], None)


def unit_words(unit: str, *, one: bool) -> str:
    """The name of a unit."""
    if unit in t.FIXED_UNITS:
        return t.FIXED_UNITS[unit]
    return t.UNITS[unit] if one else plural(t.UNITS[unit])


def _with_unit(m: re.Match[str], before: str) -> str | None:
    value, second, space, unit, per = m[1], m[2], m[3], m[4], m[5]
    if space and unit in t.ONLY_JOINED:
        return None
    if (
        unit == "s"
        and not space
        and second is None
        and (_is_decade(value, before) or _OF_A_DECADE.match(m.string, m.start(4)))
    ):
        return None
    if unit in ("m", "B", "K") and not space and re.search(r"[$£€]\s?$", before):
        return None
    if unit == "m" and re.search(r"\dh\s?$", before):
        unit = "min"
    said = f"{amount(value)} to {amount(second)}" if second else amount(value)
    said += f" {unit_words(unit, one=_one(value) and second is None)}"
    return said + (f" per {t.UNITS.get(per[1:], per[1:])}" if per else "")


def _is_decade(value: str, before: str) -> bool:
    if not value.isdecimal() or int(value) % 10:
        return False
    near = re.search(r"\b(?:the|early|mid|late|his|her|my|their|your)[\s-]$", before, re.IGNORECASE)
    return len(value) == 4 or (len(value) == 2 and (near is not None or before.endswith(("'", "’"))))


_OF_A_DECADE = re.compile(r"s\s(?:music|movie|film|song|fashion|style|pop|rock|kid|hit|show|classic|hair)")


def _decade(m: re.Match[str], before: str) -> str | None:
    music = len(m[1]) == 2 and m[1][1] == "0" and _OF_A_DECADE.match(m.string, m.end() - 1)
    return n.decade(m[1]) if music or _is_decade(m[1], before) else None


def _scaled(m: re.Match[str], before: str) -> str | None:
    if m[2] == "K" and len(m[1]) == 1:
        return f"{amount(m[1])} kay"  # a resolution
    return f"{amount(m[1])} {t.SCALES[m[2]]}"


def _range(m: re.Match[str], before: str) -> str | None:
    first, second = m[1], m[2]
    if " " in m[0] and float(first.replace(",", "")) >= float(second.replace(",", "")):
        return None  # a subtraction
    if is_year(first):
        if is_year(second):
            return f"{n.year(first)} to {n.year(second)}"
        if len(second) == 2:
            return f"{n.year(first)} to {n.cardinal(int(second))}"
    return f"{amount(first)} to {amount(second)}"


def _operation(m: re.Match[str], before: str) -> str | None:
    return f"{amount(m[1])} {({'*': 'times', '/': 'divided by'}).get(m[2], 'minus')}"


def _feet(m: re.Match[str], before: str) -> str | None:
    return f"{n.cardinal(m[1])} foot {n.cardinal(int(m[2]))}"


_PARTS = frozenset({*range(2, 10), 12, 16, 20, 32, 64})
"""Denominators of fractions; with others it is something else."""
_DATE_BEFORE = re.compile(r"\b(?:on|by|until|since|due)\s$", re.IGNORECASE)


def _fraction(m: re.Match[str], before: str) -> str | None:
    whole, a, b = m[1], int(m[2]), int(m[3])
    if (a, b) in ((24, 7), (9, 11), (50, 50)):
        return f"{n.cardinal(a)} {n.cardinal(b)}"
    if not whole and 1 <= a <= 12 and 1 <= b <= 31 and _DATE_BEFORE.search(before):
        return f"{t.MONTHS[a - 1]} {n.ordinal(b)}"
    if b == 0 or len(m[3]) > 3 or a > b:
        said = f"{n.cardinal(a)} over {n.cardinal(b)}"
    elif a == b or b in (10, 100):
        said = f"{n.cardinal(a)} out of {n.cardinal(b)}"
    elif b not in _PARTS:
        said = f"{n.cardinal(a)} slash {n.cardinal(b)}"
    elif whole and a == 1:
        said = f"a {n.fraction(1, b)[4:]}"
    else:
        said = n.fraction(a, b)
    return f"{n.cardinal(whole)} and {said}" if whole else said


def _by(m: re.Match[str], before: str) -> str | None:
    product = re.match(r"\s?=", m.string[m.end() :])
    return (" times " if product else " by ").join(amount(part) for part in m.groups()[:3] if part) + (
        f" {unit_words(m[4], one=False)}" if m[4] else ""
    )


def is_year(text: str) -> bool:
    """Four digits that may be a year."""
    return len(text) == 4 and text.isdecimal() and "1100" <= text <= "2099"


def _plain(m: re.Match[str], before: str) -> str | None:
    text, after = m[1], m.string[m.end() :]
    run = re.sub(r"\.\d+$", "", text)
    if _CODE_BEFORE.search(before) and run.isdecimal() and len(run) > 2 and run == text:
        return n.digits(text)
    if len(text) == 4 and text.isdecimal() and re.search(r"\b[A-Z]{2,}\s$", before):
        return n.year(text)
    if is_year(text) and not _PLURAL.match(after):
        if text >= "1900" and text not in ("2000",):
            return n.year(text)
        if _YEAR_BEFORE.search(before):
            return n.year(text)
    if run == text and text.isdecimal() and len(text) >= 7 and not text.endswith("0000"):
        return n.digits(text)
    return amount(text)


def version(m: re.Match[str], before: str) -> str | None:
    """ "v2.1" -> "version two point one"; an address of four numbers digit by digit."""
    parts = m[2].split(".")
    word = "version " if m[1] and not re.search(r"\bversion\s$", before, re.IGNORECASE) else ""
    address = len(parts) == 4 and max(map(len, parts)) == 3 and not m[1]
    return word + (" dot " if address else " point ").join(
        n.digits(p) if address else n.cardinal(p) for p in parts
    )


def _phone(m: re.Match[str], before: str) -> str | None:
    if sum(c.isdecimal() for c in m[0]) < 7:
        return None
    return ("plus " if m[0][0] == "+" else "") + n.digits(m[0])


AMOUNT_BEFORE = re.compile(rf"\d\s?(?:{_UNIT}|[kKMB]|bn)$")
_MONEY = "|".join(sorted(map(re.escape, (*t.CURRENCIES, "US$", "A$", "C$")), key=len, reverse=True))
PHONE = re.compile(rf"\(\d{{3}}\)\s?\d{{3}}[-. ]\d{{4}}{_NO_WORD}")
MONEY = Rule(
    re.compile(rf"([-−])?({_MONEY})([-−])?\s?({NUM})(?:{_DASH}(?:{_MONEY})?({NUM}))?(?:{_SCALE}|{END})"),
    _sign_first,
)


def _rules() -> list[Rule]:
    table: list[tuple[str, Say]] = [
        (r"(\d{4})-(\d{2})-(\d{2})(?!\d|-)(T(?=\d))?", _iso_date),
        (rf"(\d{{1,2}})(/)(\d{{1,2}})/(\d{{4}}|\d\d){END}", _slash_date),
        (rf"(\d{{1,2}})(\.)(\d{{1,2}})\.(\d{{4}}){END}", _slash_date),
        (rf"(\d{{1,2}})(st|nd|rd|th)?\s({_MONTH}){NOT_WORD}\.?(?:,?\s((?:19|20)\d\d){END})?", _day_month),
        (rf"(\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s((?:1[1-9]|20)\d\d)(?!:)){END}", _month_day),
        (rf"(\d{{1,2}})()(?!:|[-–/]\d|\s?[ap]\.?m\b|\s?%){END}", _month_day),
        (rf"\+\d{{1,3}}(?:[ .-]?\(?\d{{1,4}}\)?){{1,5}}{_NO_WORD}", _phone),
        (PHONE.pattern, _phone),
        (rf"(?:1[-. ])?\d{{3}}([-. ])\d{{3}}\1\d{{4}}{_NO_WORD}", _phone),
        (rf"\d{{3}}[- ]\d{{4}}{_NO_WORD}(?!\s?[%°])", _phone),
        (rf"0\d{{1,4}}(?:[ -]\d{{2,4}}){{1,4}}{_NO_WORD}", _phone),
        (rf"()(\d+(?:\.\d+){{2,}}){END}", version),
        (rf"{_CLOCK}{_AMPM}?{_DASH}{_CLOCK}{_AMPM}?{END}", _time_range),
        (rf"{_CLOCK}{_AMPM}?{END}", _time),
        (MONEY.pattern.pattern, _sign_first),
        (rf"({NUM})\s?({_MONEY}){NOT_WORD}", _sign_last),
        (
            rf"({NUM})(?:{_DASH}({NUM}))?(\s?)({_UNIT})(?:(?<=\w)(/[a-z]+)|\.(?=\s[a-z]))?{NOT_WORD}(?!/\d)",
            _with_unit,
        ),
        (rf"({NUM})\s?[x×]\s?({NUM})(?:\s?[x×]\s?({NUM}))?(?:\s?({_UNIT}){NOT_WORD}|{END})", _by),
        (rf"(\d+):(\d+)(?::\d+)?{END}", lambda m, _: f"{n.cardinal(m[1])} to {n.cardinal(m[2])}"),
        (r"(\d)['’′](\d{1,2})(?![\d.])[\"”″]?", _feet),
        (rf"(\d+(?:-\d+){{2,}}){END}", lambda m, _: n.digits(m[1])),
        (rf"({NUM}){_DASH}({NUM}){END}", _range),
        (rf"({NUM})\s([-−/*])(?=\s{NUM})", _operation),
        (rf"(?:(\d+)\s)?(\d{{1,3}})/(\d{{1,4}})(?!/){END}", _fraction),
        (rf"(\d{{1,3}}(?:,\d{{3}})+|\d+)(?:st|nd|rd|th){NOT_WORD}", lambda m, _: n.ordinal(m[1])),
        (rf"(\d{{4}}|\d{{2}})['’]?s{NOT_WORD}", _decade),
        (rf"(\d+(?:\.\d+)?)(k|K|M|B|bn|tn){NOT_WORD}", _scaled),
        (rf"(\d{{1,3}}(?: \d{{3}})+){_NO_WORD}(?!\s\d)", lambda m, _: n.cardinal(m[1].replace(" ", ""))),
        (rf"({NUM}){END}", _plain),
    ]
    return [Rule(re.compile(pattern), say) for pattern, say in table]


RULES = _rules()
"""In the order in which they are tried."""
