"""The shipped voice, streamed: the samples of its offline result."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import numpy as np
import pytest

import rtts
from rtts import StreamConfig
from rtts.errors import RequestError, VoiceError
from rtts.stream.session import Session
from rtts.text import Cleaner
from rtts_engine.model import Model
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.sampling import Draw, Sampling

from .helpers import I16, Spoken, check_spans, in_loop, joined, speak

TEXT = "Hello there. The train leaves at half past nine, I think."


def offline(model: Model, text: str, seed: int, *, token: bool = False) -> np.ndarray:
    settings = Settings(seed=seed, text_layout="streaming" if token else None)
    codes = np.array(list(model.frames(SpeechRequest(text, Manner(language="auto"), settings))))
    return model.codec.decode(model.codec_state(), codes)


def close(got: I16, want: I16) -> None:
    """1e-4 of full scale, and one step of rounding."""
    assert len(got) == len(want)
    assert np.abs(got.astype(int) - want).max() <= 1e-4 * 32767 + 1


@in_loop
async def test_sentences_equal_the_offline_result_whatever_the_chunks(shipped: Model) -> None:
    spoken: list[Spoken] = []
    async with rtts.open(shipped) as tts:
        for config in (
            StreamConfig(),
            StreamConfig(ramp="fixed", chunk_frames=7, ring_frames=1),
            StreamConfig(ramp="fixed", chunk_frames=1, ring_frames=2, max_buffered_s=0.2),
        ):
            async with tts.session(seed=4, config=config) as session:
                spoken.append(await speak(session, TEXT))
        async with tts.session(seed=4) as one, tts.session(seed=4) as two:  # side by side
            spoken += await asyncio.gather(speak(one, TEXT), speak(two, TEXT))
    for each in spoken:
        np.testing.assert_array_equal(each.samples, spoken[0].samples)
        check_spans(each, TEXT)
        assert each.done.stop_reason == "eos"
    sounds = [offline(shipped, each.text, each.seed) for each in spoken[0].sentences]
    assert len(sounds) == 2
    close(spoken[0].samples, joined(sounds, 0.12))


@in_loop
async def test_sampling_and_layout_reach_every_sentence(shipped: Model) -> None:
    cool = Sampling(Draw(temperature=0.2), Draw(temperature=0.2))
    async with (
        rtts.open(shipped) as tts,
        tts.session(seed=4, sampling=cool, text_layout="streaming") as session,
        tts.session(seed=4) as default,
    ):
        spoken = await speak(session, TEXT)
        usual = await speak(default, TEXT)
    sounds = [
        rtts.say(each.text, model=shipped, seed=each.seed, sampling=cool, text_layout="streaming").samples
        for each in spoken.sentences
    ]
    close(spoken.samples, joined(sounds, 0.12))
    assert not np.array_equal(spoken.samples[:20000], usual.samples[:20000])


@in_loop
async def test_token_mode_is_the_streaming_layout_of_the_cleaned_text(shipped: Model) -> None:
    source = "**Hello** there, [my](http://a.b) friend."
    cleaner = Cleaner()
    text = "".join(piece.text for piece in [*cleaner.feed(source), *cleaner.close()])
    want = joined([offline(shipped, text, 4, token=True)], 0.0)
    async with rtts.open(shipped) as tts:
        for pieces in ([source], list(source), ["**Hel", "lo** th", "ere, [my](", "http://a.b) fri", "end."]):
            async with tts.session(seed=4, config=StreamConfig(text_mode="token")) as session:
                spoken = await speak(session, pieces)
            close(spoken.samples, want)
            check_spans(spoken, source)

        async with tts.session(seed=4, config=StreamConfig(text_mode="token")) as session:
            feeding = asyncio.create_task(trickle(session, source))
            samples = [chunk.samples async for chunk in session]
            await feeding
            close(np.concatenate(samples), want)


async def trickle(session: Session, text: str) -> None:
    for character in text:
        session.feed(character)
        await asyncio.sleep(0.01)
    session.end()


@in_loop
async def test_what_the_model_cannot_do_is_refused_at_once(shipped: Model) -> None:
    async with rtts.open(shipped, max_sessions=1) as tts:
        with pytest.raises(VoiceError, match="nobody"):
            tts.session("nobody")
        with pytest.raises(RequestError, match="klingon"):
            tts.session(language="klingon")
        with pytest.raises(RequestError, match="is the streaming text layout"):
            tts.session(config=StreamConfig(text_mode="token"), text_layout="full")
        with pytest.raises(RequestError, match=r"sampling is 0\.7, expected Sampling or None"):
            tts.session(sampling=0.7)  # type: ignore[arg-type]
        async with tts.session():
            with pytest.raises(RequestError, match="1 sessions are open"):
                tts.session()


@in_loop
async def test_interruptions(shipped: Model) -> None:
    async with rtts.open(shipped) as tts, tts.session(seed=4) as session:
        want = (await speak(session, "Hello there.")).samples
        for i in range(20):
            session.feed(TEXT)
            for _ in range(i % 5):
                await asyncio.sleep(0.01)
            heard = await session.interrupt()
            assert heard.text == ""
        np.testing.assert_array_equal((await speak(session, "Hello there.")).samples, want)


@in_loop
async def test_the_engine_never_works_on_the_loops_thread(
    shipped: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: set[str] = set()

    def noted(name: str) -> None:
        inner = getattr(Model, name)

        def call(self: Model, *args: object) -> object:
            workers.add(threading.current_thread().name)
            return inner(self, *args)

        monkeypatch.setattr(Model, name, call)

    for name in ("stream", "codec_state", "incremental_text"):
        noted(name)
    async with rtts.open(shipped) as tts:
        for mode in ("sentence", "token"):
            async with tts.session(config=StreamConfig(text_mode=mode)) as session:  # type: ignore[arg-type]
                await speak(session, "Hello.")
    assert workers == {"rtts-talker", "rtts-codec"}


@in_loop
async def test_a_cloned_voice_behind_its_clip(base_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to the offline result, and the clip is decoded once, not for every sentence."""
    model = Model.load(base_model)
    clip = (0.1 * np.random.default_rng(0).standard_normal(24000)).astype(np.float32)
    voice, vector = model.clone(clip, "What the clip says."), model.clone(clip)
    primed: list[object] = []
    codec_state = model.codec_state
    monkeypatch.setattr(model, "codec_state", lambda *args: primed.append(args) or codec_state(*args))
    config = StreamConfig(max_frames_per_token=4)
    async with rtts.open(model) as tts:
        async with tts.session(voice, seed=2, config=config) as session:
            spoken = await speak(session, "Hi. Bye.")
        assert len(spoken.sentences) == 2
        assert len(primed) == 1
        with pytest.raises(RequestError, match="reference codes needs whole sentences"):
            tts.session(voice, config=StreamConfig(text_mode="token"))
        async with tts.session(vector, seed=2, config=StreamConfig(text_mode="token")) as session:
            assert (await speak(session, "Hi.")).chunks
        with pytest.raises(VoiceError):
            tts.session()  # a Base model has no voice of its own
    manner = Manner(language="auto", voice=voice.prompt)
    sounds = []
    for each in spoken.sentences:
        settings = Settings(seed=each.seed, frames_per_text_id=4)
        codes = np.array(list(model.frames(SpeechRequest(each.text, manner, settings))))
        sounds.append(model.codec.decode(codec_state(voice.prompt), codes))
    close(spoken.samples, joined(sounds, 0.12))


@in_loop
async def test_open_loads_the_shipped_voice_and_warms_it_up() -> None:
    async with rtts.open() as tts:
        assert tts._workers.pass_cost.seconds(1) is not None
        assert tts._workers._streams == []
        async with tts.session(seed=1) as session:
            session.feed("Hi.")
            session.end()
            chunk = await anext(aiter(session))
            assert len(chunk.samples) >= 1920
