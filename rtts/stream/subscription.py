"""A reader of a session's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rtts.stream.events import Event


class Subscription(AsyncIterator[Event]):
    """A session's events from the moment it was asked for them. Forgotten when its owner lets go of it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def put(self, event: Event | None) -> None:
        """None: nothing follows."""
        self._queue.put_nowait(event)

    async def __anext__(self) -> Event:
        event = await self._queue.get()
        if event is None:
            self.put(None)  # for whoever asks again
            raise StopAsyncIteration
        return event
