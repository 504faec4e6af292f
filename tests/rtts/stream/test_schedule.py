"""The chunk schedule against a virtual clock: early first sound, no hole when the machine keeps up, pre-roll if not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts import StreamConfig
from rtts.stream.cost import FrameCost
from rtts.stream.schedule import FRAME_S, SAFETY_S, ChunkSchedule, PacedListener, Supply

FAST = st.floats(0.001, FRAME_S - 0.001)
SLOW = st.floats(FRAME_S + 0.001, 0.5)


@dataclass
class Run:
    chunks: list[int]
    holes: list[float]
    first_s: float
    preroll_frames: int


def produce(
    config: StreamConfig,
    costs: list[float],
    *,
    expected: int | None = None,
    known: bool = True,
    first: bool = True,
    listener: PacedListener | None = None,
    ends_known: bool = False,
    now: float = 0.0,
) -> Run:
    """An utterance whose frames take ``costs`` seconds each, played in real time from its first chunk on."""
    schedule, listener = ChunkSchedule(config, first=first), listener or PacedListener()
    cost = FrameCost(costs[0] if known else None)
    run, in_hand = Run([], [], 0.0, 0), 0

    def hand(frames: int) -> None:
        if run.chunks and listener.buffered_s(now) <= 0:
            run.holes.append(now)
        if not run.chunks:
            run.first_s = now
        preroll = schedule.handed(frames)
        run.preroll_frames = run.preroll_frames or preroll
        listener.handed(frames * FRAME_S, now)
        run.chunks.append(frames)

    for i, seconds in enumerate(costs):
        now += seconds
        if i:
            cost.add(seconds)
        in_hand += 1
        ended = ends_known and i == len(costs) - 1
        supply = None
        if cost.seconds is not None:
            supply = Supply(max(0, (expected or len(costs)) - i - 1), 0, cost.seconds, 0.0)
        while frames := schedule.due(in_hand, listener.buffered_s(now), supply, ended=ended):
            assert 0 < frames <= in_hand
            hand(frames)
            in_hand -= frames
    if in_hand:
        hand(in_hand)
    assert sum(run.chunks) == len(costs)
    return run


@pytest.mark.parametrize(("first", "chunk"), [(1, 1), (1, 12), (2, 7), (3, 25), (25, 2)])
@pytest.mark.parametrize("cost", [0.001, 0.04, 0.2])
def test_fixed_sizes_are_kept_at_any_speed(first: int, chunk: int, cost: float) -> None:
    config = StreamConfig(ramp="fixed", first_chunk_frames=first, chunk_frames=chunk)
    sizes = produce(config, [cost] * 100).chunks
    assert sizes[0] == first
    assert set(sizes[1:-1]) <= {chunk}
    assert sizes[-1] <= chunk


def test_adaptive_starts_at_one_frame_and_grows() -> None:
    sizes = produce(StreamConfig(), [0.02] * 120).chunks
    assert sizes[0] == 1
    steady = sizes[:-1]
    assert max(steady) == 12
    grown = steady[: steady.index(12)]
    assert grown == sorted(grown)


@given(FAST, st.integers(1, 200), st.integers(1, 5), st.integers(1, 25), st.booleans())
def test_no_hole_when_frames_come_faster_than_they_play(
    cost: float, frames: int, first: int, chunk: int, known: bool
) -> None:
    config = StreamConfig(first_chunk_frames=first, chunk_frames=chunk)
    run = produce(config, [cost] * frames, known=known)
    assert run.holes == []
    assert run.chunks[0] == min(first, frames)
    assert max(run.chunks[1:], default=1) <= chunk
    assert run.preroll_frames == 0


@given(st.lists(st.floats(0.005, 0.06), min_size=2, max_size=200), st.integers(1, 25))
def test_no_hole_when_the_speed_varies(costs: list[float], chunk: int) -> None:
    assert produce(StreamConfig(chunk_frames=chunk), costs).holes == []


@given(FAST, st.integers(1, 40), st.floats(0.0, 3.0))
def test_the_next_sentence_joins_without_a_hole(cost: float, frames: int, held_s: float) -> None:
    listener = PacedListener()
    listener.handed(held_s, 0.0)
    run = produce(StreamConfig(), [cost] * frames, first=False, listener=listener)
    assert run.holes == []
    # Its first chunk is there before what is held has been played, unless its first frame itself cannot be.
    assert run.first_s <= max(cost, held_s)


@given(SLOW, st.integers(1, 200), st.integers(1, 4), st.integers(1, 25))
def test_preroll_of_a_slow_machine_prevents_every_hole(
    cost: float, frames: int, first: int, chunk: int
) -> None:
    config = StreamConfig(first_chunk_frames=first, chunk_frames=chunk, max_preroll_s=100)
    run = produce(config, [cost] * frames)
    assert run.holes == []
    assert run.preroll_frames == max(0, run.chunks[0] - first)
    if first == 1 and frames > 1:  # more than one frame may be enough by itself
        assert run.preroll_frames > 0


@given(SLOW, st.integers(2, 200), st.floats(0.0, 10.0))
def test_preroll_has_a_limit(cost: float, frames: int, limit_s: float) -> None:
    run = produce(StreamConfig(max_preroll_s=limit_s), [cost] * frames)
    assert run.first_s <= max(cost, limit_s) + 1e-6
    if cost * frames <= limit_s:
        assert run.holes == []


@given(SLOW, st.integers(10, 150))
def test_preroll_is_no_longer_than_it_must_be(cost: float, frames: int) -> None:
    run = produce(StreamConfig(chunk_frames=1, max_preroll_s=100), [cost] * frames)
    # Two frames less would have left a hole at the end: (N - k) c > N * 80 ms.
    less = run.chunks[0] - 2
    if less > 1:
        assert (frames - less) * cost > (frames - 1) * FRAME_S - SAFETY_S


def test_a_machine_that_is_far_too_slow_pauses_seldom() -> None:
    """A hole after every frame would be unbearable: it waits for ten frames, plays on while it can, and waits again."""
    run = produce(StreamConfig(max_preroll_s=3.0), [0.3] * 100)
    assert run.first_s == pytest.approx(3.0)
    assert run.chunks[0] == 10
    assert 1 < len(run.holes) <= 100 / 10


def test_preroll_counts_only_what_was_held_back() -> None:
    assert produce(StreamConfig(), [0.2] * 3, expected=100).preroll_frames == 2
    assert produce(StreamConfig(first_chunk_frames=3), [0.2] * 3, expected=100).preroll_frames == 0


def test_fixed_has_no_preroll() -> None:
    assert produce(StreamConfig(ramp="fixed"), [0.5] * 30).preroll_frames == 0


def test_the_newest_frame_waits_for_its_successor_only_in_a_listeners_time() -> None:
    schedule = ChunkSchedule(StreamConfig(ramp="fixed", chunk_frames=2), first=True)
    supply = Supply(8, 0, 0.02, 0.01)
    assert schedule.due(1, 0.0, supply) == 1  # nobody has anything to listen to
    schedule.handed(1)
    assert schedule.due(2, 5.0, supply) == 0  # the second one might be the last
    assert schedule.due(3, 5.0, supply) == 2
    schedule.handed(2)
    assert schedule.due(2, 5.0, supply, ended=True) == 2
    assert schedule.due(2, 0.05, supply) == 2  # no time to wait


def test_frames_that_the_talker_has_made_already_need_no_preroll() -> None:
    """The sentence was generated in the company of the one before it: only the codec is still to be waited for."""
    slow_talker = {"ar_s": 0.3, "codec_s": 0.02}
    assert ChunkSchedule(StreamConfig(), first=False).due(1, 0.0, Supply(0, 40, **slow_talker)) == 1
    held = ChunkSchedule(StreamConfig(), first=False)
    assert held.due(1, 0.0, Supply(40, 0, **slow_talker)) == 0
    # What is missing comes while the rest is played: 10 frames take 3 s, 39 others last longer.
    assert held.due(1, 0.0, Supply(10, 38, **slow_talker)) == 1
    assert held.due(1, 0.0, Supply(20, 20, **slow_talker)) == 0


def test_preroll_waits_for_the_slower_stage() -> None:
    """The talker is fast, the codec is not."""
    schedule = ChunkSchedule(StreamConfig(max_preroll_s=100), first=True)
    in_hand = 1
    while not (frames := schedule.due(in_hand, 0.0, Supply(0, 50 - in_hand, 0.02, 0.16))):
        in_hand += 1
    # (50 - k) 0.16 s <= 49 x 80 ms - the safety
    assert frames == in_hand == 26
    assert schedule.handed(frames) == 25


def test_a_paced_listener_plays_from_the_first_chunk_on() -> None:
    listener = PacedListener()
    assert listener.buffered_s(5.0) == 0.0
    listener.handed(1.0, 5.0)
    assert listener.buffered_s(5.4) == pytest.approx(0.6)
    listener.handed(1.0, 5.5)
    assert listener.buffered_s(5.5) == pytest.approx(1.5)
    assert listener.buffered_s(9.0) == 0.0
    listener.handed(0.5, 10.0)  # after a pause it starts anew
    assert listener.buffered_s(10.0) == pytest.approx(0.5)
