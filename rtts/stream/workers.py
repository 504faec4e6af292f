"""The two threads of a loaded model, talker and codec, shared by every session.

Each thread looks over the streams and works for the one whose listener is closest to silence, a frame at a time. The
talker reads its weights once for several streams: where that one is not waiting for its first sound, the others'
frames come along. A thread sleeps on a condition when there is nothing to do; new work, text, room in a ring and room
at a consumer wake it. A failure ends the stream whose work failed, with its cause, and no other.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from rtts.errors import RequestError
from rtts.stream.engine import I32, SpeechEngine
from rtts.stream.job import Job, Listener, Stream
from rtts.stream.schedule import FrameCost

log = logging.getLogger(__name__)


Work: TypeAlias = "tuple[Stream, Job]"

COMFORT_S = 1.0
"""A listener with as much sound has time for its next sentence's frames to come along with this one's."""


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
        """Of a pass of the talker, whatever the number of its rows."""
        self.codec_cost = FrameCost()
        stages: tuple[
            tuple[str, threading.Condition, Callable[[], list[Work]], Callable[[list[Work]], None]], ...
        ] = (
            ("talker", self._ar_work, self._rows, self._step_ar),
            ("codec", self._codec_work, self._neediest, self._step_codec),
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

    def unread(self, job: Job) -> list[str | None] | None:
        """What was pushed and never looked at because the job's frames had ended, for once; None while they come."""
        with self._lock:
            if not job.generated:
                return None
            rest = list(job.inbox)
            job.inbox.clear()
            return rest

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
        busy = max(1, sum(stream.busy for stream in list(self._streams)))
        return max(ar * math.ceil(busy / self._engine.max_rows), codec * busy)

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

    def _run(
        self,
        stage: str,
        condition: threading.Condition,
        pick: Callable[[], list[Work]],
        step: Callable[[list[Work]], None],
    ) -> None:
        while True:
            with self._lock:
                while not (work := pick()) and not self._closing:
                    condition.wait()
                if self._closing:
                    return
                self._turns += 1
                for stream, _ in work:
                    stream.served[stage] = self._turns
            try:
                step(work)
            except (
                BaseException
            ) as error:  # a bug, here or in the engine: without this thread nobody is served
                for stream, job in work:
                    self._fail(stream, job, error)

    @staticmethod
    def _urgency(stage: str, work: Work) -> tuple[float, int]:
        """Smallest for the stream that runs out of sound first, and of equals the one that waited longest."""
        stream, _ = work
        return round(stream.lead_s(stage), 2), stream.served[stage]

    def _fail(self, stream: Stream, job: Job, error: BaseException) -> None:
        with self._lock:
            wanted = job.stop_reason not in ("cancelled", "error")
            if wanted:  # a job that is gone must not take the next turn's with it
                for other in stream.jobs:
                    other.end("cancelled")
                stream.jobs.clear()
                job.stop_reason = "error"
        if wanted:
            stream.listener.failed(job, error)
        else:
            log.warning("an utterance that nobody waits for failed: %s", error)

    # -- talker ------------------------------------------------------------------------------

    def _rows(self) -> list[Work]:
        """The stream with work that runs out of sound first, alone or in company."""
        found = [(stream, job) for stream in self._streams for job in self._ready_ar(stream)]
        if len(found) < 2:  # the usual case: nothing to compare
            return found
        found.sort(key=lambda work: self._urgency("talker", work))
        first = found[0][1]
        return found[:1] if not first.frames else found[: self._engine.max_rows]

    def _ready_ar(self, stream: Stream) -> list[Job]:
        """The stream's job that is being generated, and those behind it once its listener has time."""
        jobs: list[Job] = []
        for job in stream.jobs:
            if job.generated:
                continue
            if jobs and (self._engine.max_rows == 1 or stream.lead_s("talker", jobs[0]) < COMFORT_S):
                break
            if not job.ring.full and not job.waiting_for_text:
                jobs.append(job)
            elif not jobs:
                break  # a sentence is never ahead of the one before it
        return jobs

    def _step_ar(self, work: list[Work]) -> None:
        start = time.perf_counter()
        ready = []
        for stream, job in work:
            try:
                if self._prepare(job):
                    ready.append((stream, job))
            except Exception as error:  # whatever it is, it belongs to this job's consumer
                self._fail(stream, job, error)
        if not ready:
            return
        utterances = [job.utterance for _, job in ready if job.utterance is not None]
        frames: list[I32 | Exception | None]
        try:
            # Alone, a frame is computed the plain way.
            frames = [utterances[0].next_frame()] if len(ready) == 1 else self._engine.next_frames(utterances)
        except Exception as error:
            frames = [error] * len(ready)
        seconds = time.perf_counter() - start
        if all(job.frames for _, job in ready) and not all(frame is None for frame in frames):
            self.ar_cost.add(seconds)  # a first frame's time is mostly its prompt's, and an end costs less
        for (stream, job), frame in zip(ready, frames, strict=True):
            if isinstance(frame, Exception):
                self._fail(stream, job, frame)
            else:
                self._generated(job, frame, seconds / len(ready))

    def _prepare(self, job: Job) -> bool:
        """Give a job's utterance the text that has come. False: it has nothing to compute now."""
        if job.utterance is None:
            job.utterance = self._engine.utterance(job.text, job.manner, job.settings)
        utterance = job.utterance
        job.waiting_for_text = True  # before looking, so that text pushed meanwhile clears it
        while job.inbox and job.stop_reason is None:
            text = job.inbox.popleft()
            if text is None:
                utterance.close_text()
            else:
                utterance.push_text(text)
        if job.stop_reason is None and utterance.needs_text:
            with self._lock:
                job.pause_untold = True
                self._codec_work.notify()
            return False
        job.waiting_for_text = False
        if job.stop_reason is not None:
            self._generated(job, None, 0.0)
            return False
        return True

    def _generated(self, job: Job, frame: I32 | None, seconds: float) -> None:
        """A job's next frame, or its end."""
        utterance = job.utterance
        assert utterance is not None
        if frame is None:
            with self._lock:
                job.stop_reason = job.stop_reason or utterance.stop_reason
                job.expected_frames = job.frames  # a guess no longer
                job.generated = True
                job.utterance = None
                self._codec_work.notify()
            return
        job.expected_frames = utterance.expected_frames
        job.ar_s += seconds
        if job.first_frame_s is None:
            job.prefilled_s, job.first_frame_s = utterance.prefilled_s, time.monotonic()
        job.frames += 1
        job.ring.push(frame)
        with self._lock:
            self._codec_work.notify()

    # -- codec -------------------------------------------------------------------------------

    def _neediest(self) -> list[Work]:
        """The stream with work that runs out of sound first."""
        found = [(stream, job) for stream in self._streams if (job := self._ready_codec(stream)) is not None]
        if len(found) < 2:
            return found
        return [min(found, key=lambda work: self._urgency("codec", work))]

    def _ready_codec(self, stream: Stream) -> Job | None:
        job = stream.jobs[0] if stream.jobs else None
        if job is None or (len(job.ring) and not stream.listener.room()):
            return None
        return job if len(job.ring) or job.generated or job.pause_untold else None

    def _step_codec(self, work: list[Work]) -> None:
        for stream, job in work:
            try:
                self._decode(stream, job)
            except Exception as error:
                self._fail(stream, job, error)

    def _decode(self, stream: Stream, job: Job) -> None:
        if not len(job.ring):
            with self._lock:
                paused = job.pause_untold and not job.generated
                job.pause_untold = False
                # Looked at again with the lock held: its last frames may have come since.
                over = job.generated and not len(job.ring) and job in stream.jobs
                if over:
                    stream.jobs.remove(job)
                    self._codec_work.notify()  # the next job's frames may be there already
            if paused:
                stream.listener.paused(job)
            elif over:
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
