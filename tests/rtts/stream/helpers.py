"""What the tests of streams share: a loop that leaves nothing behind, and speech in one call."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

from rtts.audio import to_pcm16
from rtts.stream.events import ChunkReady, Done, Event, PcmChunk, SentenceStarted
from rtts.stream.session import Session
from rtts.testing import FakeEngine
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings

F32 = npt.NDArray[np.float32]
I16 = npt.NDArray[np.int16]
P = ParamSpec("P")

TIMEOUT_S = 300.0
"""Fails a test that hangs; nothing waits for it otherwise."""
FRAME = 1920
MANNER = Manner(language="auto")
TEXT = "Hello there, my friend. How are you doing today? It is a fine day; is it not? Good bye."


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Runs a coroutine test in a loop of its own, and fails when a task, a timer, a thread or an error is left."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        errors: list[dict[str, Any]] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: errors.append(context))
            await asyncio.wait_for(test(*args, **kwargs), TIMEOUT_S)
            gc.collect()
            for _ in range(3):
                await asyncio.sleep(0)
            assert not asyncio.all_tasks() - {asyncio.current_task()}
            assert not [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]

        asyncio.run(main())
        gc.collect()
        assert not errors
        assert threads() == []

    return run


def threads() -> list[str]:
    """Names of the component's threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("rtts-")]


@dataclass
class Spoken:
    """A turn as its consumer saw it."""

    chunks: list[PcmChunk]
    events: list[Event]

    @property
    def samples(self) -> I16:
        return np.concatenate([np.zeros(0, np.int16), *(chunk.samples for chunk in self.chunks)])

    @property
    def sentences(self) -> list[SentenceStarted]:
        return [event for event in self.events if isinstance(event, SentenceStarted)]

    @property
    def done(self) -> Done:
        (done,) = [event for event in self.events if isinstance(event, Done)]
        return done


async def speak(
    session: Session,
    text: str | Iterable[str],
    pause: Callable[[], Awaitable[object]] | None = None,
) -> Spoken:
    """Feed a turn at once, and take its sound to the end."""
    events = session.events()
    for piece in [text] if isinstance(text, str) else text:
        session.feed(piece)
    session.end()
    chunks = []
    async for chunk in session:
        chunks.append(chunk)
        if pause is not None:
            await pause()
    return Spoken(chunks, await until_done(events))


async def until_done(events: Any) -> list[Event]:
    seen: list[Event] = []
    async for event in events:
        seen.append(event)
        if isinstance(event, Done):
            break
    return seen


def joined(sounds: list[F32], gap_s: float) -> I16:
    """Sentences one after the other, as a session joins them."""
    gap = np.zeros(round(gap_s * 24000), np.int16)
    pieces: list[I16] = []
    for sound in sounds:
        if len(sound):
            pieces += [gap, to_pcm16(sound)] if pieces else [to_pcm16(sound)]
    return np.concatenate([np.zeros(0, np.int16), *pieces])


def offline(engine: FakeEngine, spoken: Spoken, gap_s: float = 0.12, manner: Manner = MANNER) -> I16:
    """What the turn's sentences sound like, each spoken in one go."""
    return joined(
        [engine.offline(each.text, manner, Settings(seed=each.seed)) for each in spoken.sentences], gap_s
    )


def check_spans(spoken: Spoken, text: str, start: int = 0) -> None:
    """The chunks' spans tile the fed text, and their times the sound."""
    at, samples = start, None
    for chunk in spoken.chunks:
        assert chunk.text_span[0] == at <= chunk.text_span[1]
        at = chunk.text_span[1]
        position = round(chunk.t_start_s * 24000)
        assert samples is None or position == samples
        samples = position + len(chunk.samples)
        assert len(chunk.samples)
    assert at == start + len(text)
    ready = [event for event in spoken.events if isinstance(event, ChunkReady)]
    assert [event.t_start_s for event in ready] == [chunk.t_start_s for chunk in spoken.chunks]


async def settled(value: Callable[[], int]) -> None:
    """Wait until the threads have nothing more to do."""
    last, same = -1, 0
    while same < 5:
        await asyncio.sleep(0.005)
        same = same + 1 if value() == last else 0
        last = value()
