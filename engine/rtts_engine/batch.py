"""Many requests over one model, several at a time: rows join as soon as others end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtts_engine.errors import RequestError
from rtts_engine.generate import FrameStream, StopReason, next_frames
from rtts_engine.request import SpeechRequest

I32 = npt.NDArray[np.int32]

MAX_ROWS = 64
"""Beyond this the products are no faster per row on any CPU, and the caches of all rows fill the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class RowEvent:
    """What happened to one request: a frame, or its end."""

    row: int
    """The request's number, from 0."""
    codes: I32 | None
    """(16,) codes of its next frame; None: it ended."""
    stop_reason: StopReason | None = None
    """Why it ended."""
    error: BaseException | None = None
    """What went wrong where the reason is ``error``: with this request alone, the others go on."""


class BatchStream(Iterator[RowEvent]):
    """Events of all requests, frame by frame; those of one request are in order, and its codes are those it has alone.

    Requests are taken when a row is free, so that an endless source of them is fine.
    """

    def __init__(
        self,
        open_stream: Callable[[SpeechRequest], FrameStream],
        requests: Iterable[SpeechRequest],
        size: int,
    ) -> None:
        """Use ``Model.batch``.

        Args:
            open_stream: makes the stream of a request.
            requests: what to speak.
            size: the most rows computed together.

        Raises:
            RequestError: ``size`` is out of range.
        """
        if not isinstance(size, int) or not 1 <= size <= MAX_ROWS:
            raise RequestError(f"batch size is {size!r}, expected 1 to {MAX_ROWS}")
        self._open = open_stream
        self._requests = enumerate(requests)
        self._size = size
        self._running: dict[int, FrameStream] = {}
        self._events: deque[RowEvent] = deque()

    def __next__(self) -> RowEvent:
        while not self._events:
            self._fill()
            if self._running:
                self._step()
            elif not self._events:
                raise StopIteration
        return self._events.popleft()

    def _fill(self) -> None:
        while len(self._running) < self._size:
            row, request = next(self._requests, (0, None))
            if request is None:
                return
            try:
                self._running[row] = self._open(request)
            except Exception as error:
                self._events.append(RowEvent(row, None, "error", error))

    def _step(self) -> None:
        frames = next_frames(list(self._running.values()))
        for (row, stream), codes in zip(list(self._running.items()), frames, strict=True):
            self._events.append(RowEvent(row, codes, stream.stop_reason, stream.error))
            if codes is None:
                del self._running[row]
