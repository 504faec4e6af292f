"""How far a session's sound is made, taken and played, and which of its turns may still be heard."""

from __future__ import annotations

from rtts.errors import RequestError
from rtts.stream.events import Heard
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.turn import Turn
from rtts_engine.config import SAMPLE_RATE_HZ


class Playhead:
    """Positions in the session's sound, in samples at 24 kHz. The event loop's thread only."""

    def __init__(self) -> None:
        self.buffer: PlaybackBuffer | None = None
        """The sink's buffer, once one is attached."""
        self.made = 0
        """Handed out by the workers."""
        self.taken = 0
        """Taken by the consumer."""
        self._attached = False
        self._left = (0, 0)
        """What was played, and what was taken, when the last sink was detached."""
        self._turns: list[Turn] = []
        """Turns that may not be played to their end yet, and the latest one."""
        self._underruns = 0

    @property
    def played(self) -> int:
        """Up to where it was heard; for all that is known without a sink, a chunk that was taken was."""
        played, taken = self._left
        if self._attached and self.buffer is not None:
            return max(played, round(self.buffer.played_s * SAMPLE_RATE_HZ))
        return self.taken if self.taken > taken else played

    @property
    def underruns(self) -> int:
        """Times that the sink ran dry since the latest turn began."""
        return self.buffer.underruns - self._underruns if self.buffer is not None else 0

    def attach(self, buffer: PlaybackBuffer) -> None:
        """Raises ``RequestError`` when another sink is attached."""
        if self._attached and buffer is not self.buffer:
            raise RequestError("the session has a sink; stop that one first, or open a session for each")
        self._attached = True
        self.buffer = buffer

    def detach(self, buffer: PlaybackBuffer) -> None:
        """Another sink may be attached; what this one played counts until something is taken or played without it."""
        if buffer is self.buffer and self._attached:
            self._left = (self.played, self.taken)
            self._attached = False

    def begin(self, turn: Turn) -> None:
        """A turn begins where the sound made so far ends."""
        self._turns = [each for each in self._turns if each.end_sample > self.played]
        self._turns.append(turn)
        self._underruns = self.buffer.underruns if self.buffer is not None else 0

    def failed(self, turn: Turn, behind: int) -> None:
        """The turn failed: its sound that was not taken is dropped, and what was made ends at ``behind``."""
        self.made = behind
        turn.end_sample = min(turn.end_sample, behind)

    def interrupt(self, generation: int) -> Heard:
        """Drop everything older than ``generation``. Returns what was heard of the turn that was playing."""
        self.made = self.taken
        if self.buffer is not None:
            self.buffer.interrupt(generation)
        if not self._turns:
            return Heard("", 0.0)
        played = self.played
        unheard = [turn for turn in self._turns if turn.end_sample > played]
        heard = (unheard or self._turns[-1:])[0].heard(played)
        self._turns.clear()
        return heard
