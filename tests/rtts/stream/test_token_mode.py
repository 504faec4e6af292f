"""Text that goes into the running talker: the codes of the finished text, however it arrives."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts import StreamConfig, Tts
from rtts.audio import to_pcm16
from rtts.stream.dispatch import sentence_seed
from rtts.stream.events import SentenceStarted, Started
from rtts.testing import FakeEngine
from rtts_engine.request import Settings

from .helpers import FRAME, MANNER, TEXT, TIMEOUT_S, Spoken, check_spans, in_loop, joined, speak, until_done

CONFIG = StreamConfig(text_mode="token", clean_text=False)


def whole(text: str, seed: int = 1) -> np.ndarray:
    return to_pcm16(FakeEngine().offline(text, MANNER, Settings(seed=seed)))


@pytest.mark.parametrize("step", [1, 2, 5, 1000])
@in_loop
async def test_any_split_is_the_whole_text(step: int) -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1, config=CONFIG) as session:
        spoken = await speak(session, [TEXT[i : i + step] for i in range(0, len(TEXT), step)])
    np.testing.assert_array_equal(spoken.samples, whole(TEXT))
    assert engine.spoken == [TEXT]
    assert len(spoken.sentences) == 1
    check_spans(spoken, TEXT)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_pace_and_configuration(data: st.DataObject) -> None:
    text = data.draw(
        st.text("ab ,.", min_size=1, max_size=30).filter(lambda text: any(map(str.isalpha, text)))
    )
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)) | {0, len(text)})
    config = StreamConfig(
        text_mode="token",
        clean_text=False,
        ring_frames=data.draw(st.integers(1, 9)),
        chunk_frames=data.draw(st.integers(1, 9)),
        max_buffered_s=data.draw(st.sampled_from([0.2, 30.0])),
    )

    async def main() -> None:
        async with Tts(FakeEngine()) as tts, tts.session(seed=3, config=config) as session:

            async def feed() -> None:
                for start, end in itertools.pairwise(cuts):
                    session.feed(text[start:end])
                    await asyncio.sleep(data.draw(st.sampled_from([0, 0.001, 0.003])))
                session.end()

            feeding = asyncio.create_task(feed())
            sound = [chunk async for chunk in session]
            await feeding
        np.testing.assert_array_equal(np.concatenate([chunk.samples for chunk in sound]), whole(text, 3))

    in_loop(main)()


@in_loop
async def test_speech_starts_before_the_text_ends() -> None:
    async with Tts(FakeEngine()) as tts, tts.session(seed=1, config=CONFIG) as session:
        chunks, samples = aiter(session), 0
        for word in ("Hello ", "there, ", "my ", "friend."):
            session.feed(word)
            while samples < FRAME * len(word):  # no end, no full stop: and yet it is all spoken
                samples += len((await anext(chunks)).samples)
            samples -= FRAME * len(word)
        session.end()
        assert [chunk async for chunk in chunks] == []


@in_loop
async def test_cleaned_text_is_what_is_spoken() -> None:
    text = "**Hello** there, [my](http://a.b) friend 🙂."
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1, config=StreamConfig(text_mode="token")) as session:
        spoken = await speak(session, list(text))
    assert engine.spoken == ["Hello there, my friend."]
    np.testing.assert_array_equal(spoken.samples, whole(engine.spoken[0]))
    check_spans(spoken, text)


@in_loop
async def test_nothing_is_opened_for_marks_alone() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1, config=CONFIG) as session:
        for text in ("", " ", "... ", "—"):
            assert (await speak(session, text)).chunks == []
        assert engine.spoken == []
        spoken = await speak(session, [" ", "... ", "so?"])  # but they are part of what follows
        np.testing.assert_array_equal(spoken.samples, whole(" ... so?"))


@in_loop
async def test_interrupted_open_text_is_gone() -> None:
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1, config=CONFIG) as session:
        for generation in range(50):
            events = session.events()
            session.feed("Hel")
            if generation % 2:
                await asyncio.sleep(0)
                session.feed("lo")
            await session.interrupt()
            assert await anext(events) == Started(generation)
            assert isinstance(await anext(events), SentenceStarted)
        spoken = await speak(session, list(TEXT))
        np.testing.assert_array_equal(spoken.samples, whole(TEXT))
        assert session._stream.jobs == []


@in_loop
async def test_sessions_wait_for_their_own_text() -> None:
    async with Tts(FakeEngine()) as tts:
        idle = tts.session(config=CONFIG)
        idle.feed("Hello")
        async with tts.session(seed=1, config=CONFIG) as session:
            np.testing.assert_array_equal((await speak(session, TEXT)).samples, whole(TEXT))
        await idle.aclose()


@pytest.mark.parametrize("step", [1, 7, 1000])
@in_loop
async def test_a_long_text_is_several_utterances(step: int) -> None:
    text = TEXT + " " + TEXT
    config = StreamConfig(text_mode="token", clean_text=False, max_utterance_chars=80)
    engine = FakeEngine()
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        spoken = await speak(session, [text[i : i + step] for i in range(0, len(text), step)])
    assert len(engine.spoken) > 2
    assert "".join(engine.spoken) == text
    assert all(len(each) <= 80 for each in engine.spoken)
    np.testing.assert_array_equal(
        spoken.samples,
        joined(
            [
                engine.offline(each, MANNER, Settings(seed=sentence_seed(1, i)))
                for i, each in enumerate(engine.spoken)
            ],
            config.sentence_gap_s,
        ),
    )
    check_spans(spoken, text)


@pytest.mark.parametrize(
    "moment", ["the codec is behind", "the talker is at its last frame", "it was closed"]
)
@in_loop
async def test_no_text_is_lost_to_an_utterance_that_ended_early(moment: str) -> None:
    """Regression: what was fed between the talker's last frame and the end of its sound was never spoken."""
    at_its_end, go_on = threading.Event(), threading.Event()

    class Early(FakeEngine):
        first = True

        def utterance(self, text, manner, settings):  # type: ignore[no-untyped-def]
            inner = super().utterance(text, manner, settings)
            if self.first:
                self.first, step = False, inner.next_frame

                def next_frame() -> np.ndarray | None:
                    if inner._frames < 6:
                        return step()
                    at_its_end.set()
                    assert go_on.wait(TIMEOUT_S)
                    inner.stop_reason = "eos"
                    return None

                inner.next_frame = next_frame  # type: ignore[method-assign]
            return inner

    engine = Early()
    config = dataclasses.replace(CONFIG, max_buffered_s=0.2)  # nobody takes: its sound does not end
    async with Tts(engine) as tts, tts.session(seed=1, config=config) as session:
        events = session.events()
        session.feed("Hello there")
        (job,) = session._stream.jobs
        await asyncio.to_thread(at_its_end.wait, TIMEOUT_S)
        if moment == "the codec is behind":
            go_on.set()
            while not job.generated:
                await asyncio.sleep(0.001)
        session.feed(", my ")
        session.feed("friend.")
        if moment == "it was closed":
            session.end()
        go_on.set()
        chunks = [await anext(aiter(session)) for _ in range(2)]
        if moment != "it was closed":
            session.end()
        chunks += [chunk async for chunk in session]
        spoken = Spoken(chunks, await until_done(events))
    assert engine.spoken == [", my friend."]
    late = engine.offline(", my friend.", MANNER, Settings(seed=sentence_seed(1, 1)))
    np.testing.assert_array_equal(spoken.samples[-len(late) :], to_pcm16(late))
    assert len(spoken.samples) == 6 * FRAME + 2880 + len(late)
    check_spans(spoken, "Hello there, my friend.")
    assert spoken.sentences[1].text_span[0] == len("Hello there")
