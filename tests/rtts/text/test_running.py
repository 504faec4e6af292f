"""Where running text is cut into utterances: whatever the split, never too long, at the best place."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rtts.text.running import RunningText

SENTENCE = "The quick brown fox jumps over the lazy dog. "


def utterances(pieces: list[str], max_chars: int = 40) -> list[str]:
    """What each utterance is, the pieces being fed one after the other."""
    running = RunningText("en", max_chars)
    found = [""]
    for piece in pieces:
        for segment in running.feed(piece):
            found[-1] += segment.text
            if not segment.open:
                found.append("")
    return [text for text in found if text]


def test_short_sentences_share_an_utterance() -> None:
    assert utterances([SENTENCE * 4], 200) == [SENTENCE * 3, SENTENCE]


def test_text_goes_out_as_it_comes() -> None:
    running = RunningText("en", 200)
    for character in SENTENCE:
        (segment,) = running.feed(character)
        assert (segment.text, segment.open) == (character, True)


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    text = "we went out to the old harbour, and sat there until the evening came"
    assert utterances([text]) == [text[:32], text[32:]]


def test_a_sentence_without_clauses_is_cut_between_words() -> None:
    text = "word " * 30
    assert utterances([text]) == ["word " * 8] * 3 + ["word " * 6]


def test_no_word_is_cut_unless_it_never_ends() -> None:
    assert utterances(["x" * 200]) == ["x" * 80, "x" * 80, "x" * 40]


def test_cjk_counts_twice_and_needs_no_space() -> None:
    text = "今天天气很好。" * 6
    assert utterances([text]) == ["今天天气很好。" * 2] * 3


def test_abbreviations_and_decimals_are_no_ends() -> None:
    text = "It was a long way up the hill to the house where Dr. Smith lives, 3.5 miles. Then home."
    assert utterances([text], 100) == [text[:77], text[77:]]


def test_cut_starts_a_new_utterance() -> None:
    cut, not_cut = RunningText("en", 40), RunningText("en", 40)
    for running in (cut, not_cut):
        running.feed("It has been said already. ")
    cut.cut()
    assert [segment.open for segment in cut.feed("So it goes.")] == [True]
    assert [segment.open for segment in not_cut.feed("So it goes.")] == [False, True]


@given(
    st.text("aB ,.!?\n1。天,“”e\u0301", max_size=300),
    st.lists(st.integers(0, 300), max_size=8),
)
def test_splits_do_not_matter_and_nothing_is_lost(text: str, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(bounds)]
    whole = utterances([text])
    assert utterances(pieces) == whole
    assert "".join(whole) == text
    assert all(len(each) <= 81 for each in whole)


@given(st.text("ab ,.", max_size=200))
def test_positions_tile_the_text(text: str) -> None:
    running = RunningText("en", 40)
    at = 0
    for character in text:
        for segment in running.feed(character):
            assert segment.start == at
            at = segment.end
    assert at == len(text)
