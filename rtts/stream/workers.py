"""The two threads of a loaded model, talker and codec, shared by every session.

Each thread looks over the streams, picks the one whose listener is closest to silence, and does one frame of work for
it: that is the whole scheduler. It sleeps on a condition when there is nothing to do; new work, text, room in a ring
and room at a consumer wake it. A failure ends the stream whose work failed, with its cause, and no other.
"""

from __future__ import annotations

import atexit
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

    def paused(self, job: Job) -> None:
        """The job waits for text: what was delivered of it is all for now."""
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
        self.pause_untold = False
        """The codec has yet to tell the listener that the talker waits for text."""
        self.inbox: deque[str | None] = deque()
        """Text for the talker's thread; None closes it."""
        self.stop_reason: str | None = None
        self.dead = False
        """The watchdog ended it: frames that are still under way are not spoken."""
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
        """Generate no more, and let nobody wait for text. Call it with the workers' lock held."""
        if self.stop_reason is None or reason == "cancelled":
            self.stop_reason = reason
        self.waiting_for_text = False
        if self.utterance is not None:
            self.utterance.cancel()


class Stream:
    """A session's seat at the workers: its jobs, in the order in which they are spoken."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.jobs: list[Job] = []
        self.served = {"talker": 0, "codec": 0}
        """When each thread last served it, as a count: the tie-break between equally needy streams."""

    @property
    def busy(self) -> bool:
        """Whether it takes time from the others: it has work, and waits neither for text nor for its consumer."""
        return self.listener.room() and any(not job.waiting_for_text for job in list(self.jobs))

    def lead_s(self, stage: str) -> float:
        """Sound that the listener has, or gets without more work of this stage."""
        ahead = sum(len(job.ring) for job in self.jobs) if stage == "talker" else 0
        return self.listener.lead_s() + FRAME_S * ahead


_Ready: TypeAlias = "Callable[[Stream], Job | None]"
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
        stages: tuple[tuple[str, threading.Condition, _Ready, _Step], ...] = (
            ("talker", self._ar_work, self._ready_ar, self._step_ar),
            ("codec", self._codec_work, self._ready_codec, self._step_codec),
        )
        self._threads = [
            threading.Thread(target=self._run, args=stage, name=f"rtts-{stage[0]}", daemon=True)
            for stage in stages
        ]
        atexit.register(self.close)  # a thread inside ncnn must not see the interpreter go
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
        return max(ar, codec) * max(1, sum(stream.busy for stream in list(self._streams)))

    def close(self) -> None:
        """End both threads after the frame they are at. Waits for them."""
        atexit.unregister(self.close)
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

    def _run(self, stage: str, work: threading.Condition, ready: _Ready, step: _Step) -> None:
        while True:
            with self._lock:
                while (found := self._neediest(stage, ready)) is None and not self._closing:
                    work.wait()
                if self._closing or found is None:
                    return
                stream, job = found
                self._turns += 1
                stream.served[stage] = self._turns
            try:
                step(stream, job)
            except Exception as error:  # whatever it is, it belongs to this job's consumer
                self._fail(stream, job, error)

    def _neediest(self, stage: str, ready: _Ready) -> tuple[Stream, Job] | None:
        """The stream with work for a stage that runs out of sound first."""
        found = [(stream, job) for stream in self._streams if (job := ready(stream)) is not None]
        if len(found) < 2:  # the usual case: nothing to compare
            return found[0] if found else None
        return min(found, key=lambda pair: (round(pair[0].lead_s(stage), 2), pair[0].served[stage]))

    def _fail(self, stream: Stream, job: Job, error: Exception) -> None:
        with self._lock:
            wanted = not job.cancelled
            if wanted:  # a dropped job must not take the next turn's with it
                for other in stream.jobs:
                    other.end("cancelled")
                stream.jobs.clear()
                job.stop_reason = "error"
        if wanted:
            stream.listener.failed(job, error)
        else:
            log.warning("a cancelled utterance failed: %s", error)

    # -- talker ------------------------------------------------------------------------------

    def _ready_ar(self, stream: Stream) -> Job | None:
        job = next((job for job in stream.jobs if not job.generated), None)
        return None if job is None or job.ring.full or job.waiting_for_text else job

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
            with self._lock:
                job.pause_untold = True
                self._codec_work.notify()
            return
        job.waiting_for_text = False
        frame = None if job.stop_reason is not None else utterance.next_frame()
        if frame is None:
            with self._lock:
                job.stop_reason = job.stop_reason or utterance.stop_reason
                job.expected_frames = job.frames  # a guess no longer
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
        if job.frames > 1:  # the first one's time is mostly its prompt's
            self.ar_cost.add(seconds)
        job.ring.push(frame)
        with self._lock:
            self._codec_work.notify()

    # -- codec -------------------------------------------------------------------------------

    def _ready_codec(self, stream: Stream) -> Job | None:
        job = stream.jobs[0] if stream.jobs else None
        if job is None or (len(job.ring) and not stream.listener.room()):
            return None
        return job if len(job.ring) or job.generated or job.pause_untold else None

    def _step_codec(self, stream: Stream, job: Job) -> None:
        if not len(job.ring):
            with self._lock:
                paused = job.pause_untold and not job.generated
                job.pause_untold = False
            if paused:
                stream.listener.paused(job)
                return
            with self._lock:
                if job not in stream.jobs:
                    return
                stream.jobs.remove(job)
                self._codec_work.notify()  # the next job's frames may be there already
            job.decoder = None  # its state is the bulk of a finished job
            stream.listener.ended(job)
            return
        codes = job.ring.pop()
        with self._lock:
            self._ar_work.notify()  # the ring has room
        if job.dead:
            return
        start = time.perf_counter()
        if job.decoder is None:
            job.decoder = self._engine.decoder(job.manner)
        # One frame at a time, whatever the chunks: the samples are then the same to the last bit.
        samples = job.decoder.decode(codes)
        seconds = time.perf_counter() - start
        job.codec_s += seconds
        if job.first_pcm_s is None:
            job.first_pcm_s = time.monotonic()
        else:  # the first one's time is mostly its state's
            self.codec_cost.add(seconds)
        if job.cancelled:
            return
        stream.listener.sound(job, samples)
        if job.watchdog.looks_dead(codes, samples):
            with self._lock:
                job.dead = True
                job.end("silence")
                self._ar_work.notify()
