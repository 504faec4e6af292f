"""The two threads of a loaded model, talker and codec, shared by every session.

Each thread looks over the streams, picks the one whose listener is closest to silence, and does one frame of work for
it: that is the whole scheduler. It sleeps on a condition when there is nothing to do; new work, text, room in a ring
and room at a consumer wake it. A failure ends the stream whose work failed, with its cause, and no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rtts.errors import RequestError
from rtts.stream.config import StreamConfig
from rtts.stream.engine import Decoder, SpeechEngine, Utterance
from rtts.stream.ring import FrameRing
from rtts.stream.schedule import FRAME_S, FrameCost
from rtts.stream.watchdog import Watchdog
from rtts_engine.prompt import Manner
from rtts_engine.request import Settings

F32 = npt.NDArray[np.float32]

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Where a stream's sound goes. The workers call it from their threads."""

    def room(self) -> bool:
        """Whether more sound may be made now. Cheap."""
        ...

    def lead_s(self) -> float:
        """Sound that waits to be played, in seconds. Cheap."""
        ...

    def sound(self, job: Job, samples: F32) -> None:
        """One decoded frame (1920,)."""
        ...

    def ended(self, job: Job) -> None:
        """The job's last frame was delivered; ``job.stop_reason`` says why."""
        ...

    def failed(self, job: Job, cause: BaseException) -> None:
        """The job cannot go on."""
        ...


class Job:
    """One utterance on its way through both threads."""

    def __init__(
        self,
        text: str | None,
        manner: Manner,
        settings: Settings,
        config: StreamConfig,
        *,
        index: int = 0,
        generation: int = 0,
    ) -> None:
        """``text`` None: it is pushed later (``push_text``)."""
        self.text = text
        self.manner = manner
        self.settings = settings
        self.index = index
        self.generation = generation
        self.expected_frames = 0
        """A guess at its length, once the talker has seen its text."""
        self.ring = FrameRing(config.ring_frames)
        self.watchdog = Watchdog(config)
        self.utterance: Utterance | None = None
        self.decoder: Decoder | None = None
        self.generated = False
        """The talker's part is done."""
        self.waiting_for_text = False
        self.inbox: deque[str | None] = deque()
        """Text for the talker's thread; None closes it."""
        self.stop_reason: str | None = None
        self.frames = 0
        self.ar_s = 0.0
        """Time spent in the talker and predictor."""
        self.codec_s = 0.0
        """Time spent in the codec."""
        self.submitted_s = time.monotonic()
        self.prefilled_s: float | None = None
        self.first_frame_s: float | None = None
        self.first_pcm_s: float | None = None
        """When its first samples existed (all four in ``time.monotonic``)."""

    @property
    def cancelled(self) -> bool:
        """Whether its sound is no longer wanted."""
        return self.stop_reason == "cancelled"

    def end(self, reason: str) -> None:
        """Generate no more; frames that exist are still spoken unless the reason is ``cancelled``."""
        if self.stop_reason is None or reason == "cancelled":
            self.stop_reason = reason
        if self.utterance is not None:
            self.utterance.cancel()


class Stream:
    """A session's seat at the workers: its jobs, in the order in which they are spoken."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.jobs: list[Job] = []
        self.served = 0
        """When it was last served, as a count: the tie-break between equally needy streams."""


_Pick: TypeAlias = "Callable[[], tuple[Stream, Job] | None]"
_Step: TypeAlias = "Callable[[Stream, Job], None]"


class Workers:
    """Owns the threads. ``close`` ends them; a stream's jobs run until done, cancelled or failed."""

    def __init__(self, engine: SpeechEngine, *, max_streams: int) -> None:
        self._engine = engine
        self._max_streams = max_streams
        self._lock = threading.Lock()
        self._ar_work = threading.Condition(self._lock)
        self._codec_work = threading.Condition(self._lock)
        self._streams: list[Stream] = []
        self._closing = False
        self._turns = 0
        self.ar_cost = FrameCost()
        self.codec_cost = FrameCost()
        self._threads = [
            threading.Thread(target=self._run, args=args, name=name, daemon=True)
            for name, args in (
                ("rtts-talker", (self._ar_work, self._pick_ar, self._step_ar)),
                ("rtts-codec", (self._codec_work, self._pick_codec, self._step_codec)),
            )
        ]
        for thread in self._threads:
            thread.start()

    # -- for sessions ------------------------------------------------------------------------

    def open(self, listener: Listener) -> Stream:
        """Raises ``RequestError`` when the model has as many streams as it may have."""
        with self._lock:
            if self._closing:
                raise RequestError("the model is closed; open it again")
            if len(self._streams) >= self._max_streams:
                raise RequestError(
                    f"{self._max_streams} sessions are open on this model already; close one or raise max_sessions"
                )
            stream = Stream(listener)
            self._streams.append(stream)
            return stream

    def submit(self, stream: Stream, job: Job) -> None:
        """Speak ``job`` after the stream's other jobs."""
        with self._lock:
            stream.jobs.append(job)
            self._ar_work.notify()

    def push_text(self, job: Job, text: str | None) -> None:
        """More text for an open job; None closes it. It is turned into ids by the talker's thread."""
        with self._lock:
            job.inbox.append(text)
            job.waiting_for_text = False
            self._ar_work.notify()

    def cancel(self, stream: Stream) -> None:
        """Drop the stream's jobs: nothing of them is delivered once this returns, but for a call under way."""
        with self._lock:
            for job in stream.jobs:
                job.end("cancelled")
            stream.jobs.clear()

    def close_stream(self, stream: Stream) -> None:
        """Give the seat back."""
        self.cancel(stream)
        with self._lock:
            if stream in self._streams:
                self._streams.remove(stream)

    def wake(self) -> None:
        """A listener has room again."""
        with self._lock:
            self._codec_work.notify()

    def frame_cost_s(self) -> float | None:
        """Seconds that a frame takes to come out for one stream, the others being served, too."""
        ar, codec = self.ar_cost.seconds, self.codec_cost.seconds
        if ar is None or codec is None:
            return None
        busy = sum(1 for stream in list(self._streams) if stream.jobs)
        return max(ar, codec) * max(1, busy)

    def close(self) -> None:
        """End both threads after the frame they are at. Waits for them."""
        with self._lock:
            self._closing = True
            for stream in self._streams:
                for job in stream.jobs:
                    job.end("cancelled")
                stream.jobs.clear()
            self._ar_work.notify_all()
            self._codec_work.notify_all()
        for thread in self._threads:
            thread.join()

    # -- both threads ------------------------------------------------------------------------

    def _run(self, work: threading.Condition, pick: _Pick, step: _Step) -> None:
        while True:
            with self._lock:
                found = pick()
                while found is None and not self._closing:
                    work.wait()
                    found = pick()
                if self._closing or found is None:
                    return
                stream, job = found
                self._turns += 1
                stream.served = self._turns
            try:
                step(stream, job)
            except Exception as error:  # whatever it is, it belongs to this job's consumer
                self._fail(stream, job, error)

    def _fail(self, stream: Stream, job: Job, error: Exception) -> None:
        with self._lock:
            wanted = job in stream.jobs
            for other in stream.jobs:
                other.end("cancelled")
            stream.jobs.clear()
        if wanted:
            job.stop_reason = "error"
            stream.listener.failed(job, error)
        else:
            log.warning("a cancelled utterance failed: %s", error)

    def _neediest(self, found: list[tuple[Stream, Job]]) -> tuple[Stream, Job] | None:
        """The stream that runs out of sound first."""
        if not found:
            return None
        return min(found, key=lambda pair: (round(_lead_s(pair[0]), 2), pair[0].served))

    # -- talker ------------------------------------------------------------------------------

    def _pick_ar(self) -> tuple[Stream, Job] | None:
        found = []
        for stream in self._streams:
            waiting = [job for job in stream.jobs if not job.generated]
            if waiting and not waiting[0].ring.full and not waiting[0].waiting_for_text:
                found.append((stream, waiting[0]))
        return self._neediest(found)

    def _step_ar(self, _stream: Stream, job: Job) -> None:
        start = time.perf_counter()
        if job.utterance is None:
            job.utterance = self._engine.utterance(job.text, job.manner, job.settings)
        utterance = job.utterance
        job.waiting_for_text = True  # before looking, so that text pushed meanwhile clears it
        while job.inbox:
            text = job.inbox.popleft()
            if text is None:
                utterance.close_text()
            else:
                utterance.push_text(text)
        if job.stop_reason is None and utterance.needs_text:
            return
        job.waiting_for_text = False
        frame = None if job.stop_reason is not None else utterance.next_frame()
        if frame is None:
            with self._lock:
                job.stop_reason = job.stop_reason or utterance.stop_reason
                job.generated = True
                job.utterance = None
                self._codec_work.notify()
            return
        seconds = time.perf_counter() - start
        job.expected_frames = utterance.expected_frames
        job.ar_s += seconds
        if job.first_frame_s is None:
            job.prefilled_s, job.first_frame_s = utterance.prefilled_s, time.monotonic()
        job.frames += 1
        self.ar_cost.add(seconds)
        job.ring.push(frame)
        with self._lock:
            self._codec_work.notify()

    # -- codec -------------------------------------------------------------------------------

    def _pick_codec(self) -> tuple[Stream, Job] | None:
        found = []
        for stream in self._streams:
            if not stream.jobs:
                continue
            job = stream.jobs[0]
            if (len(job.ring) and stream.listener.room()) or (job.generated and not len(job.ring)):
                found.append((stream, job))
        return self._neediest(found)

    def _step_codec(self, stream: Stream, job: Job) -> None:
        if not len(job.ring):
            with self._lock:
                if job not in stream.jobs:
                    return
                stream.jobs.remove(job)
                self._codec_work.notify()  # the next job's frames may be there already
            stream.listener.ended(job)
            return
        start = time.perf_counter()
        if job.decoder is None:
            job.decoder = self._engine.decoder(job.manner)
        codes = job.ring.pop()
        # One frame at a time, whatever the chunks: the samples are then the same to the last bit.
        samples = job.decoder.decode(codes)
        seconds = time.perf_counter() - start
        job.codec_s += seconds
        job.first_pcm_s = job.first_pcm_s or time.monotonic()
        self.codec_cost.add(seconds)
        with self._lock:
            self._ar_work.notify()  # the ring has room
        if job.cancelled:
            return
        stream.listener.sound(job, samples)
        if job.watchdog.looks_dead(codes, samples):
            job.end("silence")
            while len(job.ring):  # more of the same
                job.ring.pop()


def _lead_s(stream: Stream) -> float:
    """Sound that the listener has or is about to get."""
    return stream.listener.lead_s() + FRAME_S * sum(len(job.ring) for job in stream.jobs)
