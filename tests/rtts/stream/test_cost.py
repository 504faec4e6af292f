"""What a pass costs, learnt from passes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts.stream.cost import ROW_SHARE, FrameCost, PassCost


def test_a_frames_cost_is_a_running_mean() -> None:
    cost = FrameCost()
    assert cost.seconds is None
    cost.add(0.1)
    assert cost.seconds == 0.1
    for _ in range(60):
        cost.add(0.02)
    assert cost.seconds == pytest.approx(0.02, rel=1e-3)


def test_nothing_is_known_before_the_first_pass() -> None:
    assert PassCost().seconds(1) is None


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_one_pass_tells_of_the_others_by_the_usual_share(rows: int) -> None:
    cost = PassCost()
    cost.add(rows, 0.1 * (1 + ROW_SHARE * (rows - 1)))
    for asked in (1, 3, 8):
        assert cost.seconds(asked) == pytest.approx(0.1 * (1 + ROW_SHARE * (asked - 1)))


@given(st.floats(0.001, 1.0), st.floats(0.0, 1.0), st.integers(0, 1000))
def test_the_line_is_found_through_noise(one_s: float, share: float, seed: int) -> None:
    drawn = random.Random(seed)
    cost = PassCost()
    for _ in range(200):
        rows = drawn.choice([1, 2, 4])
        cost.add(rows, one_s * (1 + share * (rows - 1)) * drawn.uniform(0.98, 1.02))
    for rows in (1, 2, 4):
        assert cost.seconds(rows) == pytest.approx(one_s * (1 + share * (rows - 1)), rel=0.1)


def test_a_machine_that_becomes_slower_is_noticed() -> None:
    cost = PassCost()
    for seconds in (0.05, 0.2):
        for _ in range(100):
            cost.add(2, seconds)
    assert cost.seconds(2) == pytest.approx(0.2, rel=0.02)
    assert cost.seconds(1) == pytest.approx(0.2 / (1 + ROW_SHARE), rel=0.02)


@given(st.lists(st.tuples(st.integers(1, 8), st.floats(0.0, 2.0)), min_size=1, max_size=60))
def test_more_rows_never_cost_less(passes: list[tuple[int, float]]) -> None:
    cost = PassCost()
    for rows, seconds in passes:
        cost.add(rows, seconds)
    known = [cost.seconds(rows) for rows in range(1, 9)]
    assert all(seconds is not None and seconds >= 0 for seconds in known)
    assert known == sorted(known, key=lambda seconds: seconds or 0.0)


def test_rows_together_never_cost_more_than_one_after_the_other() -> None:
    cost = PassCost()
    for rows, seconds in ((1, 0.001), (8, 5.0)) * 20:
        cost.add(rows, seconds)
    one = cost.seconds(1)
    assert one is not None
    assert cost.seconds(8) == pytest.approx(8 * one)
