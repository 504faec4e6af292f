"""Incremental ids are the ids of the whole text, whatever the parts; and they come soon."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtts_engine.errors import RequestError, TextError
from rtts_engine.text_stream import IncrementalTokenizer
from rtts_engine.tokenizer import Piece, SplitRule, Tokenizer
from tests.engine.text_corpus import CRAFTED, random_parts, random_texts

TINY = Path(__file__).parent / "data" / "tiny_tokenizer"
SPLITS: tuple[SplitRule, ...] = ("qwen2", "mistral")
TOKENIZERS = {split: Tokenizer.from_dir(TINY, split=split) for split in SPLITS}

splits = pytest.mark.parametrize("split", SPLITS)


def check_stream(split: SplitRule, parts: list[str]) -> None:
    """Every released id is final, and all of them are the ids of the whole text."""
    final = TOKENIZERS[split].encode_spoken("".join(parts))
    stream = IncrementalTokenizer(TOKENIZERS[split])
    ids: list[int] = []
    for part in parts:
        ids += stream.feed(part)
        assert ids == final[: len(ids)], f"{parts!r} up to {part!r}"
    assert ids + stream.close() == final, repr(parts)
    assert stream.held_chars == 0


# What each part of the rule is for: without it, the ids of one of these texts change after they were released.
HARD = (
    "a  b",
    "a \n  \n b",
    "can't we've",
    "xか\u3099は\u309a",
    "本本か\u3099",
    "e\u0345\u0301",
    "1\u0345\u0301 q\u0323\u0307",
    "日本Ab",
    "日本カABCd",
    "d日Az",
    "Xのaの日Ab",
    "日,日本のAか",
    "\u1100\u1161\u11a8",
    "\u09c7\u09be",
    "<|im_end|>x",
)


@splits
@pytest.mark.parametrize("text", [*HARD, *CRAFTED], ids=ascii)
def test_one_character_at_a_time(split: SplitRule, text: str) -> None:
    check_stream(split, list(text))


@splits
@given(parts=st.lists(st.text("日本のカー가é aAbBcC.,'\u0301\u3099\u09be1\n", max_size=6), max_size=12))
@example(parts=["日本", "カA", "b"])
@settings(max_examples=300)
def test_any_parts_of_few_characters(split: SplitRule, parts: list[str]) -> None:
    check_stream(split, parts)


@splits
@given(parts=st.lists(st.text(max_size=8), max_size=8))
def test_any_parts_of_all_characters(split: SplitRule, parts: list[str]) -> None:
    check_stream(split, parts)


@splits
def test_random_texts_in_random_parts(split: SplitRule) -> None:
    rng = random.Random(1)
    for text in random_texts(2, 1500):
        check_stream(split, random_parts(rng, text))


@splits
def test_a_word_is_released_when_the_next_begins(split: SplitRule) -> None:
    tokenizer = TOKENIZERS[split]
    stream = IncrementalTokenizer(tokenizer)
    assert stream.feed("Hel") == []
    assert stream.feed("lo") == []
    assert stream.held_chars == 5
    assert stream.feed(" wo") == tokenizer.encode_spoken("Hello")
    assert stream.feed("rld.") == tokenizer.encode(" world")
    assert stream.close() == tokenizer.encode(".")


@splits
def test_unspaced_script_is_released_before_the_next_punctuation(split: SplitRule) -> None:
    """At most a few characters are held at any time, however long the run is."""
    stream = IncrementalTokenizer(TOKENIZERS[split])
    text = "日本の日本カー日のカ本日本" * 20
    held = []
    for character in text:
        stream.feed(character)
        held.append(stream.held_chars)
    assert max(held) <= 8


@splits
def test_whitespace_around_the_utterance_goes(split: SplitRule) -> None:
    tokenizer = TOKENIZERS[split]
    stream = IncrementalTokenizer(tokenizer)
    assert stream.feed(" ") == []
    assert stream.feed("\n\u3000\t") == []
    assert stream.held_chars == 0
    assert stream.feed("\nhi  there ") + stream.close() == tokenizer.encode("hi  there")


def test_empty_stream() -> None:
    stream = IncrementalTokenizer(TOKENIZERS["qwen2"])
    assert stream.feed("") == []
    assert stream.flush() == []
    assert stream.close() == []


@splits
def test_flush_releases_all_and_text_goes_on(split: SplitRule) -> None:
    tokenizer = TOKENIZERS[split]
    stream = IncrementalTokenizer(tokenizer)
    assert stream.feed("tomor") == []
    assert stream.flush() == tokenizer.encode("tomor")
    assert stream.held_chars == 0
    assert stream.flush() == []
    assert stream.feed("row") == []
    assert stream.feed(" \n") == tokenizer.encode("row")
    assert stream.flush() == tokenizer.encode(" \n")
    assert stream.feed("\n") == []
    assert stream.feed("x") == tokenizer.encode("\n")  # only the start of the utterance is stripped
    assert stream.close() == tokenizer.encode("x")


def test_closed_stream_refuses() -> None:
    stream = IncrementalTokenizer(TOKENIZERS["qwen2"])
    stream.close()
    with pytest.raises(RequestError, match="closed"):
        stream.feed("x")
    with pytest.raises(RequestError, match="closed"):
        stream.flush()
    with pytest.raises(RequestError, match="closed"):
        stream.close()


def test_lone_surrogate_leaves_the_stream_as_it_was() -> None:
    tokenizer = TOKENIZERS["qwen2"]
    stream = IncrementalTokenizer(tokenizer)
    ids = stream.feed("good ")
    with pytest.raises(TextError, match=r"U\+DC00"):
        stream.feed("bad \udc00")
    assert ids + stream.feed("text") + stream.close() == tokenizer.encode("good text")


class CountingTokenizer(Tokenizer):
    """Counts the characters that are split."""

    n_chars = 0

    def split(self, text: str) -> list[Piece]:
        self.n_chars += len(text)
        return super().split(text)


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        ("word, ", 8),
        ("a", 8),
        (" ", 8),
        ("\n", 8),
        ("!", 8),
        ("日", 8),
        ("x\u0301", 8),
        ("aB", 8),
        ("1", 3),
        ("😀", 8),
    ],
    ids=ascii,
)
@splits
def test_work_is_linear(split: SplitRule, unit: str, most: int) -> None:
    """Character by character, each is looked at a bounded number of times, but for the 256 that may always be held."""
    tokenizer = CountingTokenizer.from_dir(TINY, split=split)
    assert isinstance(tokenizer, CountingTokenizer)
    stream = IncrementalTokenizer(tokenizer)
    text = "x" + unit * 4000
    for character in text:
        stream.feed(character)
    stream.close()
    assert tokenizer.n_chars <= most * len(text) + 2 * 256 * 256
