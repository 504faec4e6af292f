"""The bounded queue of frames between the talker's thread and the codec's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]


class FrameRing:
    """One producer, one consumer, fixed memory, no lock: each side writes only its own counter.

    It does not wait: the threads sleep on one condition for all their streams (``workers``), and look here for work.
    """

    def __init__(self, capacity: int, groups: int = 16) -> None:
        self._frames = np.empty((capacity, groups), np.int32)
        self._pushed = 0
        self._popped = 0

    def __len__(self) -> int:
        return self._pushed - self._popped

    @property
    def full(self) -> bool:
        """Whether the producer has to wait."""
        return len(self) == len(self._frames)

    def push(self, frame: I32) -> None:
        """Append a frame (groups,). Only the producer calls this, and only when not ``full``."""
        if self.full:
            raise IndexError("frame ring is full")
        self._frames[self._pushed % len(self._frames)] = frame
        self._pushed += 1  # after the data: this is what the consumer looks at

    def pop(self) -> I32:
        """Take the oldest frame (1, groups). Only the consumer calls this, and only when not empty."""
        if not len(self):
            raise IndexError("frame ring is empty")
        slot = self._popped % len(self._frames)
        frame: I32 = self._frames[slot : slot + 1].copy()
        self._popped += 1
        return frame
