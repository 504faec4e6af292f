"""What becomes of numbers, signs and abbreviations, however the text arrives, and where the words came from."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts.errors import RequestError, TextError
from rtts.text import Cleaner, CleanText, SourceMap, Verbaliser, verbalise
from rtts.text.english import numbers
from rtts.text.verbalise import MAX_HOLD_CHARS

LINES = (Path(__file__).parent / "spoken_english.tsv").read_text(encoding="utf-8").splitlines()
TABLE = [(text, words) for text, _, words in (line.partition("\t") for line in LINES)]
SENTENCES = [text for text, _ in TABLE if len(text) > 40]
READ = set(string.ascii_letters + " ,.;:!?'-\n\t\r\x0b\x0c")
"""What a model that was trained on words has seen."""
PARTS = sorted({part for text, _ in TABLE for part in re.findall(r"\S+|\s", text)})
SOURCE = st.one_of(
    st.lists(st.one_of(st.sampled_from(PARTS), st.sampled_from([" ", "\n", "  "])), max_size=12).map("".join),
    st.text(st.sampled_from(string.printable), max_size=40),
    st.text(max_size=20),
)


def run(parts: list[str], *, clean: bool = False) -> list[CleanText]:
    cleaner, verbaliser = Cleaner(), Verbaliser()
    pieces: list[CleanText] = []
    position = 0
    for part in parts:
        whole = [CleanText(part, position, position + len(part))] if part else []
        pieces += verbaliser.feed(cleaner.feed(part) if clean else whole)
        assert len(verbaliser.held) <= MAX_HOLD_CHARS
        position += len(part)
    if clean:
        pieces += verbaliser.feed(cleaner.close())
    return pieces + verbaliser.close()


def said(pieces: list[CleanText]) -> str:
    return "".join(piece.text for piece in pieces)


def check_tiles(pieces: list[CleanText], length: int) -> None:
    position = 0
    for piece in pieces:
        assert piece.source_start == position
        assert piece.source_end >= position
        position = piece.source_end
    assert position == length


def test_the_table_is_large() -> None:
    assert len({text for text, _ in TABLE}) >= 150


@pytest.mark.parametrize(("text", "words"), TABLE, ids=[text for text, _ in TABLE])
def test_table(text: str, words: str) -> None:
    assert verbalise(text) == words


@pytest.mark.parametrize(("text", "words"), TABLE, ids=[text for text, _ in TABLE])
def test_table_at_every_split(text: str, words: str) -> None:
    for i in range(len(text) + 1):
        pieces = run([text[:i], text[i:]])
        assert said(pieces) == words
        check_tiles(pieces, len(text))
    assert said(run(list(text))) == words


@pytest.mark.parametrize("text", SENTENCES)
def test_behind_the_cleaner_at_every_split(text: str) -> None:
    words = said(run([text], clean=True))
    for i in range(len(text) + 1):
        pieces = run([text[:i], text[i:]], clean=True)
        assert said(pieces) == words
        check_tiles(pieces, len(text))


@pytest.mark.parametrize(("text", "words"), TABLE, ids=[text for text, _ in TABLE])
def test_what_was_written_out_is_words(text: str, words: str) -> None:
    assert set(words) - set("你好") <= READ
    assert verbalise(words).lower() == words.lower(), "words stay as they are"


@given(SOURCE, st.data())
@settings(max_examples=400, deadline=None)
def test_splits_do_not_matter_and_pieces_tile(text: str, data: st.DataObject) -> None:
    clean = data.draw(st.booleans())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, split = run([text], clean=clean), run(parts, clean=clean)
    assert said(whole) == said(split)
    check_tiles(split, len(text))


@given(st.text(st.sampled_from(string.printable), max_size=60))
@settings(max_examples=400, deadline=None)
def test_ascii_becomes_words(text: str) -> None:
    assert set(verbalise(text)) <= READ


def test_a_replaced_stretch_stands_for_its_source() -> None:
    source = "It costs **$3.50**, ok?"
    mapping = SourceMap()
    mapping.add(run([source], clean=True))
    spoken = "It costs three dollars and fifty cents, ok?"
    start = spoken.index("three")
    end = spoken.index(",")
    assert source[: mapping.source_end(start)] == "It costs **"
    for position in range(start + 1, end):
        assert mapping.source_end(position) == source.index("$"), "not heard before it is spoken whole"
    assert source[: mapping.source_end(end)] == "It costs **$3.50**"


@pytest.mark.parametrize(
    ("held", "follows", "words"),
    [
        ("It is 5", "0 km.", "It is fifty kilo meters."),
        ("It is 5", " km.", "It is five kilo meters."),
        ("It is 5", ".", "It is five."),
        ("It is 5", " to.", "It is five to."),
        ("$3", ".50", "Three dollars and fifty cents"),
        ("$3", " million", "Three million dollars"),
        ("At 10", ":30 am", "At ten thirty ay em"),
        ("Dr", ". Smith", "Doctor Smith"),
        ("Dr", "ink", "Drink"),
        ("November 30", ", 2026", "November thirtieth, twenty twenty-six"),
        ("the API", "s", "the ay pee eyes"),
    ],
)
def test_what_may_go_on_waits(held: str, follows: str, words: str) -> None:
    verbaliser = Verbaliser()
    first = verbaliser.feed([CleanText(held, 0, len(held))])
    assert held.endswith(verbaliser.held)
    assert verbaliser.held
    rest = verbaliser.feed([CleanText(follows, len(held), len(held + follows))])
    assert said([*first, *rest, *verbaliser.close()]) == words


@pytest.mark.parametrize("text", ["Hello", "Hello wor", "It is 25 apples so", "Sure! Let", "Yes, November"])
def test_words_do_not_wait(text: str) -> None:
    verbaliser = Verbaliser()
    verbaliser.feed([CleanText(text, 0, len(text))])
    assert verbaliser.held == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Title\n\nText", "Title.\n\nText"),
        ("red\nblue", "red, blue"),
        ("Done.\n2. Next\n3) Last", "Done.\nTwo, Next, three, Last"),
        ("5\nkm", "Five, kilo meters"),
    ],
)
def test_lines(text: str, words: str) -> None:
    assert verbalise(text) == words


def test_flush_decides_and_goes_on() -> None:
    verbaliser = Verbaliser()
    first = said(verbaliser.feed([CleanText("I have 2", 0, 8)]) + verbaliser.flush())
    assert first == "I have two"
    rest = verbaliser.feed([CleanText(" and 5", 8, 14)]) + verbaliser.close()
    assert said(rest) == " and five"
    with pytest.raises(RequestError, match="closed"):
        verbaliser.feed([])


@pytest.mark.parametrize("text", ["1" * 5000, "a" * 5000, "A" * 5000, "." * 5000, "1 " * 3000, "(" * 3000])
def test_long_runs(text: str) -> None:
    check_tiles(run([text]), len(text))


@pytest.mark.parametrize("text", [None, 5, "\ud800"])
def test_what_is_no_text(text: str) -> None:
    with pytest.raises(TextError, match="text"):
        verbalise(text)


ONES = {numbers.cardinal(i): i for i in range(20)} | {numbers.cardinal(i): i for i in range(20, 100, 10)}


def parse(words: str) -> int:
    """A numeral back into a number, by the grammar of English numerals."""
    total = group = 0
    for word in words.replace("-", " ").split():
        if word == "hundred":
            group *= 100
        elif word in ("thousand", "million", "billion", "trillion", "quadrillion"):
            scale = 1000 ** (1 + ["thousand", "million", "billion", "trillion", "quadrillion"].index(word))
            total, group = total + group * scale, 0
        else:
            group += ONES[word]
    return total + group


@given(st.integers(0, 10**18 - 1))
@settings(deadline=None)
def test_cardinals_say_the_number(number: int) -> None:
    assert parse(numbers.cardinal(number)) == number
    assert parse(numbers.cardinal(f"{number:,}")) == number


def test_small_numerals() -> None:
    names = [
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
    ]
    assert [numbers.cardinal(i) for i in range(15)] == names
    assert [numbers.ordinal(i) for i in (1, 2, 3, 8, 9, 12, 20, 21, 100)] == [
        "first", "second", "third", "eighth", "ninth", "twelfth", "twentieth", "twenty-first", "one hundredth",
    ]  # fmt: skip
    assert numbers.cardinal(10**18) == "one" + " zero" * 18


def test_roman_numerals_are_canonical() -> None:
    assert [numbers.roman(text) for text in ("I", "IV", "IX", "XIV", "XL", "XC", "CX")] == [
        1,
        4,
        9,
        14,
        40,
        90,
        110,
    ]
    assert [numbers.roman(text) for text in ("IIII", "VX", "IC", "MD", "ABC")] == [None] * 5
