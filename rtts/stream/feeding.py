"""Tasks that feed a session from iterators, and that an interruption ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Feeding:
    """Runs each in a task of its own: it can be ended from outside, and its iterator runs in one task throughout."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns when ``work`` is done or was ended by ``cancel``; raises what it raises. Cancellable."""
        task = asyncio.get_running_loop().create_task(work, name="rtts-speak")
        self._tasks.add(task)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            self._tasks.discard(task)
        if not task.cancelled():
            task.result()

    def cancel(self) -> None:
        """End them all."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
