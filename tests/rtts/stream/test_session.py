"""A session from its first word to its end: text in, chunks and events out, and every way to use it wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from rtts import StreamConfig, Tts
from rtts.errors import RequestError, TextError, VoiceError
from rtts.stream.events import ChunkReady, Done, Heard, SentenceStarted, Started, Underrun
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.session import Session
from rtts.testing import FakeEngine

from .helpers import FRAME, TEXT, check_spans, in_loop, offline, speak, threads, until_done

# -- events and turns --------------------------------------------------------------------------


@in_loop
async def test_events_come_in_order() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        spoken = await speak(session, TEXT)
    kinds = [type(event) for event in spoken.events]
    assert kinds[0] is Started
    assert kinds[-1] is Done
    assert kinds.count(Started) == kinds.count(Done) == 1
    assert kinds.count(SentenceStarted) == 4
    assert kinds.count(ChunkReady) == len(spoken.chunks)
    assert kinds.index(SentenceStarted) < kinds.index(ChunkReady)
    sentences = spoken.sentences
    assert [each.index for each in sentences] == [0, 1, 2, 3]
    assert [TEXT[slice(*each.text_span)] for each in sentences] == [each.text for each in sentences]
    assert spoken.done.stop_reason == "eos"
    check_spans(spoken, TEXT)


@in_loop
async def test_events_start_when_they_are_asked_for() -> None:
    """Regression: they started at the first look, so that what happened before was missed."""
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        early = session.events()
        spoken = await speak(session, "Hello.")
        late = session.events()
        assert await until_done(early) == spoken.events
        await speak(session, "Again.")
        assert isinstance((await until_done(late))[0], Started)
        assert len(session._subscribers) == 2
        del early, late
        gc.collect()
        assert len(session._subscribers) == 0


@in_loop
async def test_events_end_with_the_session_and_none_is_lost() -> None:
    async with Tts(FakeEngine(ar_ms=1)) as tts:
        session = tts.session()
        events = session.events()
        session.feed(TEXT)
        await session.aclose()
        seen = [event async for event in events]
        assert [type(seen[0]), type(seen[-1])] == [Started, Done]
        assert seen[-1].stop_reason == "cancelled"  # type: ignore[union-attr]
        assert [event async for event in events] == []


@in_loop
async def test_metrics() -> None:
    async with Tts(FakeEngine(ar_ms=1, codec_ms=1)) as tts, tts.session() as session:
        spoken = await speak(session, TEXT)
        assert session.done == spoken.done
    metrics = spoken.done.metrics
    assert metrics.frames == len(TEXT)
    assert metrics.audio_s == pytest.approx(len(TEXT) * 0.08)
    assert metrics.rtf is not None and metrics.rtf > 0  # noqa: PT018
    assert metrics.ar_ms_per_frame is not None and metrics.ar_ms_per_frame >= 1  # noqa: PT018
    assert metrics.codec_ms_per_frame is not None and metrics.codec_ms_per_frame >= 1  # noqa: PT018
    assert (metrics.underruns, metrics.preroll_s) == (0, 0)
    line = metrics.timeline
    steps = [line.sentence_ms, line.prefill_ms, line.frame_ms, line.pcm_ms, line.chunk_ms]
    assert all(step is not None for step in steps)
    assert steps == sorted(steps)  # type: ignore[type-var]
    assert line.text_end_ms is not None
    assert metrics.wall_s * 1e3 >= line.chunk_ms  # type: ignore[operator]


@in_loop
async def test_metrics_of_a_silent_turn() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        for text in ("", "... --- !!", "   \n"):
            spoken = await speak(session, text)
            assert spoken.chunks == []
            assert spoken.done.stop_reason == "eos"
            assert spoken.done.metrics.audio_s == spoken.done.metrics.frames == 0
            assert spoken.done.metrics.rtf is spoken.done.metrics.timeline.chunk_ms is None


@in_loop
async def test_marks_alone_are_not_spoken_and_belong_to_the_text_before() -> None:
    engine = FakeEngine()
    config = StreamConfig(clean_text=False)
    text = "... Well, this is it! --- And that. ...  "
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        spoken = await speak(session, text)
    assert all(any(c.isalnum() for c in each) for each in engine.spoken)
    np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))
    check_spans(spoken, text)


@in_loop
async def test_markup_is_cleaned_unless_told_otherwise() -> None:
    text = "**Hello** there, see [this](http://a.b/c)! Bye 🙂."
    engine = FakeEngine()
    async with Tts(engine) as tts:
        async with tts.session() as session:
            check_spans(await speak(session, text), text)
        assert "".join(engine.spoken) == "Hello there, see this! Bye."
        engine.spoken.clear()
        async with tts.session(config=StreamConfig(clean_text=False)) as session:
            check_spans(await speak(session, text), text)
        assert "".join(engine.spoken) == text


@in_loop
async def test_chinese_has_spans_within_its_sentences() -> None:
    """Regression: words were looked for between spaces, so that a sentence was heard as a whole or not at all."""
    text = "你好，很高兴认识你。今天天气真好！"
    async with Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        spoken = await speak(session, text)
    check_spans(spoken, text)
    assert len({chunk.text_span for chunk in spoken.chunks}) > 2


@in_loop
async def test_a_language_that_the_segmenter_does_not_know() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(language="sichuan_dialect") as session:
        assert (await speak(session, TEXT)).done.stop_reason == "eos"


@in_loop
async def test_text_given_late_is_spoken_late() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        chunks = aiter_chunks(session)
        session.feed("Hello there. How are ")
        first = await anext(chunks)
        assert first.text_span[0] == 0
        session.feed("you?")
        session.end()
        rest = [chunk async for chunk in chunks]
        assert rest[-1].text_span[1] == len("Hello there. How are you?")


def aiter_chunks(session: Session) -> AsyncIterator:  # type: ignore[type-arg]
    return aiter(session)


@in_loop
async def test_end_after_the_sound_is_out() -> None:
    """Regression: ``end`` took the turn for finished while its last chunk was on the way, and it was lost."""
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        for delay in range(60):
            session.feed("Yes it is. ")
            session.feed("N")  # the sentence before it is complete now
            for _ in range(delay % 20):
                await asyncio.sleep(0)
            session.end()
            sound = [chunk.samples async for chunk in session]
            assert sum(map(len, sound)) == FRAME * len("Yes it is. N") + 2880


@in_loop
async def test_iteration_waits_for_a_turn_and_stops_behind_it() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        waiting = asyncio.create_task(count(session))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        session.feed("Ab. ")
        session.end()
        assert await waiting == FRAME * 3  # without the space behind it
        assert not session.pending


async def count(session: Session) -> int:
    return sum([len(chunk.samples) async for chunk in session])


@in_loop
async def test_turns_wait_for_their_consumer() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        for text in ("One.", "Three."):
            events = session.events()
            session.feed(text)
            session.end()
            await until_done(events)
        assert [await count(session), await count(session)] == [FRAME * 4, FRAME * 6]


@in_loop
async def test_an_iteration_that_was_left_goes_on_in_the_next() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        session.feed(TEXT)
        session.end()
        got = []
        async for chunk in session:
            got.append(chunk)
            break
        gc.collect()
        got += [chunk async for chunk in session]
        assert sum(len(chunk.samples) for chunk in got) == FRAME * len(TEXT) + 3 * 2880


@in_loop
async def test_a_cancelled_consumer_leaves_the_turn_to_the_next() -> None:
    async with Tts(FakeEngine(ar_ms=2)) as tts, tts.session(seed=1) as session:
        session.feed(TEXT)
        task = asyncio.create_task(count(session))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.end()
        rest = [chunk async for chunk in session]
        assert rest[-1].text_span[1] == len(TEXT)


# -- wrong use ---------------------------------------------------------------------------------


@in_loop
async def test_feed_after_end() -> None:
    async with Tts(FakeEngine(ar_ms=5)) as tts, tts.session() as session:
        session.feed("Hello there.")
        session.end()
        session.end()  # no effect
        with pytest.raises(RequestError, match="the turn was ended"):
            session.feed("more")
        await session.interrupt()
        session.feed("more")


@in_loop
async def test_text_errors_are_raised_by_feed_and_change_nothing() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        with pytest.raises(TextError, match="lone surrogate"):
            session.feed("\ud800")
        assert not session.pending
        session.feed("Hel")
        with pytest.raises(TextError, match="lone surrogate"):
            session.feed("x\udfff")
        session.feed("lo.")
        session.end()
        async for _ in session:
            pass
        assert engine.spoken == ["Hello."]


@in_loop
async def test_bad_voices_and_seeds_are_refused_at_once() -> None:
    async with Tts(FakeEngine(), max_sessions=1) as tts:
        with pytest.raises(VoiceError, match="'carol' is unknown"):
            tts.session("carol")
        with pytest.raises(VoiceError, match=r"nobody\.safetensors"):
            tts.session("nobody.safetensors")
        for seed in (-1, 2**63, 1.5, "7", True):
            with pytest.raises(RequestError, match="seed is"):
                tts.session(seed=seed)  # type: ignore[arg-type]
        async with tts.session("bob"):  # no seat was lost to them
            pass


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"config": {"ramp": "fixed"}}, "config is dict, expected a StreamConfig"),
        ({"config": []}, "config is list"),
        ({"text_layout": "both"}, "text_layout is 'both', expected 'streaming', 'full' or None"),
    ],
)
@in_loop
async def test_other_unfit_arguments_are_refused_at_once(arguments: dict[str, Any], line: str) -> None:
    async with Tts(FakeEngine(), max_sessions=1) as tts:
        with pytest.raises(RequestError, match=line):
            tts.session(**arguments)
        async with tts.session():
            pass


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2", None])
def test_max_sessions_is_a_number(number: Any) -> None:
    with pytest.raises(RequestError, match=r"max_sessions is .*, expected an integer from 1 on"):
        Tts(FakeEngine(), max_sessions=number)
    assert threads() == []


def test_a_session_needs_a_loop() -> None:
    tts = Tts(FakeEngine(), max_sessions=1)
    with pytest.raises(RequestError, match="a session needs a running event loop"):
        tts.session()
    asyncio.run(tts.aclose())


@in_loop
async def test_another_thread_is_told_how_to_reach_the_session() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:

        async def elsewhere() -> None:
            await session.interrupt()

        for call in (lambda: session.feed("Hello."), session.end, lambda: asyncio.run(elsewhere())):
            with pytest.raises(RequestError, match=r"in the event loop that opened it.*call_soon_threadsafe"):
                await asyncio.to_thread(call)
        assert not session.pending


@in_loop
async def test_seats() -> None:
    async with Tts(FakeEngine(), max_sessions=2) as tts:
        async with tts.session(), tts.session():
            with pytest.raises(RequestError, match="2 sessions are open on this model already"):
                tts.session()
        async with tts.session() as session:
            assert await count_turn(session) == FRAME * 6


async def count_turn(session: Session) -> int:
    return len((await speak(session, "Hello.")).samples)


@in_loop
async def test_everything_after_close_is_one_clear_error() -> None:

    async def iterate() -> None:
        async for _ in session:
            pass

    async def interrupt() -> None:
        await session.interrupt()

    async def say() -> None:
        await session.speak(tokens("a"))

    async with Tts(FakeEngine()) as tts:
        session = tts.session()
        session.feed("Hello.")
        await session.aclose()
        await session.aclose()
        assert session.closed
        for use in (
            lambda: session.feed("a"),
            session.end,
            session.events,
            lambda: session.attach(PlaybackBuffer()),
        ):
            with pytest.raises(RequestError, match="the session is closed; open another one"):
                use()
        for wrong in (iterate, interrupt, say):
            with pytest.raises(RequestError, match="the session is closed; open another one"):
                await wrong()
    with pytest.raises(RequestError, match="the model is closed"):
        tts.session()
    await tts.aclose()


# -- speak -------------------------------------------------------------------------------------


async def tokens(*pieces: str | BaseException, closed: list[bool] | None = None) -> AsyncIterator[str]:
    try:
        for piece in pieces:
            await asyncio.sleep(0)
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        if closed is not None:
            closed.append(True)


@in_loop
async def test_speak_feeds_and_ends() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session() as session:
        task = asyncio.create_task(count(session))
        await session.speak(tokens("Hel", "lo. ", "", "Bye."))
        assert await task == FRAME * 11 + 2880
        assert engine.spoken == ["Hello. ", "Bye."]


@in_loop
async def test_speak_nothing_is_a_turn_without_sound() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        task = asyncio.create_task(count(session))
        await session.speak(tokens())
        assert await task == 0
        assert session.done is not None
        assert session.done.stop_reason == "eos"


@in_loop
async def test_a_failing_iterator_is_told_and_what_it_gave_is_spoken() -> None:
    engine, closed = FakeEngine(), list[bool]()
    async with Tts(engine) as tts, tts.session() as session:
        task = asyncio.create_task(count(session))
        with pytest.raises(ConnectionError, match="the LLM is gone"):
            await session.speak(tokens("Hello", ConnectionError("the LLM is gone"), "there", closed=closed))
        assert await task == FRAME * 5
        assert engine.spoken == ["Hello"]
        assert closed == [True]


async def late() -> AsyncIterator[str]:
    await asyncio.sleep(60)
    yield "Too late."


@in_loop
async def test_whoever_waits_is_told_of_an_iterator_that_fails_at_once() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        task = asyncio.create_task(count(session))
        with pytest.raises(ConnectionError, match="refused"):
            await session.speak(tokens(ConnectionError("refused")))
        assert await asyncio.wait_for(task, 60) == 0

        task = asyncio.create_task(count(session))
        speaking = asyncio.create_task(session.speak(late()))
        await asyncio.sleep(0)
        speaking.cancel()
        assert await asyncio.wait_for(task, 60) == 0


@in_loop
async def test_a_piece_that_is_no_text_ends_the_turn_too() -> None:
    closed = list[bool]()
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        task = asyncio.create_task(count(session))
        with pytest.raises(TextError):
            await session.speak(tokens("Hello", "\ud800", "there", closed=closed))
        assert await task == FRAME * 5
        assert closed == [True]  # the iterator is let go at once


@in_loop
async def test_an_interrupted_speak_feeds_nothing_more() -> None:
    engine, closed = FakeEngine(), list[bool]()

    async def llm() -> AsyncIterator[str]:
        try:
            yield "Hello there. "
            await asyncio.Event().wait()
            yield "This is stale. "
        finally:
            closed.append(True)

    async with Tts(engine) as tts, tts.session() as session:
        task = asyncio.create_task(session.speak(llm()))
        await asyncio.sleep(0.01)
        await session.interrupt()
        session.feed("A new turn.")
        await task  # although the LLM says nothing more
        assert closed == [True]
        session.end()
        assert await count(session) == FRAME * len("A new turn.")
    assert "".join(engine.spoken).count("stale") == 0


@in_loop
async def test_nothing_of_an_iterator_that_goes_on_reaches_the_next_turn() -> None:
    engine, gone = FakeEngine(), asyncio.Event()

    async def stubborn() -> AsyncIterator[str]:
        yield "Old. "
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await gone.wait()
        yield "Stale. "

    async with Tts(engine) as tts, tts.session() as session:
        speaking = asyncio.create_task(session.speak(stubborn()))
        for _ in range(5):
            await asyncio.sleep(0)
        await session.interrupt()
        session.feed("New. ")
        gone.set()
        await speaking
        session.end()
        await count(session)
        assert engine.spoken[-1] == "New."


@pytest.mark.parametrize("call", ["interrupt", "aclose"])
@in_loop
async def test_an_iterator_may_end_its_own_turn(call: str) -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:

        async def llm() -> AsyncIterator[str]:
            yield "One. "
            await getattr(session, call)()
            yield "Two. "

        await session.speak(llm())
        assert not session.pending


@in_loop
async def test_an_iterator_that_never_waits_lets_others_run() -> None:
    async def endless() -> AsyncIterator[str]:
        for _ in range(1000):  # would be endless
            yield "word "
        raise AssertionError("nobody else has run")

    async with Tts(FakeEngine()) as tts, tts.session() as session:
        speaking = asyncio.create_task(session.speak(endless()))
        for _ in range(10):
            await asyncio.sleep(0)
        await session.interrupt()
        await speaking


@in_loop
async def test_an_interruption_before_the_first_token_counts() -> None:
    """Regression: a turn that the user had interrupted while the LLM was still thinking was spoken."""
    engine = FakeEngine()

    async def llm() -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield "This is stale."

    async with Tts(engine) as tts, tts.session() as session:
        task = asyncio.create_task(session.speak(llm()))
        await asyncio.sleep(0)
        await session.interrupt()
        await task
        assert not session.pending
    assert engine.spoken == []


@in_loop
async def test_a_cancelled_speak_ends_the_turn() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session() as session:

        async def llm() -> AsyncIterator[str]:
            yield "Hello there. And"
            await asyncio.Event().wait()

        task = asyncio.create_task(session.speak(llm()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await count(session) == FRAME * len("Hello there. And") + 2880
        assert session.done is not None
        assert session.done.stop_reason == "eos"


@in_loop
async def test_closing_the_session_ends_speak() -> None:

    async def llm() -> AsyncIterator[str]:
        yield "Hello there. "
        await asyncio.Event().wait()
        yield "Stale."

    async with Tts(FakeEngine()) as tts:
        session = tts.session()
        task = asyncio.create_task(session.speak(llm()))
        await asyncio.sleep(0.01)
        await session.aclose()
        await task


@in_loop
async def test_speak_runs_the_iterator_in_one_task() -> None:
    """Timeouts and cancel scopes of the LLM's client span several pieces."""
    tasks = set()

    async def llm() -> AsyncIterator[str]:
        for piece in ("Hello ", "there. ", "Bye."):
            tasks.add(asyncio.current_task())
            yield piece
        tasks.add(asyncio.current_task())

    async with Tts(FakeEngine()) as tts, tts.session() as session:
        await session.speak(llm())
        assert len(tasks) == 1
        await count(session)


@pytest.mark.parametrize("text", [["Hello", "there"], "Hello", None])
@in_loop
async def test_speak_takes_asynchronous_text_only(text: object) -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        with pytest.raises(RequestError, match=f"asynchronous iterator of text, not {type(text).__name__}"):
            await session.speak(text)  # type: ignore[arg-type]
        assert not session.pending


@in_loop
async def test_one_sink_at_a_time() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        first, second = PlaybackBuffer(), PlaybackBuffer()
        session.attach(first)
        session.attach(first)
        with pytest.raises(RequestError, match="the session has a sink; stop that one first"):
            session.attach(second)
        assert session.buffer is first
        session.detach(second)  # not the one that is attached
        with pytest.raises(RequestError, match="the session has a sink"):
            session.attach(second)
        for other in (None, object(), np.zeros(1)):
            with pytest.raises(RequestError, match="expected a PlaybackBuffer"):
                session.attach(other)  # type: ignore[arg-type]
        session.detach(first)
        session.attach(second)
        assert session.buffer is second


@pytest.mark.parametrize("then", ["nothing", "another sink", "an iteration"])
@in_loop
async def test_what_was_heard_when_the_sink_is_gone(then: str) -> None:
    """Regression: what was taken without a sink, or with another one, was measured by the sink that had gone."""
    text = "Hello there my friend. This is said by someone else."
    async with Tts(FakeEngine()) as tts, tts.session(seed=1, config=StreamConfig(chunk_frames=1)) as session:
        first, second = PlaybackBuffer(), PlaybackBuffer()
        session.attach(first)
        session.feed(text)
        session.end()
        chunks = aiter_chunks(session)
        for _ in range(12):
            first.push(await anext(chunks))
        first.pull(6 * FRAME)
        session.detach(first)
        assert session._desk.buffer is None
        heard = 6
        if then == "another sink":
            session.attach(second)
            assert session._playhead.played == 6 * FRAME
            second.push(await anext(chunks))
            second.pull(FRAME)
            heard = 13
        elif then == "an iteration":
            await anext(chunks)
            heard = 13
        assert await session.interrupt() == Heard(
            "Hello there my friend. "[: 6 if heard == 6 else 12], pytest.approx(heard * 0.08)
        )


# -- interrupt ---------------------------------------------------------------------------------


@in_loop
async def test_interrupt_before_the_first_chunk() -> None:
    async with Tts(FakeEngine(ar_ms=200)) as tts, tts.session() as session:
        events = session.events()
        session.feed("Hello there. How are you?")
        assert await session.interrupt() == Heard("", 0.0)
        assert (await until_done(events))[-1].stop_reason == "cancelled"  # type: ignore[union-attr]
        assert not session.pending


@in_loop
async def test_interrupt_in_the_middle_tells_what_was_taken() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1, config=StreamConfig(chunk_frames=4)) as session:
        session.feed(TEXT)
        session.end()
        chunks = aiter_chunks(session)
        taken = [await anext(chunks) for _ in range(3)]
        heard = await session.interrupt()
        assert heard.text == TEXT[: taken[-1].text_span[1]]
        assert heard.seconds == pytest.approx(sum(len(chunk.samples) for chunk in taken) / 24000)
        assert [chunk async for chunk in chunks] == []  # the iteration ends
        assert await session.interrupt() == Heard("", 0.0)  # twice in a row


@in_loop
async def test_interrupt_between_sentences_is_exact() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        session.feed(TEXT)
        session.end()
        first = TEXT.index("How")
        samples = 0
        async for chunk in session:
            samples += len(chunk.samples)
            if samples == FRAME * first:
                break
        assert await session.interrupt() == Heard(TEXT[:first], pytest.approx(first * 0.08))


@in_loop
async def test_interrupt_after_the_turn_was_taken() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1) as session:
        spoken = await speak(session, TEXT)
        heard = await session.interrupt()
        assert heard == Heard(TEXT, pytest.approx(len(spoken.samples) / 24000))
        assert await session.interrupt() == Heard("", 0.0)
        assert session.done == spoken.done  # it had ended; there is no second one


@in_loop
async def test_interrupt_of_an_idle_session() -> None:
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        assert await session.interrupt() == Heard("", 0.0)
        assert session.done is None
        spoken = await speak(session, "Hello.")
        assert {chunk.generation for chunk in spoken.chunks} == {1}


@in_loop
async def test_generations_go_up_and_the_next_turn_is_whole() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1) as session:
        for generation in range(20):
            events = session.events()
            session.feed(TEXT)
            chunks = aiter_chunks(session)
            chunk = await anext(chunks)
            assert chunk.generation == generation
            await session.interrupt()
            seen = await until_done(events)
            assert seen[0] == Started(generation)
            assert [each.stop_reason for each in seen if isinstance(each, Done)] == ["cancelled"]
        spoken = await speak(session, TEXT)
        np.testing.assert_array_equal(spoken.samples, offline(engine, spoken))


@in_loop
async def test_positions_follow_what_was_handed_out() -> None:
    """What an interruption drops leaves no hole in the session's sound and text."""
    async with Tts(FakeEngine()) as tts, tts.session() as session:
        session.feed(TEXT)
        taken = await anext(aiter_chunks(session))
        await session.interrupt()
        assert session.made_s == pytest.approx(len(taken.samples) / 24000)
        spoken = await speak(session, "Hello.")
        assert spoken.chunks[0].t_start_s == pytest.approx(session.made_s - 6 * 0.08)
        check_spans(spoken, "Hello.", start=len(TEXT))


# -- close -------------------------------------------------------------------------------------


@in_loop
async def test_close_with_work_in_flight() -> None:
    async with Tts(FakeEngine(ar_ms=1)) as tts:
        async with tts.session() as session:
            session.feed(TEXT * 20)
            waiting = asyncio.create_task(count(session))
            await asyncio.sleep(0.02)
        await waiting  # ends with the session


@in_loop
async def test_closing_the_model_ends_its_sessions() -> None:
    """Regression: consumers of its sessions waited for ever."""
    tts = Tts(FakeEngine(ar_ms=1))
    sessions = [tts.session() for _ in range(3)]
    for session in sessions[:2]:
        session.feed(TEXT * 20)
    waiting = [asyncio.create_task(count(session)) for session in sessions]
    await asyncio.sleep(0.02)
    await tts.aclose()
    await asyncio.gather(*waiting)
    assert all(session.closed for session in sessions)
    for session in sessions:
        await session.aclose()
    await tts.aclose()


@in_loop
async def test_a_hook_that_fails_keeps_neither_the_seat_nor_the_threads() -> None:
    def fail() -> None:
        raise RuntimeError("the hook")

    tts = Tts(FakeEngine(), max_sessions=1)
    for close in (True, False):
        session, buffer = tts.session(), PlaybackBuffer()
        buffer.on_interrupt = fail
        session.attach(buffer)
        with pytest.raises(RuntimeError, match="the hook"):
            await (session if close else tts).aclose()
        assert session.closed
    assert threads() == []


@in_loop
async def test_an_error_in_the_body_passes_through() -> None:
    async def body() -> None:
        async with Tts(FakeEngine(ar_ms=1)) as tts, tts.session() as session:
            session.feed(TEXT * 20)
            async for _ in session:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()


@in_loop
async def test_cancelling_everything() -> None:
    async def agent() -> None:
        async with Tts(FakeEngine(ar_ms=1)) as tts, tts.session() as session:
            await asyncio.gather(session.speak(forever()), count(session))

    async def forever() -> AsyncIterator[str]:
        while True:
            yield "Hello there. "
            await asyncio.sleep(0.001)

    task = asyncio.create_task(agent())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_loop_that_closes_first() -> None:
    """The threads find nobody to tell, and stop when told."""
    kept: list[Tts] = []

    async def main() -> None:
        tts = Tts(FakeEngine(ar_ms=1))
        kept.append(tts)
        session = tts.session()
        session.feed(TEXT * 20)
        async for _ in session:
            break

    asyncio.run(main())

    @in_loop
    async def close() -> None:
        await kept[0].aclose()

    close()


@in_loop
async def test_a_forgotten_session_still_closes_with_its_model() -> None:
    async with Tts(FakeEngine(ar_ms=1)) as tts:
        session = tts.session()
        session.feed(TEXT * 20)
        with contextlib.suppress(StopAsyncIteration):
            await anext(aiter_chunks(session))
        del session
        gc.collect()


@in_loop
async def test_many_sessions_open_and_close() -> None:
    async with Tts(FakeEngine(), max_sessions=3) as tts:

        async def talk(i: int) -> None:
            async with tts.session(seed=i) as session:
                if i % 3:
                    await speak(session, TEXT[: 20 + i])
                else:
                    session.feed(TEXT)

        for i in range(0, 60, 3):
            await asyncio.gather(*(talk(i + k) for k in range(3)))
        assert tts._workers._streams == []


@in_loop
async def test_a_buffers_own_underrun_callback_is_called_beside_the_sessions() -> None:
    told: list[float] = []
    buffer = PlaybackBuffer(on_underrun=lambda at_s, _missing_s: told.append(at_s))
    config = StreamConfig(text_mode="token", clean_text=False)
    async with Tts(FakeEngine()) as tts, tts.session(config=config) as session:
        events = session.events()
        session.attach(buffer)
        chunks = aiter(session)
        session.feed("ab")
        for _ in range(2):
            buffer.push(await anext(chunks))
        buffer.pull(3 * FRAME)  # one frame is missing
        session.feed("c")
        buffer.push(await anext(chunks))
        buffer.pull(10)
        assert told == [2 * 0.08]
        session.end()
        assert [chunk async for chunk in chunks] == []
        assert [event for event in await until_done(events) if isinstance(event, Underrun)]
