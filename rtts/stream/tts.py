"""``rtts.open``: a loaded model with its two threads, and sessions on it."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from rtts import speech
from rtts.errors import RequestError
from rtts.stream.config import StreamConfig, reads_words
from rtts.stream.engine import ModelEngine, SpeechEngine
from rtts.stream.session import Session
from rtts.stream.workers import Workers
from rtts_engine.manner import TextLayout
from rtts_engine.model import Model, Threads
from rtts_engine.request import Settings
from rtts_engine.sampling import Sampling
from rtts_engine.voice import Voice

MAX_SESSIONS = 8
"""Sessions on one model at a time, unless ``open`` is told otherwise: what two cores can serve is far less."""
WARM_UP_S = 0.4


class Tts:
    """A model that is ready to speak. Made by ``open``; use it as an async context manager."""

    def __init__(self, engine: SpeechEngine, *, max_sessions: int = MAX_SESSIONS) -> None:
        """Over any engine, such as ``rtts.testing.FakeEngine``. Starts the threads.

        Raises:
            RequestError: ``engine`` is none, or ``max_sessions`` is no number of sessions.
        """
        if not hasattr(engine, "next_frames"):  # its threads would die of it, and nobody be told
            raise RequestError(
                f"engine is {type(engine).__name__}, expected a SpeechEngine; rtts.open takes a model or its name"
            )
        if isinstance(max_sessions, bool) or not isinstance(max_sessions, int) or max_sessions < 1:
            raise RequestError(f"max_sessions is {max_sessions!r}, expected an integer from 1 on")
        self._engine = engine
        self._workers = Workers(engine, max_streams=max_sessions)
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self.warm_up_s: float | None = None
        """Seconds that ``warm_up`` took; None before, and where there is no voice to warm up with."""

    async def __aenter__(self) -> Tts:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def session(
        self,
        voice: str | Path | Voice | None = None,
        language: str | None = "auto",
        seed: int | None = None,
        config: StreamConfig | None = None,
        *,
        instruct: str | None = None,
        text_layout: TextLayout | None = None,
        sampling: Sampling | None = None,
    ) -> Session:
        """A session on this model; call it from a running event loop.

        Args:
            voice: a speaker's name, a saved voice or its path; None leaves the choice to the model.
            language: a name that the model knows or its code ("en"), or "auto".
            seed: makes speech reproducible; None draws one.
            config: see ``StreamConfig``.
            instruct: manner of speaking, for models that take one.
            text_layout: "streaming" or "full"; None is the model kind's default. ``token`` mode is always streaming.
            sampling: how codes are chosen; None is the model's own default.

        Raises:
            RequestError: no seat is free, or an argument is unfit.
            VoiceError: the voice does not exist or does not fit the model.
        """
        manner = speech.manner(voice, language, instruct)
        self._engine.check("a", manner)
        config = StreamConfig() if config is None else config
        if not isinstance(config, StreamConfig):
            raise RequestError(
                f"config is {type(config).__name__}, expected a StreamConfig; StreamConfig.from_mapping makes one"
            )
        if config.text_mode == "token" and manner.voice is not None and manner.voice.ref_codes is not None:
            raise RequestError(
                'a voice with reference codes needs whole sentences; use text_mode "sentence", or its x-vector alone'
            )
        if config.text_mode == "token" and text_layout == "full":
            raise RequestError('text_mode "token" is the streaming text layout; leave out text_layout "full"')
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise RequestError(f"seed is {seed!r}, expected an integer or None")
        settings = Settings(text_layout=text_layout, sampling=sampling, seed=seed)
        words = reads_words(self._engine.text_normalization, config.verbalise, manner.language)
        config = replace(config, verbalise=words)
        session = Session(self._workers, manner, settings, config, languages=self._engine.languages)
        self._sessions.add(session)
        return session

    async def warm_up(self) -> None:
        """Speak a few frames to nobody: memory is touched, and the schedule knows what a frame costs here."""
        manner = self._engine.warm_up_manner()
        if manner is None:
            return  # a Base model needs a voice to speak at all
        start = time.perf_counter()
        async with Session(
            self._workers, manner, Settings(seed=0), StreamConfig(clean_text=False)
        ) as session:
            session.feed("Hello.")
            session.end()
            async for _ in session:
                if session.made_s > WARM_UP_S:
                    break
        self.warm_up_s = time.perf_counter() - start

    async def aclose(self) -> None:
        """Close the sessions that are open, and end the threads after the frame they are at."""
        try:
            for session in list(self._sessions):
                await session.aclose()
        finally:
            await asyncio.to_thread(self._workers.close)


@asynccontextmanager
async def open(  # noqa: A001 - used as rtts.open
    model: str | Path | Model | None = None,
    threads: Threads | None = None,
    *,
    max_sessions: int = MAX_SESSIONS,
) -> AsyncIterator[Tts]:
    """``async with rtts.open() as tts``: load a model, warm it up, and end its threads at the end.

    Loading keeps the interpreter busy (ncnn holds the GIL there): open models before calls are taken.

    Args:
        model: a loaded model, or what ``rtts.load`` takes.
        threads: of the talker's and the codec's networks; None as in ``rtts.load``.
        max_sessions: how many sessions may be open at a time.

    Raises:
        RttsError: as ``rtts.load``.
    """
    loaded = model
    if not isinstance(loaded, Model):
        loaded = await asyncio.to_thread(speech.load, loaded, threads=threads)
    async with Tts(ModelEngine(loaded), max_sessions=max_sessions) as tts:
        await tts.warm_up()
        yield tts
