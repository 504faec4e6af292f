"""English numerals in words. Digits in, lower-case words out; nothing here looks at context."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


_ONES = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_TENS = _words("zero ten twenty thirty forty fifty sixty seventy eighty ninety")
_SCALES = ["", " thousand", " million", " billion", " trillion", " quadrillion"]
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_LETTER_NAMES = _words(
    "ay bee see dee ee eff jee aitch eye jay kay ell em en oh pee cue are ess tee you vee double-you ex why zee"
)
_LETTERS = dict(zip("abcdefghijklmnopqrstuvwxyz", _LETTER_NAMES, strict=True))
_LARGEST = 10 ** (3 * len(_SCALES)) - 1
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def cardinal(number: int | str) -> str:
    """25 -> "twenty-five"; beyond quadrillions, and with leading zeros, digit by digit."""
    text = str(number).replace(",", "")
    n = int(text)
    if n > _LARGEST or (len(text) > 1 and text[0] == "0"):
        return digits(text)
    if n < 1000:
        return _below_thousand(n)
    words: list[str] = []
    for scale in _SCALES:
        n, group = divmod(n, 1000)
        if group:
            words.insert(0, _below_thousand(group) + scale)
    return " ".join(words)


def _below_thousand(n: int) -> str:
    if n < 20:
        return _ONES[n]
    if n < 100:
        tens, ones = divmod(n, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    hundreds, rest = divmod(n, 100)
    return f"{_ONES[hundreds]} hundred" + (f" {_below_thousand(rest)}" if rest else "")


def ordinal(number: int | str) -> str:
    """23 -> "twenty-third"."""
    words = cardinal(int(str(number).replace(",", "")))
    start = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[start:]
    if last.endswith("y"):
        return words[:start] + last[:-1] + "ieth"
    return words[:start] + _ORDINALS.get(last, f"{last}th")


def digits(text: str) -> str:
    """ "0451" -> "zero four five one"; whatever is no digit parts groups with a comma."""
    groups = "".join(c if c.isdecimal() else " " for c in text).split()
    return ", ".join(" ".join(_ONES[int(c)] for c in group) for group in groups)


def decimal(text: str) -> str:
    """ "1,234.50" -> "one thousand two hundred thirty-four point five zero"; without a point, the cardinal."""
    whole, point, fraction = text.partition(".")
    words = cardinal(whole) if whole else ""
    return f"{words} point {digits(fraction)}".strip() if point and fraction else words


def year(number: int | str) -> str:
    """1984 -> "nineteen eighty-four", 2005 -> "two thousand five", 1905 -> "nineteen oh five"."""
    n = int(number)
    century, rest = divmod(n, 100)
    if n % 1000 < 10 or n < 1000:
        return cardinal(n)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {f'oh {cardinal(rest)}' if rest < 10 else cardinal(rest)}"


def decade(number: int | str) -> str:
    """1990 -> "nineteen nineties", 80 -> "eighties"."""
    words = year(number) if int(number) >= 100 else cardinal(number)
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def fraction(numerator: int, denominator: int) -> str:
    """3, 4 -> "three quarters"; 1, 2 -> "one half"."""
    part = {2: "half", 4: "quarter"}.get(denominator) or ordinal(denominator)
    if numerator != 1:
        part = "halves" if denominator == 2 else f"{part}s"
    return f"{cardinal(numerator)} {part}"


def letters(text: str) -> str:
    """ "API" -> "ay pee eye": names of letters as words, because single letters are no words."""
    return " ".join(_LETTERS[c] for c in text.lower() if c in _LETTERS)


def roman(text: str) -> int | None:
    """ "XIV" -> 14; None for what is not written the canonical way."""
    total = 0
    for i, c in enumerate(text):
        value = _ROMAN.get(c)
        if value is None:
            return None
        total += -value if i + 1 < len(text) and _ROMAN.get(text[i + 1], 0) > value else value
    return total if _to_roman(total) == text else None


def _to_roman(n: int) -> str:
    parts = (
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    )
    text = ""
    for value, letter in parts:
        count, n = divmod(n, value)
        text += letter * count
    return text
