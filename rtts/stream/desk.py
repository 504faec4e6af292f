"""Where the codec's thread leaves a session's sound: frames become chunks here, and go to the event loop."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtts.audio import to_pcm16
from rtts.stream.config import StreamConfig
from rtts.stream.job import Job
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.schedule import ChunkSchedule, PacedListener
from rtts.stream.workers import Workers
from rtts_engine.config import SAMPLE_RATE_HZ

F32 = npt.NDArray[np.float32]
I16 = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, eq=False)
class RawChunk:
    """Sound of one job, ready to be handed out."""

    job: Job
    samples: I16
    last: bool
    """Nothing of the job follows."""
    preroll_frames: int
    """Frames that it holds more than it had to, because production is slower than playing."""


class Desk:
    """``workers.Listener`` of one session. The workers' threads put sound in; the event loop takes it out."""

    def __init__(
        self,
        config: StreamConfig,
        workers: Workers,
        on_chunk: Callable[[RawChunk], None],
        on_ended: Callable[[Job], None],
        on_failed: Callable[[Job, BaseException], None],
    ) -> None:
        """The callbacks are called from the codec's or the talker's thread."""
        self._config = config
        self._workers = workers
        self._on_chunk = on_chunk
        self._on_ended = on_ended
        self._on_failed = on_failed
        self._lock = threading.Lock()
        self._generation = 0
        self._waiting = 0
        self._job: Job | None = None
        self._in_hand: deque[F32] = deque()
        self._schedule = ChunkSchedule(config, first=True)
        self._listener = PacedListener()
        self.buffer: PlaybackBuffer | None = None
        """The sink's buffer; without one, a consumer that plays in real time is assumed."""

    def reset(self, generation: int) -> None:
        """The session was interrupted: what is here belongs to nobody any more."""
        with self._lock:
            self._generation = generation
            self._waiting = 0
            self._in_hand = deque()
            self._job = None
            self._listener = PacedListener()

    def padded(self, samples: int, generation: int) -> None:
        """The event loop put silence before a chunk: it waits and is played like sound."""
        with self._lock:
            if generation == self._generation:
                self._waiting += samples
                self._listener.handed(samples / SAMPLE_RATE_HZ, time.monotonic())

    def taken(self, samples: int, generation: int) -> None:
        """The consumer took a chunk."""
        with self._lock:
            if generation == self._generation:
                self._waiting -= samples

    # -- Listener ----------------------------------------------------------------------------

    def room(self) -> bool:
        return self._waiting < self._config.max_buffered_s * SAMPLE_RATE_HZ

    def lead_s(self) -> float:
        waiting_s = self._waiting / SAMPLE_RATE_HZ
        if self.buffer is not None:
            return self.buffer.buffered_s + waiting_s
        return max(waiting_s, self._listener.buffered_s(time.monotonic()))

    def sound(self, job: Job, samples: F32) -> None:
        with self._lock:
            if job.generation != self._generation:
                return
            if job is not self._job:
                self._job = job
                self._schedule = ChunkSchedule(self._config, first=job.index == 0)
            self._in_hand.append(samples)
            self._waiting += len(samples)
            while frames := self._due(job):
                self._hand_over(job, frames)

    def paused(self, job: Job) -> None:
        self._hand_over_rest(job)

    def ended(self, job: Job) -> None:
        self._hand_over_rest(job)
        self._on_ended(job)

    def failed(self, job: Job, cause: BaseException) -> None:
        self._on_failed(job, cause)

    def _due(self, job: Job) -> int:
        if not self.room() and len(self._in_hand) > 1:
            return len(self._in_hand) - 1  # it would wait for the consumer, and the consumer for it
        return self._schedule.due(
            len(self._in_hand),
            self._held_s(),
            self._workers.supply(job),
            ended=job.generated and not len(job.ring),
        )

    def _held_s(self) -> float:
        """Sound that the listener has or will get before anything that is still in hand."""
        if self.buffer is None:
            return self._listener.buffered_s(time.monotonic())
        in_hand = sum(map(len, self._in_hand))
        return self.buffer.buffered_s + (self._waiting - in_hand) / SAMPLE_RATE_HZ

    def _hand_over_rest(self, job: Job) -> None:
        with self._lock:
            if job.generation == self._generation and job is self._job and self._in_hand:
                self._hand_over(job, len(self._in_hand))

    def _hand_over(self, job: Job, frames: int) -> None:
        samples = np.concatenate([self._in_hand.popleft() for _ in range(frames)])
        preroll_frames = self._schedule.handed(frames)
        self._listener.handed(len(samples) / SAMPLE_RATE_HZ, time.monotonic())
        last = job.generated and not len(job.ring) and not self._in_hand
        self._on_chunk(RawChunk(job, to_pcm16(samples), last, preroll_frames))
