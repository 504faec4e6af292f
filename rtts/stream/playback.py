"""The buffer between a session and a clock that pulls: what is played, what is stale, what is missing."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rtts.errors import RequestError
from rtts.stream.events import PcmChunk
from rtts_engine.config import SAMPLE_RATE_HZ

I16 = npt.NDArray[np.int16]

FADE_SAMPLES = 192
"""Interrupted sound ends in a fade of 8 ms: at once for a listener, and without a click."""


class PlaybackBuffer:
    """Chunks in, samples out at the pace of whoever pulls.

    A device callback, a 20 ms network clock or a test pulls; a session pushes and interrupts, from other threads. Where
    there is nothing to play, silence comes out; when sound comes back in the middle of a turn, that was an underrun.
    """

    def __init__(self, on_underrun: Callable[[float, float], None] | None = None) -> None:
        """``on_underrun(at_s, missing_s)`` is called from the pulling thread when sound comes back after a hole."""
        self._lock = threading.Lock()
        self._chunks: deque[PcmChunk] = deque()
        self._offset = 0
        self._buffered = 0
        self._position = 0
        self._pulled = 0
        # Of each pull that got sound: samples pulled before it, its position in the session's sound, its samples.
        self._trail: deque[tuple[int, int, int]] = deque()
        # The same, with the samples, for whoever wants to know what was played.
        self._record: deque[tuple[int, I16]] = deque()
        self._record_samples = 0
        self.last_sound_s: float | None = None
        """``time.monotonic()`` of the last pull that got sound or a fade; it is heard ``latency_s`` later. After an
        interruption, a sink that resamples (``outlet``) has 8 ms of fade of its own in the pull behind that."""
        self._generation = 0
        self._expecting = False
        self._hole = 0
        self._fade: I16 = np.zeros(0, np.int16)
        self._gain = 1.0
        self._target_gain = 1.0
        self.on_underrun = on_underrun
        self._watcher: Callable[[float, float], None] | None = None
        self.on_interrupt: Callable[[], None] | None = None
        """Called by ``interrupt``, in its thread, when everything stale is gone."""
        self.latency_s = 0.0
        """How long a sample that was pulled takes to be heard. The sink keeps it up to date."""
        self.interruptions = 0
        """Times that ``interrupt`` was called."""
        self.underruns = 0
        """Times that the sound ran out in the middle of a turn and came back."""

    @property
    def buffered_s(self) -> float:
        """Sound that waits to be pulled."""
        return self._buffered / SAMPLE_RATE_HZ

    @property
    def idle(self) -> bool:
        """Whether the turn is complete and everything of it was pulled."""
        with self._lock:
            return not self._expecting and not self._buffered and not len(self._fade)

    @property
    def pulled_s(self) -> float:
        """Position in the session's sound up to which it has been pulled."""
        return self._position / SAMPLE_RATE_HZ

    @property
    def played_s(self) -> float:
        """Position in the session's sound up to which it has been heard: what was pulled ``latency_s`` ago."""
        with self._lock:
            return self._played() / SAMPLE_RATE_HZ

    def watch_underruns(self, watcher: Callable[[float, float], None]) -> None:
        """Also tell the session that the sound comes from; called like ``on_underrun``."""
        self._watcher = watcher

    def push(self, chunk: PcmChunk) -> bool:
        """Append a chunk; False when it is stale and was dropped."""
        with self._lock:
            if chunk.generation < self._generation:
                return False
            self._chunks.append(chunk)
            self._buffered += len(chunk.samples)
            self._expecting = True
            return True

    def finish(self) -> None:
        """The turn is complete: running out of sound is no underrun until the next chunk comes."""
        with self._lock:
            self._expecting = False
            if not self._chunks:
                self._hole = 0  # nothing was missing: it was the end

    def duck(self, gain: float) -> None:
        """Play on at ``gain`` (0 to 1); the change is ramped over the next pull."""
        if not 0.0 <= gain <= 1.0:
            raise RequestError(f"gain is {gain}, expected 0 to 1")
        with self._lock:
            self._target_gain = gain

    def interrupt(self, generation: int) -> float:
        """Drop everything older than ``generation``; what plays is faded out. Returns ``played_s``."""
        with self._lock:
            self._generation = max(self._generation, generation)
            stale = [chunk.samples for chunk in self._chunks if chunk.generation < self._generation]
            if stale and not len(
                self._fade
            ):  # else an earlier interruption's fade still plays, and nothing behind it
                tail = np.concatenate(stale)[self._offset : self._offset + FADE_SAMPLES]
                ramp = np.linspace(self._gain, 0.0, len(tail), dtype=np.float32)
                self._fade = (tail * ramp).astype(np.int16)
            if stale:  # they are in front
                self._offset = 0
            for _ in stale:
                self._chunks.popleft()
            self._buffered = sum(len(chunk.samples) for chunk in self._chunks) - self._offset
            self._expecting = bool(self._chunks)
            self._hole = 0
            self._gain = self._target_gain = 1.0
            self.interruptions += 1
            played_s = self._played() / SAMPLE_RATE_HZ
        if self.on_interrupt is not None:
            self.on_interrupt()
        return played_s

    def record(self, seconds: float) -> None:
        """Keep the last ``seconds`` of what is pulled, for ``pulled_since``; 0 keeps nothing."""
        with self._lock:
            self._record_samples = round(seconds * SAMPLE_RATE_HZ)
            self._forget_record()

    def pulled_since(self, position: int) -> tuple[I16, int]:
        """What was pulled from sample ``position`` on, counted from the first pull, and the position behind it.

        With the gain that it had, and with silence where there was nothing. Only what ``record`` keeps is returned.
        """
        with self._lock:
            start = max(position, self._pulled - self._record_samples, 0)
            pulled = self._pulled
            pieces = [(at, sound) for at, sound in self._record if at + len(sound) > start]
        out = np.zeros(max(0, pulled - start), np.int16)
        for at, sound in pieces:
            out[max(0, at - start) : at + len(sound) - start] = sound[max(0, start - at) :]
        return out, pulled

    def pull(self, count: int) -> I16:
        """The next ``count`` samples, always that many: (count,) int16."""
        out = np.zeros(count, np.int16)
        with self._lock:
            faded = min(count, len(self._fade))
            out[:faded], self._fade = self._fade[:faded], self._fade[faded:]
            self._pulled += faded
            if faded:
                self.last_sound_s = time.monotonic()
            sound, missing = self._next(count - faded)
            out[faded : faded + len(sound)] = sound
        self._report(missing)
        return out

    def take(self, count: int) -> tuple[I16, int]:
        """Up to ``count`` samples without silence behind them or the fade of an interruption, and ``interruptions``.

        For a sink that holds back sound itself and fades that (``outlet``): fewer than ``count`` means that there are
        no more now.
        """
        with self._lock:
            self._fade = self._fade[:0]
            sound, missing = self._next(count)
            interruptions = self.interruptions
        self._report(missing)
        return sound, interruptions

    def _report(self, underrun: tuple[float, float] | None) -> None:
        if underrun is not None:
            for callback in (self.on_underrun, self._watcher):
                if callback is not None:
                    callback(*underrun)

    def _next(self, count: int) -> tuple[I16, tuple[float, float] | None]:
        """Up to ``count`` samples for time that passes now, and the underrun that ended with them."""
        if not count:
            return np.zeros(0, np.int16), None
        sound = self._front(count)
        missing = self._count_hole(count, len(sound))
        with_gain = self._with_gain(sound)
        if len(sound):
            self._trail.append((self._pulled, self._position - len(sound), len(sound)))
            self.last_sound_s = time.monotonic()
            if self._record_samples:
                self._record.append((self._pulled, with_gain))
        self._pulled += count
        self._forget_record()
        while len(self._trail) > 1 and self._trail[1][0] < self._heard_pull() - SAMPLE_RATE_HZ:
            self._trail.popleft()
        return with_gain, missing

    def _forget_record(self) -> None:
        oldest = self._pulled - self._record_samples
        while self._record and self._record[0][0] + len(self._record[0][1]) <= oldest:
            self._record.popleft()

    def _heard_pull(self) -> int:
        """The pulled sample that is heard now, counted from the first pull."""
        return self._pulled - round(self.latency_s * SAMPLE_RATE_HZ)

    def _played(self) -> int:
        """Position that is heard now."""
        now = self._heard_pull()
        for pulled, position, count in reversed(self._trail):
            if pulled <= now:
                return position + min(count, now - pulled)
        return self._trail[0][1] if self._trail else self._position

    def _front(self, count: int) -> I16:
        """Up to ``count`` samples from the front, for good."""
        pieces = []
        left = count
        index, offset = 0, self._offset
        while left and index < len(self._chunks):
            chunk = self._chunks[index]
            piece = chunk.samples[offset : offset + left]
            pieces.append(piece)
            left -= len(piece)
            offset += len(piece)
            self._position = round(chunk.t_start_s * SAMPLE_RATE_HZ) + offset
            if offset == len(chunk.samples):
                offset = 0
                index += 1
        for _ in range(index):
            self._chunks.popleft()
        self._offset = offset
        self._buffered -= count - left
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int16)

    def _with_gain(self, sound: I16) -> I16:
        if self._gain == self._target_gain == 1.0:
            return sound
        ramp = np.linspace(self._gain, self._target_gain, len(sound), dtype=np.float32)
        if len(sound):
            self._gain = self._target_gain
        return (sound * ramp).astype(np.int16)

    def _count_hole(self, wanted: int, got: int) -> tuple[float, float] | None:
        """Counts silence in the middle of a turn; the underrun to report when sound is back."""
        report = None
        if got and self._hole:
            report = ((self._position - got) / SAMPLE_RATE_HZ, self._hole / SAMPLE_RATE_HZ)
            self.underruns += 1
            self._hole = 0
        if got < wanted and self._expecting and self._position:
            self._hole += wanted - got
        elif not self._expecting:
            self._hole = 0
        return report
