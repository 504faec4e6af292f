"""Which construct of markdown, HTML or code comes next in a text, and what is spoken in its place."""

from __future__ import annotations

from enum import Enum, auto

from rtts.text import markup, runs
from rtts.text.chars import is_cjk, is_word
from rtts.text.markup import MORE, Found
from rtts.text.spoken import Gap, SpokenWriter
from rtts.text.url import UrlReader

MAX_HOLD_CHARS = 256
"""No more source text than this ever waits for what follows."""

_ESCAPED = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_LONG_RUN = 3


class _Mode(Enum):
    TEXT = auto()
    CODE = auto()
    """Between backticks: spoken, but not markup."""
    FENCE = auto()
    URL = auto()
    TARGET = auto()
    """A link's URL, longer than what is held."""
    LINE = auto()
    """Dropped up to the line's end."""
    COMMENT = auto()


class _Line(Enum):
    PLAIN = auto()
    BLOCK = auto()
    """A heading or list item: its end is a stop."""
    HEADING = auto()
    ROW = auto()


class ConstructReader:
    """Reads one construct after another and keeps what one means for the next: the kind of line, an open link."""

    def __init__(self, out: SpokenWriter, code_notice: str) -> None:
        """
        Args:
            out: where pauses and notices go that are no part of a construct's own text.
            code_notice: said in place of every fenced code block; "" is only a pause.
        """
        self._out = out
        self._code_notice = code_notice
        self._before = ""
        self._position = 0
        self._mode = _Mode.TEXT
        self._line = _Line.PLAIN
        self._at_line_start = True
        self._may_be_task = False
        self._emphasised = False
        self._in_link = False
        self._behind_link = False
        self._in_angle = False
        self._fence = ""
        self._url = UrlReader()

    @property
    def in_text(self) -> bool:
        """Within a line, in no construct that has its own rules."""
        return self._mode is _Mode.TEXT and not self._at_line_start

    @property
    def in_block(self) -> bool:
        """In a heading, a list item or a table's row: its end is a stop."""
        return self._line is not _Line.PLAIN

    def read(self, held: str, final: bool, before: str, position: int) -> Found:
        """The next construct, one character at least, or MORE (never when final).

        Args:
            held: the source from here on, as far as it is known.
            final: nothing more will be known of it.
            before: the character before it; "" at the start.
            position: where it begins in the source.
        """
        self._before, self._position = before, position
        if self._mode is _Mode.TEXT:
            found = self._read_line_start(held, final) if self._at_line_start else None
            return found or self._read_inline(held, final)
        if self._mode is _Mode.CODE:
            return self._read_code(held, final)
        if self._mode is _Mode.FENCE:
            return self._read_fence(held, final)
        if self._mode is _Mode.URL:
            return self._read_url(held, final)
        if self._mode is _Mode.TARGET:
            return self._read_long_target(held)
        if self._mode is _Mode.LINE:
            return self._read_dropped_line(held)
        return self._read_comment(held, final)

    # Blocks

    def _read_line_start(self, held: str, final: bool) -> Found | None:
        first = held[0]
        if first == "\n":
            self._line = _Line.PLAIN
            return Found(1, gap=Gap.BLOCK)
        if first.isspace():
            return Found(1)
        if first == ">":
            if len(held) == 1 and not final:
                return MORE
            if held[1:2] != "=":
                return Found(1)
        if first == "~" and (found := self._read_tilde_fence(held, final)):
            return found
        for match, line in (
            (markup.rule, _Line.PLAIN),
            (markup.heading, _Line.HEADING),
            (markup.list_marker, _Line.BLOCK),
            (markup.footnote_label, _Line.BLOCK),
            (markup.link_definition, _Line.PLAIN),
        ):
            found = match(held, final)
            if found is MORE:
                return MORE
            if found:
                self._at_line_start = match is markup.rule
                self._line = line
                self._may_be_task = match is markup.list_marker
                if match is markup.link_definition:
                    self._mode = _Mode.LINE
                return found
        self._at_line_start = False
        if first == "|":
            self._line = _Line.ROW
            return Found(1, gap=Gap.BLOCK)
        return None

    def _read_tilde_fence(self, held: str, final: bool) -> Found | None:
        length = markup.run(held, final)
        if not length:
            return MORE
        if length < _LONG_RUN:
            return None
        self._open_fence(held[:length], length)
        self._mode = _Mode.FENCE
        self._at_line_start = False
        return Found(length, gap=Gap.BLOCK)

    def _open_fence(self, fence: str, length: int) -> None:
        self._fence = fence
        self._mode = _Mode.FENCE
        self._out.gap(Gap.BLOCK)
        if self._code_notice:
            self._out.say(self._code_notice, self._position, self._position + length)

    def _read_fence(self, held: str, final: bool) -> Found:
        if self._at_line_start and (found := markup.fence_end(held, self._fence, final)):
            if found is not MORE:
                self._mode = _Mode.TEXT
                self._line = _Line.PLAIN
                self._at_line_start = False
            return found
        self._at_line_start = held[0] == "\n"
        return Found(1, gap=Gap.BLOCK)

    def _read_dropped_line(self, held: str) -> Found:
        if held[0] != "\n":
            return Found(1)
        self._mode = _Mode.TEXT
        return self._read_newline()

    def _read_newline(self) -> Found:
        gap = Gap.LINE if self._line is _Line.PLAIN else Gap.BLOCK
        self._line = _Line.PLAIN
        self._at_line_start = True
        self._emphasised = self._in_link = self._behind_link = self._in_angle = False
        return Found(1, gap=gap)

    def _read_comment(self, held: str, final: bool) -> Found:
        if held.startswith("-->"):
            self._mode = _Mode.TEXT
            return Found(3, gap=Gap.SEAM)
        return MORE if not final and "-->".startswith(held) else Found(1)

    # Within a line

    def _read_inline(self, held: str, final: bool) -> Found:
        first = held[0]
        behind_link, self._behind_link = self._behind_link, False
        may_be_task, self._may_be_task = self._may_be_task, self._may_be_task and first in " \t["
        found: Found | None = None
        if first.isalnum():
            found = self._read_url_start(held, final)
        elif first == "\n":
            return self._read_newline()
        elif first == "\\":
            found = self._read_escape(held, final)
        elif first == "`":
            found = self._read_backticks(held, final)
        elif first in "*_":
            found = self._read_emphasis(held, final)
        elif first == "-":
            found = runs.dashes(held, final, self._before)
        elif first in runs.SYMBOLS:
            found = runs.symbols(held, final, self._before, in_heading=self._line is _Line.HEADING)
        elif first in "[【":
            found = self._read_bracket(held, final, behind_link, may_be_task)
        elif first == "]":
            self._behind_link = self._in_link
            found = Found(1, gap=Gap.SEAM)
        elif first == "(" and behind_link:
            found = self._read_target(held, final)
        elif first == "!" and not is_word(self._before):
            found = self._read_image(held, final)
        elif first == "<":
            found = self._read_angle(held, final)
        elif first == ">" and self._in_angle:
            self._in_angle = False
            found = Found(1)
        elif first == "&":
            found = markup.entity(held, final)
        elif first == "|" and self._line is _Line.ROW:
            found = Found(1, gap=Gap.CELL)
        if found is MORE:
            self._behind_link, self._may_be_task = behind_link, may_be_task
        return found or Found(1, first)

    def _read_code(self, held: str, final: bool) -> Found:
        first = held[0]
        if first == "\n":
            self._mode = _Mode.TEXT
            return self._read_newline()
        if first == "`":
            length = markup.run(held, final)
            if length:
                self._mode = _Mode.TEXT
            return Found(length) if length else MORE
        return Found(1, gap=Gap.SEAM) if first == "_" else Found(1, first)

    def _read_backticks(self, held: str, final: bool) -> Found:
        found = markup.fence(held, final)
        if found is MORE:
            return MORE
        if found:
            self._open_fence(found.text, found.length)
            self._at_line_start = True
            return Found(found.length, gap=Gap.BLOCK)
        length = markup.run(held, final)
        if not length:
            return MORE
        self._mode = _Mode.CODE
        return Found(length, gap=Gap.SEAM)

    def _read_escape(self, held: str, final: bool) -> Found | None:
        if len(held) == 1:
            return None if final else MORE
        if held[1] in _ESCAPED:
            return Found(2, held[1])
        return Found(1) if held[1] == "\n" else None

    def _read_emphasis(self, held: str, final: bool) -> Found:
        found, self._emphasised = runs.emphasis(held, final, self._before, self._emphasised)
        return found

    def _read_bracket(self, held: str, final: bool, behind_link: bool, may_be_task: bool) -> Found | None:
        if may_be_task and (found := markup.task_box(held, final)):
            return found
        if found := markup.note_mark(held, final):
            self._behind_link = found is not MORE
            return found
        if held[0] == "【":
            return None
        if behind_link:
            return markup.reference(held, final) or Found(1, gap=Gap.SEAM)
        self._in_link = not is_word(self._before) or is_cjk(self._before)
        return Found(1, gap=Gap.SEAM)

    def _read_target(self, held: str, final: bool) -> Found | None:
        found = markup.link_target(held, final)
        if found is None and len(held) >= MAX_HOLD_CHARS and not any(map(str.isspace, held)):
            self._mode = _Mode.TARGET
            return Found(len(held))
        return found

    def _read_long_target(self, held: str) -> Found:
        if held[0] == ")" or held[0].isspace():
            self._mode = _Mode.TEXT
            if held[0] != ")":
                return self._read_inline(held, final=True)
        return Found(1)

    def _read_image(self, held: str, final: bool) -> Found | None:
        if len(held) == 1:
            return None if final else MORE
        return Found(1, gap=Gap.SEAM) if held[1] == "[" else None

    def _read_angle(self, held: str, final: bool) -> Found | None:
        if held.startswith("<!--"):
            self._mode = _Mode.COMMENT
            return Found(4)
        if not final and "<!--".startswith(held):
            return MORE
        url = markup.url_start(held[1:], final) if held[1:] else None
        if url is MORE:
            return MORE
        if url:
            self._in_angle = True
            return Found(1)
        found = markup.mail(held, final)
        if found and found is not MORE:
            self._in_angle = True
        return found or markup.tag(held, final)

    # URLs

    def _read_url_start(self, held: str, final: bool) -> Found | None:
        if is_word(self._before) and not is_cjk(self._before):
            return None
        found = markup.url_start(held, final)
        if found and found is not MORE:
            self._mode = _Mode.URL
            self._url = UrlReader()
        return found

    def _read_url(self, held: str, final: bool) -> Found:
        found = self._url.read(held, final)
        if found:
            return found
        self._mode = _Mode.TEXT
        return self._read_inline(held, final)
