"""The state machine: tables of what a stretch of frames does, and what holds for any stretch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts.barge_in import BargeInConfig, BargeInMachine, Decision

FRAME_S = 0.02
PLAIN = {
    "playback_guard": "off",
    "onset_frames": 3,
    "onset_window": 4,
    "min_speech_ms": 200,
    "hangover_ms": 100,
    "resume_delay_ms": 100,
    "max_duck_ms": 1000,
    "cool_down_ms": 100,
}


def run(pattern: str, *, speaking: str = "", **changes: object) -> list[Decision]:
    """One decision or None a frame. ``#`` voice, ``e`` echo, ``.`` nothing; ``speaking``: ``0`` where silent."""
    machine = BargeInMachine(BargeInConfig.from_mapping(PLAIN | changes))
    flags = speaking.ljust(len(pattern), "1")
    found = [
        machine.step((index + 1) * FRAME_S, mark in "#e", speaking=flag == "1", echo=mark == "e")
        for index, (mark, flag) in enumerate(zip(pattern, flags, strict=True))
    ]
    return [decision for decision in found if decision is not None]


def told(decisions: list[Decision]) -> list[tuple[str, str, int]]:
    """(action, reason, number of the frame)."""
    return [(d.action, d.reason, round(d.t_s / FRAME_S)) for d in decisions]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("." * 60, []),
        # onset: 3 of 4
        ("##......", []),
        ("#..#..#..#..#..#", []),
        ("..###" + "." * 5, [("duck", "onset", 5)]),
        ("..##.#" + "." * 4, [("duck", "onset", 6)]),
        ("##..##", []),
        # a false alarm: 5 frames of pause end it, 5 more bring the volume back
        ("###" + "." * 20, [("duck", "onset", 3), ("resume", "pause", 13)]),
        # ten frames commit, the onset's included
        ("#" * 10, [("duck", "onset", 3), ("commit", "speech", 10)]),
        ("..." + "#" * 12, [("duck", "onset", 6), ("commit", "speech", 13)]),
        # short pauses are bridged and do not count
        ("#####...#####", [("duck", "onset", 3), ("commit", "speech", 13)]),
        # five frames without voice end it, four do not
        ("#####" + "." * 4 + "#####", [("duck", "onset", 3), ("commit", "speech", 14)]),
        ("#####" + "." * 5 + "#####" + "." * 12, [("duck", "onset", 3), ("resume", "pause", 25)]),
        # too sparse within twice the length
        ("###" + ".#.." * 4 + "." * 20, [("duck", "onset", 3), ("resume", "pause", 27)]),
        # a commit starts a cool-down (5 frames), then it counts anew
        (
            "#" * 24,
            [("duck", "onset", 3), ("commit", "speech", 10), ("duck", "onset", 17), ("commit", "speech", 24)],
        ),
        # echo is no voice
        ("e" * 40, []),
        ("##e#" + "." * 12, [("duck", "onset", 4), ("resume", "pause", 14)]),
        # double talk: the assistant's frames among the user's only delay it
        ("#e" * 12, []),
        ("##e" * 6, [("duck", "onset", 4), ("commit", "speech", 14)]),
    ],
)
def test_table(pattern: str, expected: list[tuple[str, str, int]]) -> None:
    assert told(run(pattern)) == expected


def test_sparse_voice_cannot_keep_it_down() -> None:
    sparse = "###" + "...#" * 30
    actions = told(run(sparse, max_duck_ms=500))
    assert actions[:2] == [("duck", "onset", 3), ("resume", "limit", 28)]


@pytest.mark.parametrize(
    ("speaking", "expected"),
    [
        ("0" * 40, []),
        ("0" * 10, [("duck", "onset", 13), ("commit", "speech", 20)]),  # voice from before counts for nothing
        ("1" * 6 + "0" * 34, [("duck", "onset", 3), ("resume", "finished", 7)]),
    ],
)
def test_the_assistant_must_speak(speaking: str, expected: list[tuple[str, str, int]]) -> None:
    assert told(run("#" * 20, speaking=speaking[:20])) == expected


def test_guard_at_the_start_of_playback() -> None:
    """500 ms are 25 frames."""
    assert told(run("#" * 19, playback_guard="strict")) == [("duck", "onset", 6)]
    assert told(run("#" * 20, playback_guard="strict"))[1:] == [("commit", "speech", 20)]
    ignored = told(run("#" * 40, playback_guard="ignore"))
    assert ignored == [("duck", "onset", 28), ("commit", "speech", 35)]
    late = "." * 25 + "#" * 10
    assert told(run(late, playback_guard="strict")) == told(run(late))


def test_the_times_of_each_stage() -> None:
    duck, commit = run("." * 10 + "#" * 10)
    assert duck.first_voice_s == commit.first_voice_s == pytest.approx(11 * FRAME_S)
    assert duck.duck_s == commit.duck_s == duck.t_s == pytest.approx(13 * FRAME_S)
    assert commit.t_s == pytest.approx(20 * FRAME_S)


def test_a_second_stretch_has_its_own_first_voice() -> None:
    decisions = run("###" + "." * 7 + "#" * 10)
    assert told(decisions) == [("duck", "onset", 3), ("commit", "speech", 20)]
    assert decisions[1].first_voice_s == pytest.approx(11 * FRAME_S)


def test_a_microphone_that_goes_away() -> None:
    machine = BargeInMachine(BargeInConfig.from_mapping(PLAIN))
    assert machine.deadline_s is None
    assert machine.poll(0.0) is None
    for index in range(3):
        machine.step(index * FRAME_S, 1.0, speaking=True)
    assert machine.deadline_s == pytest.approx(2 * FRAME_S + 0.2)
    assert machine.poll(0.2) is None
    resumed = machine.poll(0.25)
    assert resumed is not None
    assert (resumed.action, resumed.reason) == ("resume", "pause")
    assert machine.deadline_s is None


def test_frames_far_apart_are_no_onset() -> None:
    machine = BargeInMachine(BargeInConfig.from_mapping(PLAIN))
    assert [machine.step(t_s, 1.0, speaking=True) for t_s in (0.0, 1.0, 2.0, 3.0)] == [None] * 4


def test_stop_pays_what_a_duck_is_owed() -> None:
    machine = BargeInMachine(BargeInConfig.from_mapping(PLAIN))
    assert machine.stop() is None
    for index in range(3):
        machine.step(index * FRAME_S, 1.0, speaking=True)
    stopped = machine.stop()
    assert stopped is not None
    assert stopped.action == "resume"
    assert machine.stop() is None


def test_probabilities() -> None:
    machine = BargeInMachine(BargeInConfig.from_mapping(PLAIN))
    weak = [machine.step(index * FRAME_S, 0.49, speaking=True) for index in range(20)]
    assert weak == [None] * 20
    strong = [machine.step(1 + index * FRAME_S, 0.5, speaking=True) for index in range(3)]
    assert strong[2] is not None


CONFIGS = st.builds(
    BargeInConfig,
    frame_ms=st.sampled_from([10, 20, 30]),
    onset_frames=st.integers(1, 4),
    onset_window=st.integers(4, 8),
    min_speech_ms=st.integers(0, 400),
    hangover_ms=st.integers(10, 300),
    resume_delay_ms=st.integers(0, 300),
    max_duck_ms=st.integers(50, 1000),
    cool_down_ms=st.integers(0, 500),
    playback_guard=st.sampled_from(["off", "strict", "ignore"]),
    playback_guard_ms=st.integers(0, 600),
)
FRAMES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.3, 0.5, 1.0, 1.0]),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([False, False, True]),
        st.sampled_from([0.02, 0.02, 0.02, 0.0, -0.1, 0.5]),
    ),
    max_size=200,
)


@settings(max_examples=300, deadline=None)
@given(CONFIGS, FRAMES)
def test_what_holds_for_any_frames(
    config: BargeInConfig, frames: list[tuple[float, bool, bool, float]]
) -> None:
    machine = BargeInMachine(config)
    ducked = False
    now_s = last_s = duck_s = -math.inf
    clock_s = 0.0
    for voice, speaking, echo, step_s in frames:
        clock_s += step_s
        now_s = max(now_s, clock_s)
        decision = machine.step(clock_s, voice, speaking=speaking, echo=echo)
        if not speaking:
            assert not machine.ducked
            assert decision is None or decision.action == "resume"
        if decision is not None:
            assert decision.t_s >= last_s  # time never runs back
            assert decision.first_voice_s <= decision.t_s
            last_s = decision.t_s
            if decision.action == "duck":
                assert not ducked
                assert voice >= 0.5
                assert not echo
                duck_s = now_s
            else:
                assert ducked  # neither commits nor resumes without a duck
                assert decision.duck_s == duck_s
                if decision.action == "commit":
                    assert decision.t_s - duck_s <= config.max_duck_ms / 1e3 + 0.5
            ducked = decision.action == "duck"
        assert machine.ducked == ducked
    # without voice every duck is paid, by the deadline it names
    deadline_s = machine.deadline_s
    assert (deadline_s is not None) == ducked
    if deadline_s is not None:
        assert deadline_s <= duck_s + config.max_duck_ms / 1e3
        paid = machine.poll(max(deadline_s, now_s))
        assert paid is not None
        assert paid.action == "resume"


@settings(max_examples=100, deadline=None)
@given(CONFIGS, st.lists(st.booleans(), max_size=150))
def test_echo_and_silence_never_act(config: BargeInConfig, echoes: list[bool]) -> None:
    machine = BargeInMachine(config)
    for index, echo in enumerate(echoes):
        assert machine.step(index * FRAME_S, float(echo), speaking=True, echo=echo) is None


@settings(max_examples=100, deadline=None)
@given(CONFIGS)
def test_speech_that_goes_on_always_commits(config: BargeInConfig) -> None:
    machine = BargeInMachine(config)
    frame_s = config.frame_ms / 1000
    needed_s = 4 * config.onset_frames * frame_s + 2 * config.min_speech_ms / 1000
    if needed_s > config.max_duck_ms / 1000:
        return
    frames = math.ceil((config.playback_guard_ms / 1000 + needed_s) / frame_s) + 3
    decisions = [machine.step(index * frame_s, 1.0, speaking=True) for index in range(frames)]
    assert "commit" in [decision.action for decision in decisions if decision is not None]
