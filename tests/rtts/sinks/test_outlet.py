"""Pulling a playback buffer at another rate: the samples of one pass, and nothing stale after an interruption."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import soxr

from rtts.errors import RequestError
from rtts.stream.events import PcmChunk
from rtts.stream.outlet import Outlet
from rtts.stream.pace import Pacer
from rtts.stream.playback import PlaybackBuffer


def speech(samples: int, seed: int = 0) -> np.ndarray:
    """Noise below 8 kHz, as loud as speech."""
    noise = np.random.default_rng(seed).standard_normal(samples // 3 + 100)
    wide = soxr.resample(noise, 8000, 24000)[:samples]
    return (wide * 4000).clip(-20000, 20000).astype(np.int16)


def chunk(samples: np.ndarray, start: int = 0, generation: int = 0) -> PcmChunk:
    return PcmChunk(samples, (0, 0), start / 24000, generation)


def one_pass(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    resampled = soxr.resample(samples.astype(np.float32) / 32768, 24000, rate_hz, quality="HQ")
    return np.clip(np.rint(resampled * 32768), -32768, 32767).astype(np.int16)


@pytest.mark.parametrize("rate_hz", [48000, 44100, 16000])
@pytest.mark.parametrize("count", [960, 64, 5000])
def test_any_pull_size_gives_the_samples_of_one_pass(rate_hz: int, count: int) -> None:
    sound = speech(24000)
    buffer = PlaybackBuffer()
    outlet = Outlet(buffer, rate_hz)
    for start in range(0, len(sound), 1920):
        buffer.push(chunk(sound[start : start + 1920], start))
    buffer.finish()
    want = one_pass(sound, rate_hz)
    found = np.concatenate([outlet.pull(count) for _ in range(len(want) // count + 2)])
    np.testing.assert_array_equal(found[: len(want)], want)
    assert not found[len(want) :].any()
    assert outlet.idle
    assert buffer.underruns == 0


def test_speech_after_silence_comes_at_once_and_whole() -> None:
    buffer = PlaybackBuffer()
    outlet = Outlet(buffer, 48000)
    for turn in range(3):
        assert not outlet.pull(960).any()
        sound = speech(4800, turn)
        buffer.push(chunk(sound, turn * 4800))
        buffer.finish()
        found = np.concatenate([outlet.pull(960) for _ in range(11)])
        np.testing.assert_array_equal(found[:9600], one_pass(sound, 48000))


def test_an_interruption_leaves_a_fade_of_8_ms_and_nothing_else() -> None:
    buffer = PlaybackBuffer()
    outlet = Outlet(buffer, 48000)
    sound = speech(24000)
    buffer.push(chunk(sound))
    for _ in range(10):
        outlet.pull(960)
    buffer.interrupt(1)
    buffer.push(chunk(np.full(1920, 77, np.int16), 24000, generation=1))
    found = outlet.pull(960)
    want = one_pass(sound, 48000)[9600:]
    ramp = np.linspace(1, 0, 384)
    np.testing.assert_allclose(found[:384], want[:384] * ramp, atol=1)
    after = np.concatenate([found[384:], outlet.pull(960)])
    assert abs(int(after[200]) - 77) <= 1  # the next turn's sound follows at once, clean of the old one
    np.testing.assert_array_equal(after, one_pass(np.full(1920, 77, np.int16), 48000)[: len(after)])


@pytest.mark.parametrize("seed", range(20))
def test_interruptions_at_any_moment_let_nothing_stale_through(seed: int) -> None:
    random = np.random.default_rng(seed)
    buffer = PlaybackBuffer()
    outlet = Outlet(buffer, 48000)
    old, new = np.full(2400, 9000, np.int16), np.full(2400, -500, np.int16)
    buffer.push(chunk(old))
    for _ in range(random.integers(0, 5)):
        outlet.pull(960)
    buffer.interrupt(1)
    if random.random() < 0.5:  # twice in a row: the fade is not cut
        buffer.interrupt(2)
    buffer.push(chunk(new, 2400, generation=2))
    found = np.concatenate([outlet.pull(960) for _ in range(4)])
    assert (found[384 + 50 :] < 100).all()
    assert np.abs(np.diff(found[:384].astype(int))).max(initial=0) < 400


def test_played_counts_what_was_given_out_not_what_was_taken() -> None:
    buffer = PlaybackBuffer()
    outlet = Outlet(buffer, 48000)
    buffer.push(chunk(speech(24000)))
    for number in range(1, 30):
        outlet.pull(960)
        assert buffer.played_s == pytest.approx(number * 0.02, abs=1e-4)
        assert buffer.pulled_s >= buffer.played_s
    outlet.latency_s = 0.1
    outlet.pull(960)
    assert buffer.played_s == pytest.approx(0.5, abs=1e-4)


def test_all_is_played_once_the_latency_has_passed_in_silence() -> None:
    buffer = PlaybackBuffer()
    buffer.latency_s = 0.05
    buffer.push(chunk(speech(2400)))
    buffer.finish()
    buffer.pull(2400)
    assert buffer.played_s == pytest.approx(0.05)
    buffer.pull(1200)
    assert buffer.played_s == pytest.approx(0.1)
    assert buffer.idle


def test_a_second_interruption_does_not_cut_the_fade_of_the_first() -> None:
    buffer = PlaybackBuffer()
    buffer.push(chunk(np.full(2400, 9000, np.int16)))
    buffer.pull(480)
    buffer.interrupt(1)
    buffer.interrupt(2)
    found = buffer.pull(480).astype(int)
    assert found[0] == 9000
    assert np.abs(np.diff(found)).max() < 100


def test_late_text_is_no_underrun_but_a_hole_in_speech_is() -> None:
    told: list[tuple[float, float]] = []
    buffer = PlaybackBuffer(lambda at_s, missing_s: told.append((at_s, missing_s)))
    buffer.push(chunk(speech(480)))
    buffer.pull(960)
    buffer.finish()
    assert buffer.underruns == 0
    buffer.push(chunk(speech(480), 480))
    buffer.pull(960)
    buffer.push(chunk(speech(480), 960))
    buffer.finish()  # before the sound that ends the hole is pulled
    buffer.pull(480)
    assert (buffer.underruns, told) == (1, [(0.04, 0.02)])


def test_deadlines_do_not_drift_in_ten_minutes() -> None:
    random = np.random.default_rng(0)
    pacer = Pacer(0.02)
    now = start = 1000.0
    for number in range(30_000):
        found, wait_s = pacer.next(now)
        assert found == number
        sent_s = now + wait_s
        assert 0 <= sent_s - (start + number * 0.02) <= 0.0601
        now = sent_s + random.exponential(0.002)  # the work, and timers that fire late
    assert pacer.skipped == 0


def test_a_long_stall_skips_packets_instead_of_sending_a_burst() -> None:
    pacer = Pacer(0.02)
    assert pacer.next(0.0) == (0, 0.0)
    assert pacer.next(0.0)[0] == 1
    assert pacer.next(0.05)[0] == 2  # 10 ms late: at once
    number, wait_s = pacer.next(1.005)
    assert (number, wait_s) == (50, 0.0)
    assert pacer.skipped == 47
    number, wait_s = pacer.next(1.006)
    assert number == 51
    assert wait_s == pytest.approx(0.014)


@pytest.mark.parametrize("latency_s", [-1.0, math.nan, math.inf, "x", None])
def test_latency_is_a_time(latency_s: Any) -> None:
    with pytest.raises(RequestError, match=r"latency_s is .*, expected seconds from 0 on"):
        Outlet(PlaybackBuffer(), 48000, latency_s=latency_s)
