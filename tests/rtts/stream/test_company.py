"""Which sentences the talker takes together, against a simulation frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts.stream.company import EARLY_S, Ahead, rows_together, silence_s
from rtts.stream.schedule import FRAME_S


def line(one_s: float, share: float = 0.12):  # type: ignore[no-untyped-def]
    return lambda rows: one_s * (1 + share * (rows - 1))


def fresh(*frames: int) -> list[Ahead]:
    """The first one has begun, the others have not."""
    return [Ahead(int(i == 0), 0, count) for i, count in enumerate(frames)]


def played(
    sentences: list[Ahead],
    lead_s: float,
    pass_s,
    rows: int,
    prompt_s: float,  # type: ignore[no-untyped-def]
) -> float:
    """The latest frame's lateness, one pass after another."""
    due, at = lead_s, {}
    for i, each in enumerate(sentences):
        due += each.waiting * FRAME_S
        for frame in range(each.missing):
            at[i, frame] = due
            due += FRAME_S
    left = [each.missing for each in sentences]
    now, late, begun = 0.0, float("-inf"), {i for i, each in enumerate(sentences) if each.made}
    while any(left):
        active = [i for i, count in enumerate(left) if count][:rows]
        now += prompt_s * len(set(active) - begun)
        begun |= set(active)
        now += pass_s(len(active))
        for i in active:
            late = max(late, now - at[i, sentences[i].missing - left[i]])
            left[i] -= 1
    return late


SENTENCES = st.lists(
    st.builds(Ahead, st.integers(0, 1), st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=6
)


@given(
    SENTENCES, st.floats(0, 5), st.floats(0.001, 0.4), st.floats(0, 1), st.integers(1, 8), st.floats(0, 0.5)
)
def test_the_silence_is_that_of_a_simulation(
    sentences: list[Ahead], lead_s: float, one_s: float, share: float, rows: int, prompt_s: float
) -> None:
    cost = line(one_s, share)
    told = silence_s(sentences, lead_s, cost, rows, prompt_s=prompt_s)
    assert told == pytest.approx(played(sentences, lead_s, cost, rows, prompt_s), abs=1e-6)


@given(SENTENCES, st.floats(0, 5), st.floats(0.001, 0.4), st.floats(0, 1), st.floats(0, 0.5))
def test_company_costs_the_listener_nothing(
    sentences: list[Ahead], lead_s: float, one_s: float, share: float, prompt_s: float
) -> None:
    cost = line(one_s, share)
    rows = rows_together(sentences, lead_s, cost, prompt_s=prompt_s)
    assert 1 <= rows <= len(sentences)
    chosen = silence_s(sentences, lead_s, cost, rows, prompt_s=prompt_s)
    alone = silence_s(sentences, lead_s, cost, 1, prompt_s=prompt_s)
    assert chosen <= max(-EARLY_S, alone) + 1e-9


def test_a_fast_machine_keeps_company_only_when_there_is_time() -> None:
    sentences = fresh(40, 40, 40)
    assert rows_together(sentences, 0.08, line(0.01), prompt_s=0.03) == 1
    assert rows_together(sentences, 3.0, line(0.01), prompt_s=0.03) == 3


@pytest.mark.parametrize(("one_s", "rows"), [(0.117, 2), (0.15, 4), (0.28, 4)])
def test_a_slow_machine_takes_as_many_as_it_needs_to_keep_up(one_s: float, rows: int) -> None:
    cost = line(one_s)
    many = fresh(*[40] * 8)
    assert rows_together(many, 0.08, cost, prompt_s=3 * one_s) == rows
    alone = silence_s(many, 0.08, cost, 1, prompt_s=3 * one_s)
    together = silence_s(many, 0.08, cost, rows, prompt_s=3 * one_s)
    assert together < alone / 3


def test_one_sentence_has_no_company() -> None:
    assert rows_together(fresh(40), 0.0, line(1.0)) == 1


def test_company_cannot_make_the_codec_faster() -> None:
    """With a codec that is slower than real time itself, no more rows are taken than it needs to be fed."""
    many = fresh(*[40] * 8)
    assert rows_together(many, 0.0, line(0.28), codec_s=0.35) == 1
    assert rows_together(many, 0.0, line(0.28), codec_s=0.2) == 2
    assert rows_together(many, 0.0, line(0.28), codec_s=0.02) == 4


def test_what_was_made_already_gives_time() -> None:
    sentences = [Ahead(1, 0, 20), Ahead(50, 50, 10), Ahead(0, 0, 40)]
    # The second one's fifty frames are played while the third one begins.
    assert rows_together(sentences, 4.0, line(0.09)) == 3
