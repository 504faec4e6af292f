"""The playback buffer against a model of it, and what an interruption sounds like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rtts.errors import RequestError
from rtts.stream.events import PcmChunk
from rtts.stream.playback import FADE_SAMPLES, SAMPLE_RATE_HZ, PlaybackBuffer

MS = SAMPLE_RATE_HZ // 1000


def chunk(samples: np.ndarray, start: int = 0, generation: int = 0) -> PcmChunk:
    return PcmChunk(np.asarray(samples, np.int16), (0, 0), start / SAMPLE_RATE_HZ, generation)


def tone(count: int, start: int = 0) -> np.ndarray:
    """220 Hz at a third of full scale: its steepest step is 630."""
    return np.round(
        11000 * np.sin(2 * np.pi * 220 / SAMPLE_RATE_HZ * np.arange(start, start + count))
    ).astype(np.int16)


TONE_STEP = 640


class BufferMachine(RuleBasedStateMachine):
    """Every sample carries its generation, so that a stale one is seen wherever it comes out."""

    @initialize()
    def start(self) -> None:
        self.told: list[tuple[float, float]] = []
        self.buffer = PlaybackBuffer(lambda *underrun: self.told.append(underrun))
        self.generation = 0
        self.end = 0  # of the session's sound
        self.queue: list[tuple[int, int]] = []  # (sample, position)
        self.fade = 0
        self.position = 0
        self.expecting = False
        self.hole = 0
        self.underruns: list[tuple[float, float]] = []
        self.gain = self.target = 1.0
        self.counter = 0

    @rule(count=st.integers(1, 700), stale=st.booleans())
    def push(self, count: int, stale: bool) -> None:
        generation = self.generation - stale
        values = [(generation % 60 + 1) * 500 + (self.counter + i) % 400 for i in range(count)]
        accepted = self.buffer.push(chunk(np.array(values), self.end, generation))
        assert accepted == (not stale)
        self.counter += count
        if accepted:
            self.queue += [(value, self.end + i + 1) for i, value in enumerate(values)]
            self.end += count
            self.expecting = True

    @rule(count=st.sampled_from([1, 7, 100, 192, 480, 1000]))
    def pull(self, count: int) -> None:
        out = self.buffer.pull(count)
        assert out.dtype == np.int16
        assert len(out) == count
        faded = min(count, self.fade)
        self.fade -= faded
        wanted = count - faded
        sound, self.queue = self.queue[:wanted], self.queue[wanted:]
        got = out[faded : faded + len(sound)]
        values = np.array([value for value, _ in sound])
        if len(sound):
            ramp = np.linspace(self.gain, self.target, len(sound))
            assert np.all(np.abs(got - values * ramp) <= 1.001)  # cut to an integer, in single precision
            if self.gain == self.target == 1.0:
                np.testing.assert_array_equal(got, values)
            self.gain = self.target
            self.position = sound[-1][1]
        assert not out[faded + len(sound) :].any()
        if wanted and sound and self.hole:
            self.underruns.append((sound[0][1] - 1, self.hole))
            self.hole = 0
        if wanted > len(sound) and self.expecting and self.position:
            self.hole += wanted - len(sound)
        if not self.expecting:
            self.hole = 0

    @rule(again=st.booleans())
    def interrupt(self, again: bool) -> None:
        self.generation += not again
        playing = bool(self.queue) and not again
        count = len(self.queue)
        played_s = self.buffer.interrupt(self.generation)
        assert played_s == self.position / SAMPLE_RATE_HZ
        if not again:
            if playing and not self.fade:
                self.fade = min(FADE_SAMPLES, count)
            self.queue.clear()
        self.expecting = bool(self.queue)
        self.hole = 0
        self.gain = self.target = 1.0

    @rule(gain=st.sampled_from([0.0, 0.2, 1.0]))
    def duck(self, gain: float) -> None:
        self.buffer.duck(gain)
        self.target = gain

    @rule()
    def finish(self) -> None:
        self.buffer.finish()
        self.expecting = False
        if not self.queue:
            self.hole = 0

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "buffer"):
            return
        assert self.buffer.buffered_s == len(self.queue) / SAMPLE_RATE_HZ
        assert self.buffer.pulled_s == self.buffer.played_s == self.position / SAMPLE_RATE_HZ
        assert self.buffer.underruns == len(self.underruns)
        expected = [(at / SAMPLE_RATE_HZ, missing / SAMPLE_RATE_HZ) for at, missing in self.underruns]
        assert self.told == expected
        assert self.buffer.idle == (not self.expecting and not self.queue and not self.fade)


BufferMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBuffer = BufferMachine.TestCase


@pytest.mark.parametrize("played", [0, 1, 480, 960, 1921])
@pytest.mark.parametrize("pull", [1, 480, 4800])
def test_an_interruption_fades_without_a_click(played: int, pull: int) -> None:
    buffer = PlaybackBuffer()
    for start in (0, 1920):
        buffer.push(chunk(tone(1920, start), start))
    before = buffer.pull(played)
    buffer.interrupt(1)
    after = np.concatenate([buffer.pull(pull) for _ in range(-(-4800 // pull))])
    assert not after[FADE_SAMPLES:].any()
    heard = np.concatenate([np.zeros(1, np.int16), before, after]).astype(int)
    assert np.abs(np.diff(heard)).max() <= TONE_STEP
    assert abs(after[FADE_SAMPLES - 1]) <= TONE_STEP


def test_an_interruption_during_a_fade_lets_it_fade() -> None:
    """Regression: the fade was cut off, or replaced by the start of sound that nobody had heard."""
    buffer = PlaybackBuffer()
    buffer.push(chunk(tone(1920)))
    before = buffer.pull(500)
    buffer.interrupt(1)
    fading = buffer.pull(40)
    buffer.push(chunk(np.full(1920, 20000), 1920, generation=1))
    buffer.interrupt(2)
    rest = buffer.pull(960)
    heard = np.concatenate([before, fading, rest]).astype(int)
    assert np.abs(np.diff(heard)).max() <= TONE_STEP
    assert not rest[FADE_SAMPLES - 40 :].any()


def test_an_interruption_that_was_made_already_changes_nothing() -> None:
    """Regression: sound of the current generation started again from its chunk's beginning."""
    buffer = PlaybackBuffer()
    buffer.interrupt(3)
    buffer.push(chunk(np.arange(1, 1001), generation=3))
    first = buffer.pull(400)
    buffer.interrupt(3)
    buffer.interrupt(2)
    assert buffer.buffered_s == 600 / SAMPLE_RATE_HZ
    np.testing.assert_array_equal(np.concatenate([first, buffer.pull(600)]), np.arange(1, 1001))


def test_new_sound_follows_the_fade() -> None:
    buffer = PlaybackBuffer()
    buffer.push(chunk(np.full(1920, 1000)))
    buffer.pull(100)
    buffer.interrupt(1)
    buffer.push(chunk(np.full(100, 7), 1920, generation=1))
    out = buffer.pull(FADE_SAMPLES + 150)
    assert np.all(np.diff(out[:FADE_SAMPLES].astype(int)) <= 0)
    np.testing.assert_array_equal(out[FADE_SAMPLES:], [7] * 100 + [0] * 50)


def test_a_ducked_interruption_fades_from_there() -> None:
    buffer = PlaybackBuffer()
    buffer.push(chunk(np.full(4800, 10000)))
    buffer.duck(0.2)
    buffer.pull(480)
    assert buffer.pull(1)[0] == 2000
    buffer.interrupt(1)
    fade = buffer.pull(FADE_SAMPLES)
    assert fade[0] == 2000
    assert fade[-1] == 0
    buffer.push(chunk(np.full(10, 10000), 4800, generation=1))
    assert buffer.pull(1)[0] == 10000  # the next turn has its own voice


@pytest.mark.parametrize("gain", [-0.1, 1.1, float("nan")])
def test_gain_is_a_share(gain: float) -> None:
    with pytest.raises(RequestError, match="gain is"):
        PlaybackBuffer().duck(gain)


def test_the_end_of_a_turn_is_no_underrun() -> None:
    buffer = PlaybackBuffer()
    for turn in range(3):
        buffer.push(chunk(np.ones(100), turn * 100))
        buffer.pull(150)
        buffer.finish()
        buffer.pull(1000)
    assert buffer.underruns == 0


def test_an_underrun_is_told_when_sound_is_back() -> None:
    told: list[tuple[float, float]] = []
    buffer = PlaybackBuffer(lambda *underrun: told.append(underrun))
    buffer.pull(500)  # nothing has begun
    buffer.push(chunk(np.ones(2400)))
    buffer.pull(2400 + 10 * MS)
    buffer.pull(20 * MS)
    assert told == []
    buffer.push(chunk(np.ones(2400), 2400))
    buffer.pull(10)
    assert told == [(pytest.approx(0.1), pytest.approx(0.03))]
    assert buffer.underruns == 1


def test_latency_counts_as_not_played() -> None:
    buffer = PlaybackBuffer()
    buffer.latency_s = 0.05
    buffer.push(chunk(np.ones(2400)))
    buffer.finish()
    positions = []
    for _ in range(10):
        buffer.pull(480)
        positions.append(buffer.played_s)
    assert positions == pytest.approx([max(0, min(0.1, 0.02 * i - 0.05)) for i in range(1, 11)], abs=1e-4)
    assert buffer.pulled_s == pytest.approx(0.1)


def test_empty_chunks_and_pulls() -> None:
    buffer = PlaybackBuffer()
    buffer.push(chunk(np.zeros(0)))
    buffer.push(chunk(np.ones(5)))
    buffer.push(chunk(np.zeros(0), 5))
    assert len(buffer.pull(0)) == 0
    np.testing.assert_array_equal(buffer.pull(6), [1, 1, 1, 1, 1, 0])
    assert buffer.buffered_s == 0
