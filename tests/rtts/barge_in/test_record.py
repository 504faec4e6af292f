"""What a playback buffer remembers of what was pulled."""

from __future__ import annotations

import numpy as np

from rtts.stream.events import PcmChunk
from rtts.stream.playback import PlaybackBuffer


def ramp(first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count, dtype=np.int16)


def buffer_with(count: int) -> PlaybackBuffer:
    buffer = PlaybackBuffer()
    buffer.push(PcmChunk(ramp(1, count), (0, 0), 0.0, 0))
    return buffer


def test_pulls_in_pieces_are_told_whole_with_silence() -> None:
    buffer = buffer_with(1000)
    buffer.record(1.0)
    buffer.pull(300)
    assert np.array_equal(buffer.pulled_since(0)[0], ramp(1, 300))
    buffer.pull(300)
    buffer.take(600)  # 400 of them are there
    told, position = buffer.pulled_since(250)
    assert position == 1200
    assert np.array_equal(told, np.concatenate([ramp(251, 750), np.zeros(200, np.int16)]))
    assert len(buffer.pulled_since(position)[0]) == 0


def test_only_so_long() -> None:
    buffer = buffer_with(5000)
    buffer.pull(100)
    assert buffer.pulled_since(0)[1] == 100
    assert len(buffer.pulled_since(0)[0]) == 0  # nothing was asked for
    buffer.record(0.01)  # 240 samples
    for _ in range(40):
        buffer.pull(100)
    told, position = buffer.pulled_since(0)
    assert position == 4100
    assert np.array_equal(told, ramp(3861, 240))
    assert len(buffer._record) <= 4


def test_the_gain_is_told() -> None:
    buffer = buffer_with(5000)
    buffer.record(1.0)
    buffer.duck(0.5)
    pulled = [buffer.pull(480) for _ in range(3)]
    assert np.array_equal(buffer.pulled_since(0)[0], np.concatenate(pulled))


def test_when_sound_was_last_pulled() -> None:
    buffer = buffer_with(100)
    assert buffer.last_sound_s is None
    buffer.pull(480)
    last_s = buffer.last_sound_s
    assert last_s is not None
    buffer.pull(480)
    assert buffer.last_sound_s == last_s
