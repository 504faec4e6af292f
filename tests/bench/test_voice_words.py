"""The evaluation's counts: words, characters, rates with intervals, endings."""

from __future__ import annotations

import random

import pytest

from bench.voice import endings, rates
from bench.voice.recipe import KINDS, character_errors, errors, sentences


@pytest.mark.parametrize(
    ("text", "heard", "wrong", "words"),
    [
        ("Glue the sheet to the dark blue background.", "glue the sheet to the dark blue background", 0, 8),
        ("The birch canoe slid.", "The birch canow slid.", 1, 4),
        ("It is ten past nine.", "It is 10 past 9", 0, 5),
        ("It costs two hundred and five dollars.", "It costs $205.", 0, 5),
        ("She sells seashells.", "She sells sea shells.", 0, 4),
        ("Hello.", "", 1, 1),
        ("Hello.", "hello hello there", 2, 1),
    ],
)
def test_word_errors(text: str, heard: str, wrong: int, words: int) -> None:
    assert errors(text, heard) == (wrong, words)


def test_character_errors() -> None:
    assert character_errors("The birch canoe slid.", "the birch canow slid") == (1, 17)
    assert character_errors("one two", "onetwo") == (0, 6)
    assert character_errors("abc", "") == (3, 3)


def test_held_out_sentences() -> None:
    own = sentences()
    assert len(own) == 200
    assert {kind for kind, _ in own} == set(KINDS)
    assert all(errors(text, text)[0] == 0 for _, text in own)


def test_a_rate_and_its_interval() -> None:
    found = rates.rate([(0, 1, 10), (1, 0, 10), (2, 2, 20)])
    assert (found.errors, found.total, found.clips) == (3, 40, 3)
    assert found.rate == pytest.approx(0.075)
    assert found.low <= found.rate <= found.high
    assert (found.low, found.high) == pytest.approx((0.0, 0.1))


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    source = random.Random(0)
    covered = 0
    for _ in range(200):
        rows = [(line, sum(source.random() < 0.1 for _ in range(8)), 8) for line in range(60)]
        found = rates.rate(rows)
        covered += found.low <= 0.1 <= found.high
    assert 180 <= covered <= 200


def test_clips_of_one_sentence_are_drawn_together() -> None:
    """Saying a sentence five times adds no sentence: the interval must not shrink."""
    rows = [(line, line % 3, 10) for line in range(30)]
    once, often = rates.rate(rows), rates.rate(rows * 5)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_a_difference_is_over_shared_sentences() -> None:
    base = [(line, 0, 10) for line in range(10)]
    own = [(line, 1, 10) for line in range(5, 15)]
    assert rates.difference(own, base) == pytest.approx((0.1, 0.1, 0.1, 5))
    with pytest.raises(ValueError, match="no sentence"):
        rates.difference([(1, 0, 1)], [(2, 0, 1)])
    with pytest.raises(ValueError, match="no words"):
        rates.rate([])


@pytest.mark.parametrize(
    ("seconds", "reason", "want"),
    [
        (3.0, "eos", "good"),
        (1.81, "eos", "good"),
        (1.79, "eos", "truncated"),
        (4.79, "eos", "good"),
        (4.81, "eos", "runaway"),
        (3.0, "length_cap", "runaway"),
        (0.5, "length_cap", "runaway"),
    ],
)
def test_endings(seconds: float, reason: str, want: str) -> None:
    assert endings.ending(seconds, 3.0, reason) == want


def test_expected_length() -> None:
    teacher = {(4, 0): 2.0, (4, 1): 3.0, (5, 1): 1.0}
    assert endings.expected_s("Any text.", 4, 1, teacher) == 3.0
    assert endings.expected_s("Any text.", 5, 0, teacher) == 1.0
    by_letters = endings.expected_s("Any text.", 6, 0, teacher)
    assert by_letters == pytest.approx(endings.BASE_S + 7 * endings.LETTER_S)
    assert endings.letters("It's 9.") == 4
