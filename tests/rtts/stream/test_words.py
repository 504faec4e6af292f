"""Models that only read words: what a session says, and where in the fed text it is."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from rtts import StreamConfig
from rtts.errors import RequestError, TextError
from rtts.notices import warn_once
from rtts.stream.tts import Tts
from rtts.stream.turn import Turn
from rtts.testing import FakeEngine

from .helpers import in_loop

TEXT = "It costs $3.50 at 10:30. Dr. Lee has 2 of them."
WORDS = "It costs three dollars and fifty cents at ten thirty. Doctor Lee has two of them."


def engine(*, words: bool = True, languages: tuple[str, ...] = ()) -> FakeEngine:
    fake = FakeEngine()
    fake.text_normalization = "english" if words else None
    fake.languages = languages
    return fake


async def spoken(fake: FakeEngine, text: str, config: StreamConfig, language: str | None = None) -> str:
    async with Tts(fake) as tts, tts.session(language=language, config=config, seed=1) as session:
        for character in text:
            session.feed(character)
        session.end()
        spans = [chunk.text_span async for chunk in session]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    return "".join(fake.spoken)


@pytest.mark.parametrize("mode", ["sentence", "token"])
@pytest.mark.parametrize("clean_text", [True, False])
@in_loop
async def test_the_model_decides(mode: str, clean_text: bool) -> None:
    for words in (True, False):
        config = StreamConfig(text_mode=mode, clean_text=clean_text)  # type: ignore[arg-type]
        assert await spoken(engine(words=words), TEXT, config) == (WORDS if words else TEXT)


@in_loop
async def test_the_user_overrules_it() -> None:
    assert await spoken(engine(words=False), TEXT, StreamConfig(verbalise=True)) == WORDS
    assert await spoken(engine(words=True), TEXT, StreamConfig(verbalise=False)) == TEXT
    assert await spoken(engine(words=True), "Es sind 5.", StreamConfig(), "german") == "Es sind 5."


@in_loop
async def test_words_of_another_language() -> None:
    async with Tts(engine()) as tts:
        with pytest.raises(RequestError, match="verbalise writes English words"):
            tts.session(language="de", config=StreamConfig(verbalise=True))
        session = tts.session(language="en-GB", config=StreamConfig(verbalise=True))
        assert session.config.verbalise is True
        await session.aclose()


@in_loop
async def test_heard_text_points_into_what_was_fed() -> None:
    config = StreamConfig(ramp="fixed", first_chunk_frames=1, chunk_frames=1)
    async with Tts(engine()) as tts, tts.session(seed=1, config=config) as session:
        session.feed("It costs $3.50 now, not more.")
        session.end()
        heard = {chunk.text_span[1] async for chunk in session}
        assert {len("It costs "), len("It costs $3.50 "), len("It costs $3.50 now, ")} <= heard
        assert not set(range(len("It costs $"), len("It costs $3.50"))) & heard, "never within the price"


def turn() -> Turn:
    config = StreamConfig(verbalise=True)
    return Turn(config, "english", 0, base=0, sample=0, now_s=0.0)


@pytest.mark.parametrize(
    ("text", "due_s", "said"),
    [("Thanks.", 0.3, "Thanks."), ("It costs $3.5", 1.5, "It costs three point five dollars")],
)
def test_text_at_the_end_waits_as_long_as_in_the_segmenter(text: str, due_s: float, said: str) -> None:
    words = turn()
    words.feed(text, 10.0)
    while not words.waiting:
        deadline = words.deadline_s
        assert deadline is not None
        assert deadline <= 10.0 + due_s
        words.poll(deadline)
    assert "".join(segment.text for segment in words.waiting) == said or said.startswith(
        words.waiting[0].text
    )
    words.close(20.0)
    assert "".join(segment.text for segment in words.waiting) == said


def test_a_stall_releases_the_number_at_the_end() -> None:
    words = turn()
    words.feed("Call 91", 0.0)
    words.stall(30.0)
    assert "".join(segment.text for segment in words.waiting) == "Call ninety-one"


@in_loop
async def test_a_text_the_model_cannot_speak_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, logger="rtts"):
        for _ in range(2):
            await spoken(engine(languages=("auto", "english")), "Привет, как дела?", StreamConfig())
        await spoken(engine(languages=("auto", "english")), "Hello there, how are you?", StreamConfig())
    assert [record.message for record in caplog.records] == [
        "most of the text is Cyrillic script; this model speaks english, so expect nonsense"
    ]


@in_loop
async def test_what_is_no_text() -> None:
    async with Tts(engine()) as tts, tts.session() as session:
        with pytest.raises(TextError, match="text is NoneType, expected str"):
            session.feed(None)  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="takes an asynchronous iterator of text, not list"):
            await session.speak(["Hello."])  # type: ignore[arg-type]
        await asyncio.sleep(0)
