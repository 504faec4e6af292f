"""A session as an aiortc track: what is sent, when, and what a real far end hears of it."""

from __future__ import annotations

import asyncio
import fractions
import importlib
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError

import rtts
from rtts.errors import RequestError, RuntimeSetupError, StreamError
from rtts.stream.events import Done, Underrun
from rtts.testing import FakeEngine
from rtts.webrtc import TtsTrack
from tests.rtts.sinks.calls import (
    OPUS_DELAY_SAMPLES,
    Tapped,
    call,
    snr_db,
    spoken,
    through_opus,
)

TEXT = "Hello there my friend. How are you today?"


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function; it must leave no task behind."""

    async def main() -> None:
        await asyncio.wait_for(test(), 300)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


class Clock:
    """Time that passes only while somebody sleeps; it waits for the engine, which works in real time."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.now_s = 5000.0
        self.track: TtsTrack | None = None
        self.session: rtts.Session | None = None
        self._random = np.random.default_rng(0)
        self._late_s = late_s

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds + float(self._random.uniform(0, self._late_s))
        await asyncio.sleep(0)
        assert self.track is not None
        assert self.session is not None
        while self.session.pending and self.track.buffer.buffered_s < 0.3:
            await asyncio.sleep(0.001)

    def track_of(self, session: rtts.Session) -> TtsTrack:
        self.session = session
        self.track = TtsTrack(session, clock=self, sleep=self.sleep)
        return self.track


async def frames_of(track: TtsTrack, count: int) -> np.ndarray:
    """(count * 960,) of the next frames."""
    return np.concatenate([(await track.recv()).to_ndarray()[0] for _ in range(count)])


def test_frames_are_20_ms_of_48_khz_mono_and_say_when() -> None:
    async def test() -> None:
        clock = Clock()
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            track = clock.track_of(session)
            for number in range(5):
                frame = await track.recv()
                assert (frame.sample_rate, frame.samples, frame.format.name, frame.layout.name) == (
                    48000,
                    960,
                    "s16",
                    "mono",
                )
                assert (frame.pts, frame.time_base) == (number * 960, fractions.Fraction(1, 48000))
                assert not frame.to_ndarray().any()
            assert clock.now_s == pytest.approx(5000 + 4 * 0.02)
            track.stop()

    run(test)


def test_ten_minutes_of_turns_arrive_sample_for_sample_without_drift() -> None:
    async def test() -> None:
        clock = Clock(late_s=0.004)
        turns = [f"This is turn number {number}. It is spoken to its end." for number in range(100)]
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = clock.track_of(session)
            sound, late_s = [], []
            for number in range(30_000):
                if number % 300 == 0:
                    session.feed(turns[number // 300])
                    session.end()
                    while session.pending and track.buffer.buffered_s < 0.3:
                        await asyncio.sleep(0.001)
                frame = await track.recv()
                assert frame.pts == number * 960
                late_s.append(clock.now_s - 5000.0 - number * 0.02)
                sound.append(frame.to_ndarray()[0])
            assert (track.skipped_frames, track.underruns) == (0, 0)
            assert min(late_s) >= 0
            assert max(late_s) < 0.005  # after ten minutes as in the first second
            track.stop()
        for number, text in enumerate(turns[:3] + turns[-3:]):
            first = number if number < 3 else 94 + number
            found = np.concatenate(sound[first * 300 : (first + 1) * 300])
            want = await spoken(text)
            start = int(np.flatnonzero(found)[0]) - int(np.flatnonzero(want)[0])
            np.testing.assert_array_equal(found[start : start + len(want)], want)
            assert not found[start + len(want) :].any()

    run(test)


def test_a_late_consumer_gets_no_burst_and_loses_no_sound() -> None:
    async def test() -> None:
        clock = Clock()
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = clock.track_of(session)
            session.feed(TEXT)
            session.end()
            while session.pending:
                await asyncio.sleep(0.001)
            sound = [await frames_of(track, 10)]
            clock.now_s += 0.5
            frame = await track.recv()
            assert frame.pts == (10 + 24) * 960
            assert track.skipped_frames == 24
            before_s = clock.now_s
            sound += [frame.to_ndarray()[0], await frames_of(track, 240)]
            assert clock.now_s - before_s == pytest.approx(240 * 0.02, abs=0.021)
            track.stop()
        want = await spoken(TEXT)
        np.testing.assert_array_equal(np.concatenate(sound)[: len(want)], want)

    run(test)


def test_an_interruption_is_silence_within_8_ms_and_heard_is_what_was_sent() -> None:
    async def test() -> None:
        clock = Clock()
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = clock.track_of(session)
            session.feed("One two three four five six seven eight nine ten.")
            session.end()
            while session.pending and track.buffer.buffered_s < 1:
                await asyncio.sleep(0.001)
            before = await frames_of(track, 51)
            heard = await session.interrupt()
            assert heard.seconds == pytest.approx(1.02, abs=1e-3)
            assert "One two three".startswith(heard.text.strip())
            assert heard.text
            after = await frames_of(track, 20)
            assert not after[384:].any()
            joined = np.concatenate([before[-960:], after[:400]]).astype(int)
            assert np.abs(np.diff(joined)).max() <= np.abs(np.diff(before.astype(int))).max()
            session.feed("Yes.")  # the next turn is not touched
            session.end()
            while session.pending:
                await asyncio.sleep(0.001)
            want = await spoken("Yes.")
            found = await frames_of(track, 40)
            np.testing.assert_array_equal(found[: len(want)], want)
            track.stop()

    run(test)


def test_the_next_turn_does_not_wait_for_what_was_interrupted() -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            track = TtsTrack(session)
            session.feed("x" * 200 + ".")  # 16 s: the pump waits with 3 s in the buffer
            session.end()
            while track.buffer.buffered_s < 3:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            assert track.buffer.buffered_s < 3 + 12 * 0.08 + 0.01
            await session.interrupt()
            session.feed("Yes.")
            session.end()
            while not track.buffer.buffered_s:
                await asyncio.sleep(0.001)
            assert track.buffer.buffered_s <= len("Yes.") * 0.08 + 0.001  # and nothing stale before it
            track.stop()

    run(test)


def test_a_failed_turn_is_told_and_the_next_one_is_spoken(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine(fail_at_frame=8)) as tts, tts.session(seed=1) as session:
            track = TtsTrack(session)
            session.feed("This fails.")
            session.end()
            waiting = asyncio.ensure_future(track.drained())
            frames = asyncio.ensure_future(frames_of(track, 100))
            with pytest.raises(StreamError, match="told to fail") as failure:
                await waiting
            assert isinstance(failure.value.__cause__, RuntimeError)
            assert track.error is failure.value
            assert session.done is not None
            assert session.done.stop_reason == "error"
            session.feed("Fine.")
            session.end()
            await track.drained()
            assert track.readyState == "live"
            assert (await frames).any()
            track.stop()

    run(test)
    assert [record.message for record in caplog.records if record.name == "rtts.stream.pump"] == [
        "speech failed: the fake talker was told to fail"
    ]


def test_a_hole_in_speech_is_counted_and_told() -> None:
    async def test() -> None:
        clock = Clock()
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            told: list[object] = []

            async def listen() -> None:
                async for event in session.events():
                    told.append(event)

            listening = asyncio.ensure_future(listen())
            await asyncio.sleep(0)
            track = clock.track_of(session)
            clock.session = None  # the clock does not wait for the engine here
            session.feed("Hello there my friend. How are ")
            while not track.buffer.buffered_s:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            clock.sleep = lambda seconds: asyncio.sleep(0)  # type: ignore[method-assign, assignment]
            track._sleep = clock.sleep
            for _ in range(200):
                clock.now_s += 0.02
                await track.recv()
                await asyncio.sleep(0)
            session.feed("you? ")
            session.end()
            while session.pending:
                await asyncio.sleep(0.01)
            for _ in range(100):
                clock.now_s += 0.02
                await track.recv()
            await asyncio.sleep(0.05)
            assert track.underruns == 1
            assert [type(event) for event in told].count(Underrun) == 1
            assert [type(event) for event in told].count(Done) == 1
            track.stop()
            await session.aclose()
            await listening

    run(test)


def test_stopping_ends_the_track_and_leaves_nothing() -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            track = TtsTrack(session)
            session.feed(TEXT)
            await track.recv()
            waiting = asyncio.ensure_future(track.recv())
            await asyncio.sleep(0)
            track.stop()
            track.stop()
            with pytest.raises(MediaStreamError):
                await waiting
            with pytest.raises(MediaStreamError):
                await track.recv()

    run(test)


def test_the_track_ends_with_its_session_after_the_fade() -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
            track = TtsTrack(session)
            session.feed(TEXT)
            while track.buffer.buffered_s < 0.5:
                await asyncio.sleep(0.001)
            await frames_of(track, 3)
            await session.aclose()
            fade = await frames_of(track, 1)
            assert fade[:300].any()
            assert not fade[384:].any()
            with pytest.raises(MediaStreamError):
                await frames_of(track, 3)
            assert track.readyState == "ended"

    run(test)


def test_missing_aiortc_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiortc", None)
    monkeypatch.delitem(sys.modules, "rtts.webrtc")
    with pytest.raises(RuntimeSetupError, match=r"pip install 'rtts\[webrtc\]'"):
        importlib.import_module("rtts.webrtc")


# -- real calls ------------------------------------------------------------------------------


def test_a_call_hears_what_was_spoken() -> None:
    async def test() -> None:
        want = await spoken(TEXT)
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = Tapped(session)
            async with call(track) as far_end:
                session.feed(TEXT)
                session.end()
                heard, _, stamps = await far_end.hear(5.0)
                await track.drained()
        sent = np.concatenate(track.sent)
        start = int(np.flatnonzero(sent)[0]) - int(np.flatnonzero(want)[0])
        np.testing.assert_array_equal(sent[start : start + len(want)], want)
        # Nothing was lost, reordered or repeated on the way: the far end hears exactly what Opus makes of it.
        np.testing.assert_array_equal(heard, through_opus(track.sent)[: len(heard)])
        assert not np.any(np.diff(stamps) % 960)
        assert delay_of(heard.reshape(-1), sent) == pytest.approx(OPUS_DELAY_SAMPLES, abs=2)
        found = heard.reshape(-1)[start + OPUS_DELAY_SAMPLES :][: len(want)]
        assert snr_db(found, want) > 12

    run(test)


def test_barge_in_over_a_call() -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = Tapped(session)
            async with call(track) as far_end:
                session.feed("x" * 100 + ".")
                session.end()
                before, _, _ = await far_end.hear(1.5)
                sent = len(track.sent)
                await session.interrupt()
                after, _, _ = await far_end.hear(1.0)
        assert np.abs(before[-10:]).max() > 5000
        silent = np.concatenate(track.sent[sent:])
        assert not silent[384:].any()  # at the sink: 8 ms into the first frame after the interruption
        heard = np.concatenate([before, after]).reshape(-1)
        end = sent * 960 + 384 + OPUS_DELAY_SAMPLES  # that moment, at the far end
        assert np.abs(heard[end + 960 :]).max() < 100  # Opus rings a little

    run(test)


@pytest.mark.slow
def test_a_minute_of_real_time_keeps_its_cadence() -> None:
    async def test() -> None:
        async with rtts.Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
            track = Tapped(session)
            async with call(track) as far_end:
                hearing = asyncio.ensure_future(far_end.hear(60.0))
                while not hearing.done():
                    session.feed(TEXT)
                    session.end()
                    await track.drained()
                    await asyncio.sleep(0.5)
                heard, arrivals, stamps = await hearing
        late_ms = 1e3 * (np.array(track.times) - track.times[0]) - 20 * np.array(track.slots)
        gaps_ms = np.diff(arrivals) * 1e3
        arrival_ms = 1e3 * (arrivals - arrivals[0]) - stamps / 48
        print(
            f"sent late: median {np.median(late_ms):.2f} ms, p99 {np.percentile(late_ms, 99):.2f}, "
            f"max {late_ms.max():.2f}; arrivals apart: median {np.median(gaps_ms):.2f} ms, "
            f"p99 {np.percentile(gaps_ms, 99):.2f}, drift "
            f"{np.median(arrival_ms[-500:]) - np.median(arrival_ms[:500]):.2f} ms; "
            f"skipped {track.skipped_frames}, underruns {track.underruns}"
        )
        # Every frame has its place on one clock of 20 ms, and those that a stall of the machine cost have theirs, too.
        assert (np.diff(track.slots) > 0).all()
        assert track.slots[-1] + 1 == len(track.times) + track.skipped_frames
        assert (np.diff(stamps) > 0).all()
        assert not (np.diff(stamps) % 960).any()
        # No drift over a minute: the clock of the frames is that of the machine.
        elapsed_s = track.times[-1] - track.times[0]
        assert elapsed_s / (0.02 * (track.slots[-1] - track.slots[0])) == pytest.approx(1, abs=0.02)
        np.testing.assert_array_equal(heard, through_opus(track.sent)[: len(heard)])

    run(test)


def delay_of(heard: np.ndarray, sent: np.ndarray) -> int:
    """Samples by which ``heard`` is behind ``sent``."""
    size = 1 << (len(heard) + len(sent)).bit_length()
    product = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(sent, size))
    return int(np.argmax(np.fft.irfft(product, size)))


@pytest.mark.parametrize("session", [None, "session"])
def test_a_track_of_no_session_is_refused(session: Any) -> None:
    async def test() -> None:
        with pytest.raises(RequestError, match=f"session is {type(session).__name__}, expected"):
            TtsTrack(session)

    asyncio.run(test())
