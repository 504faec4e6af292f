"""The two threads of a loaded model, talker and codec, shared by every session.

Each thread looks over the streams and works for the one whose listener is closest to silence, a frame at a time. The
talker reads its weights once for several streams: where that one is not waiting for its first sound, the others'
frames come along, and those of its own next sentences where ``company`` finds that this helps. A thread sleeps on a
condition when there is nothing to do; new work, text, room in a ring and room at a consumer wake it. A failure ends the
stream whose work failed, with its cause, and no other.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from rtts.errors import RequestError
from rtts.stream.company import Ahead, rows_together
from rtts.stream.cost import FrameCost, PassCost
from rtts.stream.engine import I32, SpeechEngine
from rtts.stream.job import Job, Listener, Stream
from rtts.stream.ring import FrameRing
from rtts.stream.schedule import Supply
from rtts_engine.config import FRAME_S

log = logging.getLogger(__name__)


Work: TypeAlias = "tuple[Stream, Job]"


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
        self.pass_cost = PassCost()
        """Of the talker, by its rows."""
        self.prompt_cost = FrameCost()
        """Of an utterance, until its prompt has gone through the talker."""
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

    def supply(self, job: Job) -> Supply | None:
        """The frames of a job that are still to come, the other streams being served, too; None: nothing is known."""
        ar_s, codec_s = self.pass_cost.seconds(job.rows), self.codec_cost.seconds
        if ar_s is None or codec_s is None:
            return None
        busy = max(1, sum(stream.busy for stream in list(self._streams)))
        passes = math.ceil(busy / self._engine.max_rows)
        return Supply(job.missing(), len(job.ring), ar_s * passes, codec_s * busy)

    def sentences_ahead(self) -> int:
        """Sentences worth having behind the one that is spoken: on a machine that is slower than real time, a pass
        of the talker full of them."""
        one_s = self.pass_cost.seconds(1)
        return 1 if one_s is None or one_s < FRAME_S else max(1, self._engine.max_rows - 1)

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
        ready = [(stream, jobs) for stream in self._streams if (jobs := self._ready_ar(stream))]
        if len(ready) > 1:
            ready.sort(key=lambda each: self._urgency("talker", (each[0], each[1][0])))
        # Everybody's first sentence before anybody's second one.
        deepest = max((len(jobs) for _, jobs in ready), default=0)
        found = [(stream, jobs[i]) for i in range(deepest) for stream, jobs in ready if i < len(jobs)]
        if found and not found[0][1].frames:  # a listener waits in silence
            return found[:1]
        # One prompt a pass, as everybody waits for it.
        new = [job for _, job in found if not job.frames][1:]
        return [work for work in found if work[1] not in new][: self._engine.max_rows]

    def _ready_ar(self, stream: Stream) -> list[Job]:
        """The stream's job that is being generated, and those behind it that should come along."""
        unfinished = [job for job in stream.jobs if not job.generated]
        ready = [job for job in unfinished if not job.ring.full and not job.waiting_for_text]
        if not ready or ready[0] is not unfinished[0]:  # a sentence is never ahead of the one before it
            return []
        ready = ready[: self._engine.max_rows]
        return ready if len(ready) == 1 else ready[: self._company(stream, ready)]

    def _company(self, stream: Stream, ready: list[Job]) -> int:
        """How many of a stream's jobs should be in the next pass."""
        first = ready[0]
        others = sum(other.busy for other in self._streams if other is not stream)
        if not first.frames or self.pass_cost.seconds(1) is None:
            return 1

        def pass_s(rows: int) -> float:
            return self.pass_cost.seconds(rows + others) or 0.0

        ahead: list[Ahead] = []
        waiting = 0  # of sentences in between that need no pass now
        for job in stream.jobs[stream.jobs.index(first) :]:
            expected = job.expected_frames
            if not job.frames:  # its text is known, its pace is taken to be the first one's
                expected = first.expected_frames
                if job.text and first.text:
                    expected = round(expected * len(job.text) / len(first.text))
            waiting += 0 if job is first else len(job.ring)  # the first one's are the listener's already
            if job in ready:
                ahead.append(Ahead(job.frames, waiting, job.missing(expected)))
                waiting = 0
            else:
                waiting += job.missing(expected)
        return rows_together(
            ahead,
            stream.lead_s("talker", first),
            pass_s,
            prompt_s=self.prompt_cost.seconds or 0.0,
            codec_s=(self.codec_cost.seconds or 0.0) * (1 + others),
        )

    def _step_ar(self, work: list[Work]) -> None:
        start = time.monotonic()
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
        seconds = time.monotonic() - start
        if all(job.frames for _, job in ready) and any(isinstance(frame, np.ndarray) for frame in frames):
            self.pass_cost.add(len(ready), seconds)  # an end costs less
        elif len(ready) == 1 and not ready[0][1].frames and (done_s := utterances[0].prefilled_s) is not None:
            self.prompt_cost.add(done_s - start)
        for (stream, job), frame in zip(ready, frames, strict=True):
            job.rows = len(ready)
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
                job.decoder = None  # its state is the bulk of a finished job; a turn keeps its jobs
                job.ring = FrameRing(0)
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
