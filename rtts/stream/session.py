"""A session: the asyncio side of a stream. Text in, chunks of sound out, turn after turn, interruptible."""

from __future__ import annotations

import asyncio
import secrets
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from dataclasses import replace
from types import TracebackType

from rtts.errors import RequestError, StreamError
from rtts.notices import ReachWatch
from rtts.stream.config import StreamConfig
from rtts.stream.events import Event, Heard, PcmChunk
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.subscription import Subscription
from rtts.stream.turns import Turns
from rtts.stream.workers import Workers
from rtts_engine.config import SAMPLE_RATE_HZ
from rtts_engine.manner import Manner
from rtts_engine.request import MAX_SEED, Settings
from rtts_engine.tokenizer import check_text


def check_session(session: object) -> None:
    """Raises ``RequestError`` where a sink or a barge-in was given something else than a session."""
    if not isinstance(session, Session):
        raise RequestError(f"session is {type(session).__name__}, expected what Tts.session() returns")


class Session(Turns):
    """Speaks text that is fed to it, in turns.

    A turn goes from its first ``feed`` to ``end``. Iterating over the session gives a turn's chunks, waiting for it to
    begin if need be, and stops behind its last one. ``interrupt`` ends a turn at once. One event loop, its thread only.
    """

    def __init__(
        self,
        workers: Workers,
        manner: Manner,
        settings: Settings,
        config: StreamConfig,
        *,
        languages: Sequence[str] = (),
    ) -> None:
        """Use ``Tts.session``."""
        if settings.seed is None:
            settings = replace(settings, seed=secrets.randbelow(MAX_SEED))
        assert settings.seed is not None
        super().__init__(workers, manner, settings, config)
        self.seed = settings.seed
        """The seed in use: same seed, text and voice give the same samples."""
        self._reach = ReachWatch(languages)
        self._closed = False

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- text --------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """More text of the turn, in pieces of any size; the first piece begins a turn.

        Raises:
            TextError: the text is no string, or holds a lone surrogate.
            RequestError: the turn was ended, or the session is closed.
        """
        self._require_open()
        check_text(text)
        if not text:
            return
        now_s = time.monotonic()
        if self._turn is None:
            self._begin(now_s)
        assert self._turn is not None
        if self._turn.closed:
            raise RequestError(
                "the turn was ended; take its sound to the end or interrupt it before the next one"
            )
        self._reach.feed(text)
        self._turn.feed(text, now_s)
        self._fed_chars += len(text)
        self._text_arrived()

    def end(self) -> None:
        """The turn's text is complete. Ending it again while it is spoken has no effect.

        Where no turn is open (its speech has ended, too), one without text begins and is over at once.
        """
        self._require_open()
        if self._turn is None:
            self._begin(time.monotonic())
        assert self._turn is not None
        if not self._turn.closed:
            self._reach.end()
            self._turn.close(time.monotonic())
            self._text_arrived()
            self._finish_if_done()

    async def speak(self, text: AsyncIterable[str]) -> None:
        """Feed everything that ``text`` gives and end the turn. Returns when the text is fed, or was interrupted.

        An interruption does not wait for the next piece: ``text`` is closed at once. When ``text`` fails or the call is
        cancelled, what was fed is spoken to its end. While somebody takes the sound, ``text`` is asked for no more than
        some ten minutes of speech ahead (``turns.MAX_AHEAD_CHARS``).

        Raises:
            RequestError: ``text`` is no asynchronous iterable; and as ``feed``.
        """
        self._require_open()
        if not hasattr(text, "__aiter__"):
            raise RequestError(
                f"speak() takes an asynchronous iterator of text, not {type(text).__name__}; "
                "use feed() and end() for text that is there"
            )
        await self._feeding.run(self._feed_from(text))

    async def _feed_from(self, text: AsyncIterable[str]) -> None:
        generation = self._generation
        fed = False
        pieces = aiter(text)
        try:
            async for piece in pieces:
                if generation != self._generation:
                    return  # it goes on although it was interrupted: nothing of it belongs to the next turn
                self.feed(piece)
                fed = True
                await asyncio.sleep(0)  # an iterator that never waits must not keep everybody else waiting
                await self._room()
        finally:
            # Also where it failed: whoever takes the sound is told of the end of what was fed, if only of none.
            if generation == self._generation and (self._turn is not None or not fed):
                self.end()
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()  # whatever it reads from is let go at once

    # -- sound -------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncGenerator[PcmChunk, None]:
        """A turn's chunks, for one consumer at a time.

        Raises:
            RequestError: another one takes them; or the session is closed.
        """
        self._require_open()
        if self._taken:
            raise RequestError(
                "the session has a sink or a loop that takes its sound; stop that one first, or open a session for each"
            )
        chunks = self._chunks()
        self._taker, self._taking = weakref.ref(chunks), None
        return chunks

    async def _chunks(self) -> AsyncGenerator[PcmChunk, None]:
        """The chunks of the oldest turn that was not taken to its end, or of the next one to begin."""
        while not self._turns:
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()
        turn = self._taking = self._turns[0]
        while True:
            if turn.ready:
                yield self._take(turn)
            elif turn.error is not None:
                error, turn.error = turn.error, None
                self._forget(turn)
                raise StreamError(f"speech failed: {error}") from error
            elif turn.done is not None:
                self._forget(turn)
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    @property
    def made_s(self) -> float:
        """Sound handed out since the session was opened."""
        return self._playhead.made / SAMPLE_RATE_HZ

    @property
    def unspoken_chars(self) -> int:
        """How much text was fed and is not sound yet, as it is spoken: what the cleaner drops does not count."""
        return self._turn.unspoken_chars if self._turn is not None else 0

    @property
    def pending(self) -> bool:
        """Whether a turn has begun whose sound was not taken to its end."""
        return bool(self._turns)

    @property
    def closed(self) -> bool:
        """Whether ``aclose`` was called: nothing comes any more."""
        return self._closed

    @property
    def buffer(self) -> PlaybackBuffer | None:
        """The sink's buffer, once one is attached."""
        return self._playhead.buffer

    def attach(self, buffer: PlaybackBuffer) -> None:
        """Tell the session which buffer its chunks go to, so that it knows what is played and can interrupt it.

        Raises:
            RequestError: another sink is attached, and two would take each other's chunks; or ``buffer`` is none.
        """
        self._require_open()
        if not isinstance(buffer, PlaybackBuffer):
            raise RequestError(f"buffer is {type(buffer).__name__}, expected a PlaybackBuffer")
        self._playhead.attach(buffer)
        self._desk.buffer = buffer
        buffer.watch_underruns(self._post(self._on_underrun))

    def detach(self, buffer: PlaybackBuffer) -> None:
        """The sink with this buffer takes no more; another one may be attached. What was played is remembered."""
        self._playhead.detach(buffer)
        self._taker = None
        if buffer is self._desk.buffer:
            self._desk.buffer = None

    async def interrupt(self) -> Heard:
        """End the turn now: nothing more of it is generated, handed out or played. Returns what was heard of it."""
        self._require_open()
        return self._drop("cancelled")

    def events(self) -> AsyncIterator[Event]:
        """Events from now on, until the session is closed."""
        self._require_open()
        subscription = Subscription()
        self._subscribers.add(subscription)
        return subscription

    async def aclose(self) -> None:
        """Drop what is under way and give the seat at the model back. Closing again has no effect."""
        if self._closed:
            return
        try:
            self._drop("cancelled")
        finally:  # a hook of the sink may have failed
            self._closed = True
            self._workers.close_stream(self._stream)
            self._emit(None)
            self._changed.set()

    # -- inside ------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the session is closed; open another one")
        if asyncio._get_running_loop() is not self._loop:
            raise RequestError(
                "a session is used in the event loop that opened it; from another thread, use call_soon_threadsafe "
                "or run_coroutine_threadsafe of that loop"
            )
