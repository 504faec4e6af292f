"""The frame ring: order, bounds, and two threads at once."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts.stream.ring import FrameRing


def frame(number: int) -> np.ndarray:
    return np.arange(number, number + 16, dtype=np.int32)


@given(st.integers(1, 7), st.lists(st.booleans(), max_size=60))
def test_it_is_a_bounded_queue(capacity: int, pushes: list[bool]) -> None:
    ring, model, number = FrameRing(capacity), list[int](), 0
    for push in pushes:
        assert len(ring) == len(model)
        assert ring.full == (len(model) == capacity)
        if push and ring.full:
            with pytest.raises(IndexError):
                ring.push(frame(number))
        elif push:
            ring.push(frame(number))
            model.append(number)
            number += 1
        elif model:
            np.testing.assert_array_equal(ring.pop(), frame(model.pop(0))[None])
        else:
            with pytest.raises(IndexError):
                ring.pop()


def test_what_was_popped_is_not_overwritten() -> None:
    ring = FrameRing(1)
    ring.push(frame(0))
    popped = ring.pop()
    ring.push(frame(100))
    np.testing.assert_array_equal(popped, frame(0)[None])


@pytest.mark.parametrize("capacity", [1, 3, 64])
def test_two_threads(capacity: int) -> None:
    ring, count = FrameRing(capacity), 3000

    def produce() -> None:
        for number in range(count):
            while ring.full:
                time.sleep(0)
            ring.push(frame(number))

    thread = threading.Thread(target=produce)
    thread.start()
    for number in range(count):
        while not len(ring):
            time.sleep(0)
        np.testing.assert_array_equal(ring.pop()[0], frame(number))
    thread.join()
    assert not len(ring)
