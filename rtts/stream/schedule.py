"""When sound is handed over: chunk sizes from what the listener holds and what a frame costs. Pure, without a clock."""

from __future__ import annotations

import math

from rtts.stream.config import StreamConfig

FRAME_S = 0.08
SAFETY_S = 0.06
"""Sound that the listener should still hold when the next chunk arrives."""
_SMOOTHING = 0.2


class FrameCost:
    """Running mean of the seconds that a frame takes to come out of the pipeline."""

    def __init__(self, initial_s: float | None = None) -> None:
        self.seconds = initial_s

    def add(self, seconds: float) -> None:
        """Count one frame."""
        if self.seconds is None:
            self.seconds = seconds
        else:
            self.seconds += _SMOOTHING * (seconds - self.seconds)


class ChunkSchedule:
    """Decides after every frame of an utterance whether the frames in hand become a chunk now."""

    def __init__(self, config: StreamConfig, *, first: bool) -> None:
        """``first``: the utterance is the first of its turn, so that a listener waits for it in silence."""
        self._config = config
        self._first_of_turn = first
        self._chunks = 0
        self._preroll_frames = 0

    def due(
        self,
        in_hand: int,
        buffered_s: float,
        frame_cost_s: float | None,
        expected_frames: int,
        *,
        ended: bool = False,
    ) -> int:
        """How many of the frames in hand should be handed over now, 0 if none. Ask again when they were.

        Args:
            in_hand: frames decoded and not yet handed over.
            buffered_s: sound that the listener holds unplayed.
            frame_cost_s: measured seconds per frame; None when nothing is known yet.
            expected_frames: how long the utterance is likely to be, for the pre-roll of a slow machine.
            ended: no frame follows.
        """
        fixed = self._config.ramp == "fixed"
        if self._chunks:
            wanted = self._config.chunk_frames if fixed else self._affordable(buffered_s, frame_cost_s)
        elif fixed:
            wanted = self._config.first_chunk_frames
        else:
            wanted = self._first(buffered_s, frame_cost_s, expected_frames)
            if not self._first_of_turn:
                wanted = max(wanted, self._affordable(buffered_s, frame_cost_s))
        # The newest frame may be the last one, and the last chunk's text ends with the utterance's. Whether it is, the
        # next frame tells; it is waited for where nobody can hear that.
        patient = not ended and frame_cost_s is not None and buffered_s >= frame_cost_s + SAFETY_S
        ready = in_hand - 1 if patient else in_hand
        if ready < wanted and not ended:
            return 0
        return min(ready, wanted if fixed else max(wanted, self._config.chunk_frames))

    def handed(self, frames: int) -> int:
        """Note that a chunk of ``frames`` went out. Returns its pre-roll.

        That is the number of frames held back because production is slower than playing; 0 if it is not.
        """
        preroll_frames = 0
        if not self._chunks:
            preroll_frames = max(0, min(self._preroll_frames, frames - self._config.first_chunk_frames))
        self._chunks += 1
        return preroll_frames

    def _first(self, buffered_s: float, frame_cost_s: float | None, expected_frames: int) -> int:
        """At least ``first_chunk_frames``; more where production is so slow that playing would overtake it.

        With k of N frames in hand when playing starts, the last one is there in time if (N - k) c <= (N - 1) * 80 ms +
        what the listener holds.
        """
        first = self._config.first_chunk_frames
        if frame_cost_s is None or frame_cost_s <= FRAME_S:
            return first
        lead_s = (expected_frames - 1) * FRAME_S + buffered_s - SAFETY_S
        wanted = min(expected_frames, math.ceil(expected_frames - lead_s / frame_cost_s))
        wanted = min(wanted, math.floor(self._config.max_preroll_s / frame_cost_s))
        self._preroll_frames = max(0, wanted - first)
        return max(first, wanted)

    def _affordable(self, buffered_s: float, frame_cost_s: float | None) -> int:
        """The most frames that can be produced before the listener runs dry."""
        if frame_cost_s is None or frame_cost_s <= 0:
            return 1
        frames = math.floor((buffered_s - SAFETY_S) / frame_cost_s)
        return max(1, min(self._config.chunk_frames, frames))


class PacedListener:
    """A listener that plays what it is handed in real time, from the first chunk on."""

    def __init__(self) -> None:
        self._dry_at_s: float | None = None

    def handed(self, seconds: float, now_s: float) -> None:
        """Count a chunk."""
        self._dry_at_s = max(now_s, self._dry_at_s or now_s) + seconds

    def buffered_s(self, now_s: float) -> float:
        """Sound that is not played yet."""
        return max(0.0, self._dry_at_s - now_s) if self._dry_at_s is not None else 0.0
