"""Recognises markup at the start of a text that may still go on.

Every function looks at ``held`` (text from a possible construct on) and says what is certain: a ``Found`` construct,
``MORE`` when what follows decides, or None when this is no such construct. With ``final`` nothing more is waited for.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rtts.text.spoken import Gap


@dataclass(frozen=True, slots=True)
class Found:
    """A construct of ``length`` source characters that is spoken as ``text``."""

    length: int
    text: str = ""
    gap: Gap = Gap.NONE


MORE = Found(0)

_RULE = re.compile(r"([-*_=])(?:[ \t]*\1){2,}[ \t\r]*")
_RULE_START = re.compile(r"([-*_=])(?:[ \t]*\1)*[ \t\r]*")
_TABLE_RULE = re.compile(r"(?=[^|]*\|)[-:| \t\r]+")
_TABLE_RULE_START = re.compile(r"[-:| \t\r]+")
_HEADING = re.compile(r"#{1,6}(?=[ \t])")
_BULLETS = "-*+•‣◦▪●"
_NUMBER = re.compile(r"\d{1,3}[.)](?=[ \t])")
_NUMBER_START = re.compile(r"\d{1,3}[.)]?")
_LABEL = re.compile(r"\[(\^?)[^\]\s]{1,32}\]:[ \t]+")
_LABEL_START = re.compile(r"\[(?:\^?[^\]\s]{0,32}(?:\](?::[ \t]*)?)?)?")
_TARGETS = ("http://", "https://", "www.", "<", "/", "#", "./")

_FENCE = re.compile(r"(`{3,})[^`\n]*\n")
_FENCE_START = re.compile(r"`{3,}[^`\n]{0,64}")
_NOTE = re.compile(r"\[(?:\^[^\]\s]{1,32}|[1-9]\d{0,2}(?: ?[,–-] ?\d{1,3}){0,8})\]")
_NOTE_START = re.compile(r"\[(?:\^[^\]\s]{0,32}|[1-9]\d{0,2}[\d,– -]{0,40})?")
_CITATION = re.compile(r"【\d+(?:[:†][^】\n]{0,40})?】")
_CITATION_START = re.compile(r"【(?:\d{1,6}(?:[:†][^】\n]{0,40})?)?")
_TASK = re.compile(r"\[[ xX]\](?=[ \t])")
_TASK_START = re.compile(r"\[(?:[ xX]\]?)?")
_REFERENCE = re.compile(r"\[[^\]\n]{0,64}\]")
_REFERENCE_START = re.compile(r"\[[^\]\n]{0,64}")
_TARGET = re.compile(
    r"\(\s*(?:<[^<>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)))?\s*\)"
)
_TARGET_START = re.compile(
    r"\(\s*(?:<[^<>\n]*>?|[^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*(?:\([^\s()]*)?)"
    r"(?:\s+(?:\"[^\"\n]*\"?|'[^'\n]*'?|\([^()\n]*\)?)?)?\s*"
)
_TAG = re.compile(
    r"</?([A-Za-z][A-Za-z0-9-]*)(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=]+))*\s*/?>"
)
_TAG_START = re.compile(
    r"</?(?:[A-Za-z][A-Za-z0-9-]*(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'|[^\s\"'<>=]+))*"
    r"(?:\s+(?:[\w:-]+\s*(?:=\s*(?:\"[^\"<]*|'[^'<]*|[^\s\"'<>=]*)?)?)?|\s*/)?)?"
)
_MAIL = re.compile(r"<[\w.+-]+@[\w.-]+>")
_MAIL_START = re.compile(r"<[\w.+-]+(?:@[\w.-]*)?")
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_ENTITY_START = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{0,31}|#\d{0,7}|#[xX][0-9A-Fa-f]{0,6})?")


def _names(text: str) -> list[str]:
    return text.split()


_INLINE_TAGS = frozenset(
    _names(
        "a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp small span strike strong"
        " sub sup time tt u var wbr"
    )
)
_BLOCK_TAGS = _names(
    "address article aside blockquote center dd details div dl dt footer form h1 h2 h3 h4 h5 h6 header hr li main nav"
    " ol p pre section summary table tbody tfoot thead tr ul"
)
_TAG_GAPS = {"br": Gap.LINE, "td": Gap.CELL, "th": Gap.CELL} | dict.fromkeys(_BLOCK_TAGS, Gap.BLOCK)
_URLS = ("http://www.", "https://www.", "http://", "https://", "www.")


def rule(held: str, final: bool) -> Found | None:
    """A horizontal rule, the underline of a heading, or the rule under a table's head, without its line break."""
    line, broken, _ = held.partition("\n")
    if broken or final:
        if _RULE.fullmatch(line) or (_TABLE_RULE.fullmatch(line) and "-" in line):
            return Found(len(line), gap=Gap.BLOCK)
        return None
    return MORE if _RULE_START.fullmatch(held) or _TABLE_RULE_START.fullmatch(held) else None


def heading(held: str, final: bool) -> Found | None:
    if found := _HEADING.match(held):
        return Found(found.end(), gap=Gap.BLOCK)
    return MORE if not final and len(held) <= 6 and not held.strip("#") else None


def list_marker(held: str, final: bool) -> Found | None:
    """A bullet, which is not spoken, or a number, which is."""
    if held[0] in _BULLETS:
        if len(held) > 1:
            return Found(1, gap=Gap.BLOCK) if held[1] in " \t" else None
        return None if final else MORE
    if found := _NUMBER.match(held):
        return Found(found.end(), found[0], Gap.BLOCK)
    return MORE if not final and _NUMBER_START.fullmatch(held) else None


def task_box(held: str, final: bool) -> Found | None:
    """``[ ]`` or ``[x]`` behind a bullet."""
    if found := _TASK.match(held):
        return Found(found.end())
    return MORE if not final and (_TASK_START.fullmatch(held)) else None


def footnote_label(held: str, final: bool) -> Found | None:
    """``[^1]:`` in front of a footnote's text."""
    found = _LABEL.match(held)
    if found:
        return Found(found.end(), gap=Gap.BLOCK) if found[1] else None
    return MORE if not final and _LABEL_START.fullmatch(held) else None


def link_definition(held: str, final: bool) -> Found | None:
    """``[1]: https://...``, up to the target."""
    found = _LABEL.match(held)
    if not found:
        return MORE if not final and _LABEL_START.fullmatch(held) else None
    rest = held[found.end() :].lower()
    if rest.startswith(_TARGETS):
        return Found(found.end(), gap=Gap.BLOCK)
    return MORE if not final and _is_start(rest, _TARGETS) else None


def fence(held: str, final: bool) -> Found | None:
    """Opening line of a code block, its line break included; ``text`` is the fence. May stand behind text."""
    if found := _FENCE.match(held):
        return Found(found.end(), found[1])
    return MORE if not final and (_FENCE_START.fullmatch(held)) else None


def fence_end(held: str, marker: str, final: bool) -> Found | None:
    """A line that closes the code block opened with ``marker``, without its line break. ``held`` starts a line."""
    line, broken, _ = held.partition("\n")
    fence_line = line.strip(" \t\r")
    closes = fence_line.startswith(marker) and not fence_line.strip(marker[0])
    if broken or final:
        return Found(len(line), gap=Gap.BLOCK) if closes else None
    return MORE if closes or marker.startswith(fence_line) else None


def note_mark(held: str, final: bool) -> Found | None:
    """A footnote or citation mark: ``[^1]``, ``[2, 3]``, ``【4†source】``."""
    full, start = (_CITATION, _CITATION_START) if held[0] == "【" else (_NOTE, _NOTE_START)
    if found := full.match(held):
        return Found(found.end(), gap=Gap.SEAM)
    return MORE if not final and start.fullmatch(held) else None


def link_target(held: str, final: bool) -> Found | None:
    """``(url "title")`` behind a link's text."""
    if found := _TARGET.match(held):
        return Found(found.end(), gap=Gap.SEAM)
    return MORE if not final and _TARGET_START.fullmatch(held) else None


def reference(held: str, final: bool) -> Found | None:
    """``[label]`` behind a link's text."""
    if found := _REFERENCE.match(held):
        return Found(found.end(), gap=Gap.SEAM)
    return MORE if not final and _REFERENCE_START.fullmatch(held) else None


def tag(held: str, final: bool) -> Found | None:
    """An HTML tag: a line break, the end of a block or cell, or nothing."""
    if found := _TAG.match(held):
        name = found[1].lower()
        return Found(found.end(), gap=_TAG_GAPS.get(name, Gap.NONE if name in _INLINE_TAGS else Gap.SEAM))
    return MORE if not final and _TAG_START.fullmatch(held) else None


def mail(held: str, final: bool) -> Found | None:
    """The bracket before an e-mail address in angle brackets."""
    if _MAIL.match(held):
        return Found(1)
    return MORE if not final and _MAIL_START.fullmatch(held) else None


def entity(held: str, final: bool) -> Found | None:
    """A character reference; unknown ones are no markup."""
    if found := _ENTITY.match(held):
        text = html.unescape(found[0])
        return Found(found.end(), text) if text != found[0] else None
    return MORE if not final and _ENTITY_START.fullmatch(held) else None


def url_start(held: str, final: bool) -> Found | None:
    """What stands before the domain: scheme and ``www.``."""
    start = held.lower()
    if not final and _is_start(start, _URLS):
        return MORE
    return next((Found(len(prefix)) for prefix in _URLS if start.startswith(prefix)), None)


def run(held: str, final: bool) -> int:
    """Length of the run of the first character; 0 while the run may go on."""
    length = len(held) - len(held.lstrip(held[0]))
    return length if final or length < len(held) else 0


def _is_start(text: str, options: Iterable[str]) -> bool:
    """Whether ``text`` may still become one of the options (or a longer one than it already is)."""
    return any(option.startswith(text) and option != text for option in options)
