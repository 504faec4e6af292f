"""Why a turn ends, how failures arrive, and what back-pressure holds back."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from rtts import StreamConfig, Tts
from rtts.errors import StreamError, TextError
from rtts.stream.engine import Decoder, Utterance
from rtts.stream.events import Done, PcmChunk, SentenceStarted, Underrun
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.session import Session
from rtts.testing import FakeEngine
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings

from .helpers import FRAME, TEXT, TIMEOUT_S, Spoken, in_loop, offline, settled, speak, until_done


class Monotonous(FakeEngine):
    """Never ends, repeats ``period`` frames from frame ``start`` on, and is silent then if asked."""

    def __init__(
        self, start: int, period: int | None = None, *, silent: bool = False, only: str = ""
    ) -> None:
        super().__init__(frames_per_char=10_000)
        self.start, self.period, self.silent, self.only = start, period, silent, only

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        if text is not None and not text.startswith(self.only):
            return FakeEngine().utterance(text, manner, settings)
        inner = super().utterance(text, manner, settings)
        frames, step = 0, inner.next_frame

        def next_frame() -> np.ndarray | None:
            nonlocal frames
            frame = step()
            if frame is not None and frames >= self.start:
                if self.period:
                    frame = np.full(16, (frames - self.start) % self.period, np.int32)
                if self.silent:
                    frame[0] = -1
            frames += 1
            return frame

        inner.next_frame = next_frame  # type: ignore[method-assign]
        return inner

    def decoder(self, manner: Manner) -> Decoder:
        inner = super().decoder(manner)

        class Quiet:
            def decode(self, codes: np.ndarray) -> np.ndarray:
                samples = inner.decode(codes)
                return np.zeros_like(samples) if codes[0, 0] == -1 else samples

        return Quiet()


async def turn(engine: FakeEngine, text: str = TEXT, **config: object) -> Spoken:
    async with Tts(engine) as tts, tts.session(seed=1, config=StreamConfig(**config)) as session:  # type: ignore[arg-type]
        return await speak(session, text)


# -- reasons -----------------------------------------------------------------------------------


@in_loop
async def test_eos() -> None:
    assert (await turn(FakeEngine())).done.stop_reason == "eos"


@pytest.mark.parametrize(("per_token", "frames"), [(4, 75 + 4 * 3), (20, 75 + 20 * 3)])
@in_loop
async def test_length_cap(per_token: int, frames: int) -> None:
    spoken = await turn(
        FakeEngine(frames_per_char=100), "abc", max_frames_per_token=per_token, repeat_timeout_s=60
    )
    assert spoken.done.stop_reason == "length_cap"
    assert len(spoken.samples) == FRAME * frames


@pytest.mark.parametrize("ring", [1, 64])
@in_loop
async def test_silence_ends_the_utterance_at_the_same_frame(ring: int) -> None:
    spoken = await turn(
        Monotonous(10, silent=True), "abc", silence_timeout_s=0.8, ring_frames=ring, max_frames_per_token=1000
    )
    assert spoken.done.stop_reason == "silence"
    assert len(spoken.samples) == FRAME * 20
    assert not spoken.samples[FRAME * 10 :].any()


@pytest.mark.parametrize("period", [1, 4])
@in_loop
async def test_repetition_ends_the_utterance(period: int) -> None:
    spoken = await turn(Monotonous(10, period), "abc", repeat_timeout_s=1.6, max_frames_per_token=1000)
    assert spoken.done.stop_reason == "silence"
    assert len(spoken.samples) == FRAME * (10 + period + 20)


@in_loop
async def test_after_a_dead_sentence_the_others_are_spoken() -> None:
    spoken = await turn(Monotonous(2, 1, only="How"), repeat_timeout_s=0.8)
    assert spoken.done.stop_reason == "silence"
    assert len(spoken.sentences) == 4
    others = sum(len(each.text) for each in spoken.sentences if not each.text.startswith("How"))
    assert len(spoken.samples) == FRAME * (others + 2 + 1 + 10) + 3 * 2880


@pytest.mark.parametrize("mode", ["sentence", "token"])
@in_loop
async def test_stalled_text(mode: str) -> None:
    """What there is is spoken to its end, and the turn ends there; what comes later is the next turn."""
    engine = FakeEngine()
    config = StreamConfig(text_mode=mode, text_timeout_s=0.1)  # type: ignore[arg-type]
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        events = session.events()
        session.feed("Hello the")
        sound = [chunk async for chunk in session]
        assert sum(len(chunk.samples) for chunk in sound) == FRAME * len("Hello the")
        assert sound[-1].text_span == (sound[-1].text_span[0], len("Hello the"))
        seen = await until_done(events)
        assert [each.stop_reason for each in seen if isinstance(each, Done)] == ["stalled"]
        assert (await speak(session, "Late.")).done.stop_reason == "eos"
        assert engine.spoken[-1] == "Late."


@pytest.mark.parametrize("mode", ["sentence", "token"])
@in_loop
async def test_text_that_comes_back_while_the_rest_is_spoken_goes_on(mode: str) -> None:
    engine = FakeEngine(ar_ms=20)
    config = StreamConfig(text_mode=mode, text_timeout_s=0.1)  # type: ignore[arg-type]
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        events = session.events()
        session.feed("Hello there, ")
        while not session._turn.stalled:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        session.feed("my friend.")
        session.end()
        sound = [chunk async for chunk in session]
        assert sound[-1].text_span[1] == len("Hello there, my friend.")
        seen = await until_done(events)
        assert [each.stop_reason for each in seen if isinstance(each, Done)] == ["eos"]
        assert [each.text.strip() for each in seen if isinstance(each, SentenceStarted)][-1] == "my friend."
    assert "".join(engine.spoken).strip().replace(",m", ", m") == "Hello there, my friend."


@in_loop
async def test_a_stall_does_not_end_speak() -> None:
    engine = FakeEngine()
    config = StreamConfig(text_mode="token", text_timeout_s=0.1)

    async def llm():  # type: ignore[no-untyped-def]
        yield "One."
        while session.done is None:
            await asyncio.sleep(0.01)
        yield "Two."

    async with Tts(engine) as tts, tts.session(config=config) as session:
        feeding = asyncio.create_task(session.speak(llm()))
        for stop in ("stalled", "eos"):
            assert len([chunk async for chunk in session]) > 0
            assert session.done is not None
            assert session.done.stop_reason == stop
        await feeding
    assert engine.spoken == ["One.", "Two."]


@in_loop
async def test_slow_consumer() -> None:
    config = StreamConfig(max_buffered_s=0.4, consumer_timeout_s=0.1)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        events = session.events()
        session.feed(TEXT)
        session.end()
        seen = await until_done(events)
        assert [each.stop_reason for each in seen if isinstance(each, Done)] == ["slow_consumer"]
        assert [chunk async for chunk in aiter_or_next(session)] != []


async def aiter_or_next(session: Session):  # type: ignore[no-untyped-def]
    """The dropped turn is gone: the next one is what a late consumer gets."""
    session.feed("Next.")
    session.end()
    async for chunk in session:
        assert chunk.generation == 1
        yield chunk


@in_loop
async def test_a_turn_that_waits_for_the_sound_of_the_one_before() -> None:
    """Regression: nobody watched a consumer that did not even take the turn before."""
    config = StreamConfig(max_buffered_s=0.4, consumer_timeout_s=0.1)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        events = session.events()
        session.feed("Five.")
        session.end()
        assert (await until_done(events))[-1].stop_reason == "eos"  # type: ignore[union-attr]
        session.feed(TEXT)
        assert (await until_done(events))[-1].stop_reason == "slow_consumer"  # type: ignore[union-attr]


@in_loop
async def test_a_consumer_that_takes_is_not_slow() -> None:
    config = StreamConfig(max_buffered_s=0.3, consumer_timeout_s=2.0, chunk_frames=1)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        spoken = await speak(session, TEXT, lambda: asyncio.sleep(0.03))
        assert spoken.done.stop_reason == "eos"
        assert len(session._timers) == 0


# -- failures ----------------------------------------------------------------------------------


async def collect(session: Session, got: list[PcmChunk]) -> None:
    async for chunk in session:
        got.append(chunk)


@pytest.mark.parametrize("where", ["talker", "codec"])
@pytest.mark.parametrize("frame", [0, 1, 20])
@in_loop
async def test_a_failure_reaches_the_consumer(where: str, frame: int) -> None:
    engine = FakeEngine(fail_at_frame=frame, fail_in=where)
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        events = session.events()
        for generation in range(3):
            session.feed("This is one sentence of text")
            session.end()
            got: list[PcmChunk] = []
            with pytest.raises(StreamError, match=f"the fake {where} was told to fail") as caught:
                await collect(session, got)
            assert isinstance(caught.value.__cause__, RuntimeError)
            assert {chunk.generation for chunk in got} <= {generation}
            seen = await until_done(events)
            assert [each.stop_reason for each in seen if isinstance(each, Done)] == ["error"]
            assert not session.pending
        engine.fail_at_frame = None
        spoken = await speak(session, TEXT)
        np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))
        assert {chunk.generation for chunk in spoken.chunks} == {3}


@in_loop
async def test_a_failure_is_told_while_the_consumer_waits_and_to_no_one_else() -> None:
    class OneBad(FakeEngine):
        def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
            if manner.speaker == "bob":
                raise TextError("bob does not say that")
            return super().utterance(text, manner, settings)

    engine = OneBad(ar_ms=1)
    async with Tts(engine) as tts, tts.session("bob") as bad, tts.session("alice", seed=1) as good:
        fine = asyncio.create_task(speak(good, TEXT))
        with pytest.raises(StreamError, match="bob does not say that") as caught:
            await speak(bad, "Hello.")
        assert isinstance(caught.value.__cause__, TextError)
        spoken = await fine
        np.testing.assert_array_equal(
            spoken.samples, offline(engine, spoken, manner=Manner(language="auto", speaker="alice"))
        )


@in_loop
async def test_failures_do_not_use_up_the_buffer() -> None:
    """Regression: sound of a failed turn was counted as waiting for ever."""
    engine = FakeEngine(fail_at_frame=8, fail_in="codec")
    config = StreamConfig(max_buffered_s=1.0)
    async with Tts(engine) as tts, tts.session(config=config) as session:
        for _ in range(20):
            with pytest.raises(StreamError):
                await speak(session, TEXT)
        engine.fail_at_frame = None
        assert (await speak(session, TEXT)).done.stop_reason == "eos"


class Late(FakeEngine):
    """Fails at the text "BAD", after its listener has had time to fall behind."""

    max_rows = 1

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        if text is not None and "BAD" in text:
            assert self.go_on.wait(TIMEOUT_S)
            raise RuntimeError("it does not say that")
        return super().utterance(text, manner, settings)


@pytest.mark.parametrize("earlier", [False, True])
@in_loop
async def test_what_is_heard_after_a_failure_is_of_the_turn_that_plays(earlier: bool) -> None:
    """Regression: sound of the failed turn that nobody took still counted, and the next turn was laid over it."""
    engine = Late()
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        events = session.events()
        first = "This one is whole. " if earlier else ""
        if earlier:
            session.feed(first)
            session.end()
            await until_done(events)
        session.feed("A sentence that is made and that nobody takes. BAD is the next one.")
        session.end()
        await settled(lambda: round(session.made_s * 1e3))
        engine.go_on.set()
        await until_done(events)
        assert session.made_s == pytest.approx(len(first.strip()) * 0.08)
        whole = [len(chunk.samples) async for chunk in session] if earlier else []
        assert sum(whole) == FRAME * len(first.strip())
        with pytest.raises(StreamError):
            await collect(session, [])
        session.feed("The next turn says quite another thing.")
        chunks, taken = aiter(session), 0
        while taken < FRAME * 10:
            chunk = await anext(chunks)
            taken += len(chunk.samples)
        assert chunk.t_start_s * 24000 + len(chunk.samples) == pytest.approx(sum(whole) + taken)
        heard = await session.interrupt()
        assert heard.seconds == pytest.approx(taken / 24000)
        assert heard.text
        assert "The next turn says quite another thing.".startswith(heard.text)


# -- back-pressure -----------------------------------------------------------------------------


@pytest.mark.parametrize(("ring", "chunk"), [(1, 1), (1, 300), (64, 12), (5, 300)])
@in_loop
async def test_nothing_is_made_that_nobody_takes(ring: int, chunk: int) -> None:
    """With chunks larger than the buffer, too: regression, that was a deadlock."""
    engine = FakeEngine()
    config = StreamConfig(
        ring_frames=ring,
        chunk_frames=chunk,
        first_chunk_frames=chunk,
        max_buffered_s=0.8,
        prefetch_sentences=0,
    )
    text = "x" * 150
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        session.feed(text)
        session.end()
        stream = session._stream
        bound = 10 + ring + 1
        await settled(lambda: sum(job.frames for job in stream.jobs))
        assert sum(job.frames for job in stream.jobs) <= bound
        taken, most = 0, 0
        async for each in session:
            taken += len(each.samples) // FRAME
            await settled(lambda: sum(job.frames for job in stream.jobs))
            most = max(most, sum(job.frames for job in stream.jobs) - taken)
            if taken > 40:
                break
        assert most <= bound
        async for each in session:
            taken += len(each.samples) // FRAME
        assert taken == 150


@in_loop
async def test_silence_between_sentences_waits_to_be_taken_like_sound() -> None:
    """Regression: it was counted when it was taken and not when it was made, so that the limit rose with every gap."""
    config = StreamConfig(max_buffered_s=1.0, sentence_gap_s=2.0, chunk_frames=1)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        for _ in range(3):
            assert len((await speak(session, TEXT)).sentences) == 4
        assert session._desk.lead_s() >= 0
        session.feed("x" * 150)
        session.end()
        await settled(lambda: round(session.made_s * 1e3))
        waiting = sum(len(chunk.samples) for turn in session._turns for chunk in turn.ready)
        assert waiting <= 24000 + FRAME


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@in_loop
async def test_prefetch(prefetch: int) -> None:
    config = StreamConfig(prefetch_sentences=prefetch, max_buffered_s=0.2)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        events = session.events()
        session.feed("One is here. Two is here. Three is here. Four is here. Five is here.")
        session.end()
        await settled(lambda: len(session._stream.jobs))
        assert len(session._stream.jobs) == prefetch + 1
        async for _ in session:
            pass
        seen = await until_done(events)
        assert [each.index for each in seen if isinstance(each, SentenceStarted)] == [0, 1, 2, 3, 4]


@in_loop
async def test_an_underrun_of_the_sink_is_an_event() -> None:
    async with (
        Tts(FakeEngine()) as tts,
        tts.session(config=StreamConfig(ramp="fixed", chunk_frames=2)) as session,
    ):
        buffer, events = PlaybackBuffer(), session.events()
        session.attach(buffer)
        session.feed("abcdef")
        session.end()
        async for chunk in session:
            buffer.push(chunk)
            buffer.pull(len(chunk.samples) + 240)
        buffer.finish()
        await asyncio.sleep(0)
        holes = []
        async for event in events:
            if isinstance(event, Underrun):
                holes.append(event)
                if len(holes) == buffer.underruns:
                    break
        assert buffer.underruns == 3
        assert [hole.missing_s for hole in holes] == pytest.approx([0.01] * 3)
        assert [hole.at_s for hole in holes] == pytest.approx([0.08, 0.24, 0.40])


# -- a slow machine ----------------------------------------------------------------------------


@in_loop
async def test_preroll_of_a_slow_machine_is_reported() -> None:
    async with Tts(FakeEngine(ar_ms=120)) as tts, tts.session() as session:
        await speak(session, "Hi there.")  # now it is known how slow it is
        spoken = await speak(session, "How are you?")
    assert spoken.done.metrics.preroll_s > 0
    first = len(spoken.chunks[0].samples) // FRAME
    assert spoken.done.metrics.preroll_s == pytest.approx((first - 1) * 0.08)
