"""When sound is handed over: chunk sizes from what the listener holds and what a frame costs. Pure, without a clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rtts.stream.config import StreamConfig
from rtts_engine.config import FRAME_S

SAFETY_S = 0.06
"""Sound that the listener should still hold when the next chunk arrives."""


@dataclass(frozen=True, slots=True)
class Supply:
    """The frames of an utterance that are still to come, and how fast they do."""

    missing: int
    """Frames that the talker is likely to make still."""
    waiting: int
    """Frames that the talker has made and the codec has not decoded."""
    ar_s: float
    """Seconds that the talker takes for the utterance's next frame."""
    codec_s: float
    """Seconds that the codec takes for a frame."""

    @property
    def frames(self) -> int:
        """All that are to come."""
        return self.missing + self.waiting

    @property
    def seconds(self) -> float:
        """Until the last one is decoded: the stages work side by side, and the slower one tells."""
        return max(self.missing * self.ar_s, self.frames * self.codec_s)

    @property
    def frame_s(self) -> float:
        """Between two frames, on the way to the last one."""
        return self.ar_s if self.missing * self.ar_s > self.frames * self.codec_s else self.codec_s

    def next_s(self, frames: int = 1) -> float:
        """For each of the next ``frames`` frames."""
        return self.codec_s if self.waiting >= frames else max(self.ar_s, self.codec_s)


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
        supply: Supply | None,
        *,
        ended: bool = False,
    ) -> int:
        """How many of the frames in hand should be handed over now, 0 if none. Ask again when they were.

        Args:
            in_hand: frames decoded and not yet handed over.
            buffered_s: sound that the listener holds unplayed.
            supply: the frames that follow; None when nothing is known yet.
            ended: no frame follows.
        """
        fixed = self._config.ramp == "fixed"
        if fixed:
            wanted = self._config.chunk_frames if self._chunks else self._config.first_chunk_frames
        elif self._chunks and buffered_s > 0:
            wanted = self._affordable(buffered_s, supply)
        else:  # nothing plays: on a slow machine, one long pause is better than one between any two frames
            wanted = self._first(in_hand, buffered_s, supply)
            if not self._first_of_turn:
                wanted = max(wanted, self._affordable(buffered_s, supply))
        # The newest frame may be the last one, and the last chunk's text ends with the utterance's. Whether it is, the
        # next frame tells; it is waited for where nobody can hear that.
        patient = not ended and supply is not None and buffered_s >= supply.next_s() + SAFETY_S
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
        self._preroll_frames = 0
        return preroll_frames

    def _first(self, in_hand: int, buffered_s: float, supply: Supply | None) -> int:
        """At least ``first_chunk_frames``; more where production is so slow that playing would overtake it.

        Playing may start when the last frame will be there in its turn: (N - 1) * 80 ms from now, and what the listener
        holds.
        """
        first = 1 if self._chunks else self._config.first_chunk_frames
        if supply is None:
            return first
        frames = in_hand + supply.frames
        late_s = supply.seconds - ((frames - 1) * FRAME_S + buffered_s - SAFETY_S)
        if late_s > 0 and supply.frame_s > FRAME_S:
            wanted = min(frames, in_hand + math.ceil(late_s / supply.frame_s))
            wanted = min(wanted, math.floor(self._config.max_preroll_s / supply.frame_s))
        else:
            wanted = in_hand if self._preroll_frames else first  # what was held back until now goes at once
        self._preroll_frames = max(0, wanted - first)
        return max(first, wanted)

    def _affordable(self, buffered_s: float, supply: Supply | None) -> int:
        """The most frames that can be produced before the listener runs dry."""
        most = self._config.chunk_frames
        if supply is None:
            return 1
        cost_s = supply.next_s(most)
        if cost_s <= 0:
            return 1
        return max(1, min(most, math.floor((buffered_s - SAFETY_S) / cost_s)))


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
