"""A microphone, a session and its buffer together: what is ducked, interrupted, resumed and told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

import rtts
from rtts.barge_in import BargeIn, BargeInConfig, Ducked, Interruption, Resumed
from rtts.errors import AudioError, RequestError, StreamError
from rtts.stream.events import PcmChunk
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.session import Session
from rtts.testing import FakeEngine
from tests.rtts.barge_in.sounds import chord, clicks, noise, room, silence, speech

pytestmark = pytest.mark.asyncio

TEXT = "This is a long answer of the assistant, which nobody lets come to its end. "


@asynccontextmanager
async def speaking(text: str = 3 * TEXT) -> AsyncIterator[tuple[Session, PlaybackBuffer]]:
    """A session whose whole turn waits in its buffer."""
    async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
        buffer = PlaybackBuffer()
        session.attach(buffer)
        if text:
            session.feed(text)
            session.end()
            async for chunk in session:
                buffer.push(chunk)
            buffer.finish()
        yield session, buffer


class Room:
    """Time, lockstep: what is pulled from the buffer is heard, and the microphone is pushed."""

    def __init__(self, barge_in: BargeIn, buffer: PlaybackBuffer) -> None:
        self._barge_in, self._buffer = barge_in, buffer
        self.now_s = 100.0
        self.heard: list[np.ndarray] = []

    async def hear(self, microphone: np.ndarray, *, rate_hz: int = 16_000, block_s: float = 0.02) -> None:
        block = round(block_s * rate_hz)
        for start in range(0, len(microphone), block):
            piece = microphone[start : start + block]
            self.now_s += len(piece) / rate_hz
            self.heard.append(self._buffer.pull(len(piece) * 24_000 // rate_hz))
            await self._barge_in.push(piece, rate_hz, self.now_s)

    @property
    def played(self) -> np.ndarray:
        return np.concatenate(self.heard)


def with_noise(sound: np.ndarray) -> np.ndarray:
    return sound + noise(len(sound) / 16_000, 0.0005)


async def everything(barge_in: BargeIn, events: AsyncIterator[Any]) -> list[Any]:
    await barge_in.aclose()
    return [event async for event in events]


@pytest.mark.parametrize("block_s", [0.01, 0.02, 0.1])
@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
async def test_a_user_interrupts(rate_hz: int, block_s: float) -> None:
    called: list[Interruption] = []
    async with speaking() as (session, buffer), BargeIn(session, on_interrupt=called.append) as barge_in:
        events = barge_in.events()
        room_ = Room(barge_in, buffer)
        await room_.hear(noise(1.5, 0.0005, rate_hz), rate_hz=rate_hz, block_s=block_s)
        await room_.hear(speech("user", rate_hz), rate_hz=rate_hz, block_s=block_s)
        ducked, interruption = await everything(barge_in, events)
    assert called == [interruption]
    assert isinstance(ducked, Ducked)
    assert ducked.first_voice_s == interruption.first_voice_s
    assert 101.5 < ducked.first_voice_s < 101.7
    assert ducked.duck_s - ducked.first_voice_s <= 0.08
    assert 0.2 <= interruption.commit_s - interruption.first_voice_s <= 0.36
    assert interruption.done_s >= interruption.commit_s
    assert interruption.heard.text
    assert TEXT.startswith(interruption.heard.text)
    assert interruption.heard.seconds == pytest.approx(interruption.commit_s - 100.0, abs=block_s + 0.06)
    # heard is 0.3 of full scale, a quarter of it while ducked, and nothing from the next pull's fade on
    played = room_.played
    ducked_at = round((ducked.duck_s - 100.0 + block_s + 0.05) * 24_000)
    committed_at = round((interruption.commit_s - 100.0) * 24_000)
    assert ducked_at < committed_at
    assert 0.05 < np.abs(played[ducked_at:committed_at] / 32768).max() < 0.08
    assert not played[committed_at + round((block_s + 0.06) * 24_000) :].any()


async def test_any_division_gives_the_same_events() -> None:
    told = []
    for block_s in (0.001, 0.0137, 0.02, 0.25):
        async with speaking() as (session, buffer):
            barge_in = BargeIn(session)
            events = barge_in.events()
            await Room(barge_in, buffer).hear(
                with_noise(np.concatenate([silence(1.0), speech("user")])), block_s=block_s
            )
            told.append(
                [
                    (type(e), round(e.first_voice_s, 3), round(e.duck_s, 3))
                    for e in await everything(barge_in, events)
                ]
            )
    assert told[0]
    assert all(one == told[0] for one in told)


@pytest.mark.parametrize(
    "sound",
    [noise(4, 0.03), noise(4, 0.03, pink=True), silence(4), clicks(4), chord(4, 0.1)],
    ids=["white", "pink", "silence", "keyboard", "chord"],
)
async def test_noise_does_not_interrupt(sound: np.ndarray) -> None:
    async with speaking() as (session, buffer):
        barge_in = BargeIn(session)
        events = barge_in.events()
        await Room(barge_in, buffer).hear(sound)
        assert not [event for event in await everything(barge_in, events) if isinstance(event, Interruption)]
        assert not buffer.idle


async def test_a_short_word_is_a_false_alarm() -> None:
    async with speaking() as (session, buffer):
        barge_in = BargeIn(session, BargeInConfig(min_speech_ms=400))
        events = barge_in.events()
        room_ = Room(barge_in, buffer)
        await room_.hear(with_noise(np.concatenate([silence(1.0), speech("user")[:3200], silence(1.5)])))
        ducked, resumed = await everything(barge_in, events)
        assert isinstance(ducked, Ducked)
        assert isinstance(resumed, Resumed)
        assert resumed.reason == "pause"
        assert resumed.duck_s == ducked.duck_s < resumed.resume_s < 102.0
        levels = np.abs(room_.played.reshape(-1, 2400)).max(axis=1)
        assert levels.min() < 3000 < 9000 < levels[-1] < 10_000  # down, and up again
        assert session.done is not None
        assert session.done.stop_reason == "eos"


async def test_its_own_voice_does_not_interrupt() -> None:
    assistant = np.concatenate([speech("assistant", 24_000)] * 2)
    pcm = np.rint(assistant * 32767).astype(np.int16)
    echo = with_noise(room(np.concatenate([speech("assistant")] * 2), gain=0.4, delay_s=0.1))
    async with speaking("") as (session, buffer):
        buffer.push(PcmChunk(pcm, (0, 0), 0.0, 0))
        buffer.finish()
        barge_in = BargeIn(session)
        events = barge_in.events()
        room_ = Room(barge_in, buffer)
        await room_.hear(echo[: 5 * 16_000])
        assert barge_in.echo_delay_s == pytest.approx(0.1, abs=0.02)
        user = speech("user", rms=4 * float(np.std(echo)))
        await room_.hear((echo[5 * 16_000 :][: len(user)] + user)[: 2 * 16_000])
        found = await everything(barge_in, events)
    (interruption,) = [event for event in found if isinstance(event, Interruption)]
    assert 105.0 < interruption.first_voice_s < interruption.commit_s < 105.8
    assert len([event for event in found if isinstance(event, Ducked)]) <= 2


async def test_without_the_guard_its_own_voice_would_interrupt() -> None:
    pcm = np.rint(speech("assistant", 24_000) * 32767).astype(np.int16)
    async with speaking("") as (session, buffer):
        buffer.push(PcmChunk(pcm, (0, 0), 0.0, 0))
        barge_in = BargeIn(session, BargeInConfig(echo_guard=False))
        events = barge_in.events()
        await Room(barge_in, buffer).hear(with_noise(room(speech("assistant"), gain=0.4, delay_s=0.1)))
        assert [event for event in await everything(barge_in, events) if isinstance(event, Interruption)]


async def test_nothing_happens_while_the_assistant_is_silent() -> None:
    async with speaking("") as (session, buffer):
        barge_in = BargeIn(session)
        events = barge_in.events()
        await Room(barge_in, buffer).hear(speech("user"))
        assert await everything(barge_in, events) == []


@pytest.mark.parametrize("before_sound", [True, False])
async def test_a_turn_without_sound_yet(before_sound: bool) -> None:
    async with speaking("") as (session, buffer):
        session.feed("Well")  # the LLM thinks
        barge_in = BargeIn(session, BargeInConfig(before_sound=before_sound))
        events = barge_in.events()
        await Room(barge_in, buffer).hear(speech("user"))
        found = await everything(barge_in, events)
        assert bool(found) == before_sound
        assert session.pending != before_sound


async def test_the_next_turn_has_its_volume_and_can_be_interrupted() -> None:
    async with speaking() as (session, buffer), BargeIn(session) as barge_in:
        room_ = Room(barge_in, buffer)
        user = with_noise(np.concatenate([silence(1.0), speech("user"), silence(0.5)]))
        await room_.hear(user)
        assert buffer.idle
        session.feed(TEXT)
        session.end()
        async for chunk in session:
            buffer.push(chunk)
        events = barge_in.events()
        room_.heard.clear()
        await room_.hear(user[:16_000])
        assert np.abs(room_.played).max() == pytest.approx(0.3 * 32767, rel=0.01)
        await room_.hear(user[16_000:])
        assert [type(event) for event in await everything(barge_in, events)] == [Ducked, Interruption]


async def test_a_microphone_that_stops_does_not_leave_it_ducked() -> None:
    config = BargeInConfig(hangover_ms=50, resume_delay_ms=0)
    async with speaking() as (session, buffer), BargeIn(session, config) as barge_in:
        events = barge_in.events()
        await Room(barge_in, buffer).hear(with_noise(np.concatenate([silence(1.0), speech("user")[:2600]])))
        assert barge_in.ducked
        assert isinstance(await anext(events), Ducked)
        resumed = await asyncio.wait_for(anext(events), 5)
        assert isinstance(resumed, Resumed)
        assert not barge_in.ducked
        buffer.pull(480)
        assert np.abs(buffer.pull(480)).max() > 9000


async def test_closing_gives_the_volume_back() -> None:
    async with speaking() as (session, buffer):
        barge_in = BargeIn(session)
        await Room(barge_in, buffer).hear(with_noise(np.concatenate([silence(1.0), speech("user")[:2600]])))
        assert barge_in.ducked
        await barge_in.aclose()
        await barge_in.aclose()
        buffer.pull(480)
        assert np.abs(buffer.pull(480)).max() > 9000
        for call in (barge_in.events, lambda: barge_in.listen(source(silence(1)))):
            with pytest.raises(RequestError, match="closed"):
                call()
        with pytest.raises(RequestError, match="closed"):
            await barge_in.push(silence(1), 16_000)


async def test_a_session_without_a_sink_is_refused() -> None:
    async with rtts.Tts(FakeEngine()) as tts, tts.session() as session, BargeIn(session) as barge_in:
        with pytest.raises(RequestError, match="no sink"):
            await barge_in.push(silence(1), 16_000)


async def source(
    sound: np.ndarray, *, pulls: PlaybackBuffer | None = None, then: BaseException | None = None
) -> AsyncIterator[Any]:
    for start in range(0, len(sound), 320):
        if pulls is not None:
            pulls.pull(480)
        yield sound[start : start + 320], 16_000
        await asyncio.sleep(0)
    if then is not None:
        raise then


async def test_listening_to_a_source() -> None:
    """As fast as it comes: times are those of the wall, but speech is counted in frames."""
    config = BargeInConfig(playback_guard="off", cool_down_ms=0)
    async with speaking() as (session, buffer), BargeIn(session, config) as barge_in:
        waiting = asyncio.create_task(barge_in.wait())
        await asyncio.sleep(0)
        user = with_noise(np.concatenate([silence(1.0), speech("user")]))
        barge_in.listen(source(user, pulls=buffer))
        assert isinstance(await asyncio.wait_for(waiting, 10), Interruption)
        with pytest.raises(StreamError, match="ended"):
            await asyncio.wait_for(barge_in.wait(), 10)
        with pytest.raises(StreamError, match="ended"):  # and nobody who comes later waits for ever
            await asyncio.wait_for(barge_in.wait(), 10)
        barge_in.listen(source(silence(0.1)))  # another microphone


async def test_two_sources_are_one_too_many() -> None:
    async with speaking() as (session, _), BargeIn(session) as barge_in:
        barge_in.listen(source(silence(100)))
        with pytest.raises(RequestError, match="listens"):
            barge_in.listen(source(silence(1)))


async def test_a_failure_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with speaking() as (session, _), BargeIn(session) as barge_in:
        events = barge_in.events()
        barge_in.listen(source(silence(0.1), then=OSError("unplugged")))
        with pytest.raises(OSError, match="unplugged"):
            await asyncio.wait_for(barge_in.wait(), 10)
        with pytest.raises(OSError, match="unplugged"):
            await anext(events)
        assert isinstance(barge_in.error, OSError)
        assert "unplugged" in caplog.text


async def test_unfit_samples_are_told() -> None:
    async with speaking() as (session, _), BargeIn(session) as barge_in:
        barge_in.listen(source(np.zeros(320, np.uint8)))
        with pytest.raises(AudioError, match="uint8"):
            await asyncio.wait_for(barge_in.wait(), 10)


async def test_a_callback_that_fails_is_told() -> None:
    def broken(_: Interruption) -> None:
        raise ValueError("my bug")

    config = BargeInConfig(playback_guard="off")
    async with speaking() as (session, _), BargeIn(session, config, on_interrupt=broken) as barge_in:
        barge_in.listen(source(with_noise(np.concatenate([silence(1.0), speech("user")]))))
        assert isinstance(await asyncio.wait_for(barge_in.wait(), 10), Interruption)
        with pytest.raises(ValueError, match="my bug"):
            await asyncio.wait_for(barge_in.wait(), 10)


async def test_nothing_is_left_behind() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[Any]:
        try:
            while True:
                yield silence(0.02), 16_000
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    async with speaking() as (session, _):
        tasks, threads = asyncio.all_tasks(), threading.active_count()
        async with BargeIn(session) as barge_in:
            barge_in.listen(endless())
            await asyncio.sleep(0.05)
        assert ended.is_set()
        assert asyncio.all_tasks() == tasks
        assert threading.active_count() == threads


async def test_a_sink_that_is_replaced_while_ducked_has_its_volume_back() -> None:
    async with speaking() as (session, buffer), BargeIn(session) as barge_in:
        events = barge_in.events()
        room_ = Room(barge_in, buffer)
        await room_.hear(noise(1.5, 0.0005))
        voice = with_noise(speech("user"))
        while not barge_in.ducked:
            await room_.hear(voice[:320])
            voice = voice[320:]
        session.detach(buffer)
        other = PlaybackBuffer()
        session.attach(other)
        await barge_in.push(voice[:320], 16_000, room_.now_s + 0.02)
        assert not barge_in.ducked
        assert [type(event) for event in await everything(barge_in, events)] == [Ducked, Resumed]
    loud = buffer.pull(24_000)
    assert (
        np.abs(loud[12_000:].astype(int)).max() > 0.2 * 32767
    )  # at full volume: the fake voice speaks at 0.3


async def test_nothing_is_recorded_once_nobody_listens() -> None:
    async with speaking() as (session, buffer):
        barge_in = BargeIn(session)
        await Room(barge_in, buffer).hear(noise(0.5, 0.0005))
        assert len(buffer.pulled_since(0)[0])
        await barge_in.aclose()
        buffer.pull(480)
        assert not len(buffer.pulled_since(0)[0])


async def test_what_is_no_session_is_refused() -> None:
    nobody: Any = None
    with pytest.raises(RequestError, match="session is NoneType, expected"):
        BargeIn(nobody)
    async with rtts.Tts(FakeEngine()) as tts, tts.session() as session:
        config: Any = {"min_speech_ms": 400}
        with pytest.raises(RequestError, match="config is dict, expected a BargeInConfig"):
            BargeIn(session, config)
