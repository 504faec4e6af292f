"""Carries a session's chunks into a playback buffer, turn after turn: the one thing that every live sink runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from rtts.errors import StreamError
from rtts.stream.events import PcmChunk
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.session import Session

log = logging.getLogger(__name__)

AHEAD_S = 3.0
"""Sound that the buffer may hold before the next chunk waits in the session (back-pressure)."""
_SHORTEST_WAIT_S = 0.01


class Pump:
    """Runs from its creation until ``stop``, or until the session is closed. One event loop, its thread only."""

    def __init__(self, session: Session, buffer: PlaybackBuffer, *, ahead_s: float = AHEAD_S) -> None:
        """Attaches ``buffer`` to the session; nobody else can iterate over the session then.

        Raises:
            RequestError: the session is closed, or somebody takes its sound already.
        """
        chunks = session.__aiter__()
        self._session = session
        self._buffer = buffer
        self._ahead_s = ahead_s
        self.error: StreamError | None = None
        """Why the last turn that failed did; also logged."""
        self._untold: StreamError | None = None
        self._interrupted = asyncio.Event()
        self._turn_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        session.attach(buffer)
        buffer.on_interrupt = self._on_interrupt
        self._task = self._loop.create_task(self._run(chunks), name="rtts-pump")

    @property
    def running(self) -> bool:
        """Whether more sound may come."""
        return not self._task.done()

    def stop(self) -> None:
        """Carry nothing more. The task is gone when the event loop runs next."""
        self._task.cancel()
        self._session.detach(self._buffer)

    async def drained(self) -> None:
        """Wait until every turn that has begun is complete, and all its sound was heard.

        Raises:
            StreamError: a turn failed since this was last asked.
        """
        while self._session.pending and self.running:
            self._turn_over.clear()
            await self._turn_over.wait()
        while self.running and not self._buffer.idle:
            await asyncio.sleep(max(_SHORTEST_WAIT_S, self._buffer.buffered_s))
        while self.running and self._buffer.played_s < self._buffer.pulled_s:  # what the device holds
            await asyncio.sleep(_SHORTEST_WAIT_S)
        error, self._untold = self._untold, None
        if error is not None:
            raise error

    async def _run(self, chunks: AsyncGenerator[PcmChunk, None]) -> None:
        try:
            await self._turn(chunks)
            while not self._session.closed:
                self._turn_over.set()
                await self._turn(self._session.__aiter__())
        except Exception as error:  # a bug: it ends the sink, and whoever waits for it is told
            self._failed(StreamError(f"the playback pump failed: {error}; please report it"), error)
        finally:
            self._turn_over.set()

    async def _turn(self, taken: AsyncGenerator[PcmChunk, None]) -> None:
        """Carry one turn. That it failed does not keep the session from speaking the next one."""
        try:
            async with contextlib.aclosing(taken) as chunks:
                async for chunk in chunks:
                    self._interrupted.clear()
                    await self._room()
                    self._buffer.push(chunk)  # refused when an interruption came while it waited
        except StreamError as error:
            self._failed(error, error.__cause__)
        finally:
            self._buffer.finish()

    async def _room(self) -> None:
        while (surplus_s := self._buffer.buffered_s - self._ahead_s) > 0 and not self._interrupted.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._interrupted.wait(), max(surplus_s, _SHORTEST_WAIT_S))

    def _failed(self, error: StreamError, cause: BaseException | None) -> None:
        self.error = self._untold = error
        log.error("%s", error, exc_info=cause)

    def _on_interrupt(self) -> None:
        self._loop.call_soon_threadsafe(self._interrupted.set)
