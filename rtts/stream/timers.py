"""Named timers of an event loop, one of a kind at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Timers:
    """Deadlines in monotonic time; arming a name again replaces its deadline. The loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, name: str) -> bool:
        """Whether the timer runs."""
        return name in self._handles

    def __len__(self) -> int:
        """How many run."""
        return len(self._handles)

    def arm(self, name: str, deadline_s: float | None, action: Callable[[], None]) -> None:
        """Call ``action`` at ``deadline_s``; None stops the timer."""
        self.disarm(name)
        if deadline_s is not None:

            def fire() -> None:
                self._handles.pop(name, None)
                action()

            delay_s = max(0.0, deadline_s - time.monotonic())
            self._handles[name] = self._loop.call_later(delay_s, fire)

    def disarm(self, name: str) -> None:
        """Stop a timer, if it runs."""
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.cancel()

    def clear(self) -> None:
        """Stop them all."""
        for name in list(self._handles):
            self.disarm(name)
