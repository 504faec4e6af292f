"""Who takes a session's sound, one at a time, and how far text may run ahead of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rtts import StreamConfig, Tts
from rtts.errors import AudioError, RequestError
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.pump import Pump
from rtts.stream.writer import write_wav
from rtts.testing import FakeEngine

from .helpers import in_loop, settled, threads


@in_loop
async def test_two_loops_over_a_session_do_not_share_its_chunks() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        first = aiter(session)
        with pytest.raises(RequestError, match="takes its sound"):
            aiter(session)
        session.feed("One is here. Two is here.")
        session.end()
        await anext(first)
        with pytest.raises(RequestError, match="takes its sound"):
            async for _ in session:
                pass
        assert [chunk async for chunk in first]
        session.feed("Next.")
        session.end()
        assert [chunk async for chunk in session]


@in_loop
async def test_who_left_the_sound_leaves_it_to_others() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        session.feed("One is here. Two is here. Three is here.")
        session.end()
        async for _ in session:
            break
        taken = [chunk async for chunk in session]
        assert taken
        session.feed("Dropped.")
        chunks = aiter(session)
        await anext(chunks)
        await session.interrupt()  # its turn is over, even if it has not noticed
        session.feed("Next.")
        session.end()
        assert [chunk async for chunk in session]
        assert [chunk async for chunk in chunks] == []
        waiting = asyncio.create_task(anext(aiter(session)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        session.feed("Last.")
        session.end()
        assert [chunk async for chunk in session]


@in_loop
async def test_a_pump_takes_the_sound_alone() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        pump = Pump(session, PlaybackBuffer())
        with pytest.raises(RequestError, match="takes its sound"):
            aiter(session)
        with pytest.raises(RequestError, match="has a sink"):
            Pump(session, PlaybackBuffer())
        pump.stop()
        session.feed("Hello.")
        session.end()
        assert [chunk async for chunk in session]
        chunks = aiter(session)
        with pytest.raises(RequestError, match="takes its sound"):
            Pump(session, PlaybackBuffer())
        del chunks
        Pump(session, PlaybackBuffer()).stop()


class Pieces:
    """An iterator that never waits, and counts what was taken."""

    def __init__(self, count: int) -> None:
        self.count, self.taken, self.closed = count, 0, False

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while self.taken < self.count:
                self.taken += 1
                yield "This is it. "
        finally:
            self.closed = True


@pytest.mark.parametrize("mode", ["sentence", "token"])
@in_loop
async def test_speak_takes_no_more_text_than_can_be_spoken_soon(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtts.stream.turns.MAX_AHEAD_CHARS", 600)
    config = StreamConfig(text_mode=mode, max_buffered_s=0.2, text_timeout_s=0.1, sentence_gap_s=0.0)
    pieces = Pieces(200)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        speaking = asyncio.create_task(session.speak(aiter(pieces)))
        chunks = aiter(session)
        await anext(chunks)
        await settled(lambda: pieces.taken)
        await asyncio.sleep(0.3)  # text that waits is no text that stays away
        assert 40 < pieces.taken < 80
        samples = sum([len(chunk.samples) async for chunk in chunks])
        await speaking
        assert pieces.taken == 200
        assert session.done is not None
        assert session.done.stop_reason == "eos"
        assert samples > 200 * len("This is it") * 1920


@in_loop
async def test_an_interruption_ends_text_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtts.stream.turns.MAX_AHEAD_CHARS", 600)
    pieces = Pieces(10**9)
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        speaking = asyncio.create_task(session.speak(aiter(pieces)))
        chunks = aiter(session)
        await anext(chunks)
        await settled(lambda: pieces.taken)
        await session.interrupt()
        await speaking
        assert pieces.closed


@in_loop
async def test_text_that_nobody_listens_to_yet_is_fed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtts.stream.turns.MAX_AHEAD_CHARS", 60)
    pieces = Pieces(50)
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        await session.speak(aiter(pieces))
        assert pieces.taken == 50
        assert [chunk async for chunk in session]


@in_loop
async def test_a_finished_sentence_keeps_no_frames() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        session.feed("One is here. Two is here. Three is here. And")
        turn = session._turn
        assert turn is not None
        async for _ in session:
            if sum(sentence.ended for sentence in turn.sentences) == 2:
                break
        jobs = [sentence.job for sentence in turn.sentences if sentence.ended]
        assert len(jobs) == 2
        assert all(job.decoder is None and not job.ring._frames.size for job in jobs)


@in_loop
async def test_a_file_of_no_session_and_of_no_name(tmp_path: Path) -> None:
    nobody: Any = None
    with pytest.raises(RequestError, match="session is NoneType"):
        await write_wav(nobody, tmp_path / "a.wav")
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        session.feed("Hello.")
        session.end()
        with pytest.raises(AudioError, match="cannot be written"):
            await write_wav(session, "a\0.wav")


@pytest.mark.parametrize("engine", [None, "lark"])
def test_an_engine_is_one(engine: Any) -> None:
    with pytest.raises(RequestError, match=f"engine is {type(engine).__name__}, expected a SpeechEngine"):
        Tts(engine)
    assert threads() == []
