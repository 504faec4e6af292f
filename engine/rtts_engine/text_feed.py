"""Text rows for frames that are being generated, while the text may still be arriving."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from rtts_engine.errors import RequestError

F32 = npt.NDArray[np.float32]

_BLOCK_IDS = 16
"""Ids embedded at once: one product for many rows, without the cost of a whole text before its first frame."""


class TextFeed:
    """Text rows for the generated frames, in order; ids may be pushed while frames are generated.

    One thread may push and close while another takes rows: the queue's operations are atomic and the end is
    read before the queue is.
    """

    def __init__(
        self,
        embed: Callable[[Sequence[int]], F32],
        ids: Iterable[int],
        *,
        eos: int,
        pad: F32,
        n_text_ids: int,
        closed: bool,
    ) -> None:
        """
        Args:
            embed: projected text embeddings (n, D) of n ids.
            ids: come first; with ``closed`` they are all, and nothing is added to them.
            eos: the id that ends a text.
            pad: (D,) row for every frame after the text's end.
            n_text_ids: the spoken ids so far, those of the prompt included.
            closed: the text is complete.
        """
        self._embed = embed
        self._eos = eos
        self._pad = pad
        self._ids = deque(ids)
        self._rows: deque[F32] = deque()
        self._n_text_ids = n_text_ids
        self._closed = closed

    @property
    def n_text_ids(self) -> int:
        """Ids of the spoken text so far, for the frame cap."""
        return self._n_text_ids

    def push(self, ids: Sequence[int]) -> None:
        """Appends text ids; RequestError after ``close``."""
        if self._closed:
            raise RequestError("the text of this utterance is closed; start a new one")
        self._ids.extend(ids)
        self._n_text_ids += len(ids)

    def close(self) -> None:
        """Ends the text: tts_eos follows the last id. Closing again has no effect."""
        if not self._closed:
            self._ids.append(self._eos)
            self._closed = True

    def next_row(self) -> F32 | None:
        """(D,) row for the next frame, or None: the text is open and its next id is not known, so wait.

        Filling the gap with tts_pad would be input that the model was not trained on.
        """
        closed = self._closed
        if not self._rows:
            block = [self._ids.popleft() for _ in range(min(len(self._ids), _BLOCK_IDS))]
            if block:
                self._rows.extend(self._embed(block))
        if self._rows:
            return self._rows.popleft()
        return self._pad if closed else None
