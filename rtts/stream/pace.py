"""When the next packet is due: deadlines counted from one start, so that nothing adds up. Pure."""

from __future__ import annotations

import math

MAX_LATE_S = 0.06
"""Lateness that the far end's jitter buffer hides: three packets."""


class Pacer:
    """Deadlines of packets of ``packet_s`` seconds: packet k is due at start + k * ``packet_s``.

    Whoever is a little late sends at once and is on time again. After a longer stall (the process slept, the event
    loop was blocked) the packets that were missed are skipped: their time has passed in silence for the listener, and
    a burst of them would only fill the far end's buffer and delay all that follows. The sound itself is not skipped: it
    goes on where it stopped.
    """

    def __init__(self, packet_s: float, max_late_s: float = MAX_LATE_S) -> None:
        self._packet_s = packet_s
        self._max_late_s = max_late_s
        self._start_s: float | None = None
        self._next = 0
        self.skipped = 0
        """Packets that were never sent because their time had passed."""

    def next(self, now_s: float) -> tuple[int, float]:
        """Number of the next packet, and seconds until it is due (0 when it is)."""
        if self._start_s is None:
            self._start_s = now_s
        late_s = now_s - (self._start_s + self._next * self._packet_s)
        if late_s > self._max_late_s:
            missed = math.floor(late_s / self._packet_s)
            self.skipped += missed
            self._next += missed
            late_s -= missed * self._packet_s
        number = self._next
        self._next += 1
        return number, max(0.0, -late_s)
