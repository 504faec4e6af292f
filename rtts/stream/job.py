"""What the workers work on: utterances on their way through both threads, in the order of their sessions."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rtts.stream.config import StreamConfig
from rtts.stream.engine import Decoder, Utterance
from rtts.stream.ring import FrameRing
from rtts.stream.watchdog import Watchdog
from rtts_engine.config import FRAME_S
from rtts_engine.manner import Manner
from rtts_engine.request import Settings

F32 = npt.NDArray[np.float32]


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
        self.rows = 1
        """In the talker's last pass for it: itself, and its company."""
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

    def missing(self, expected_frames: int | None = None) -> int:
        """Frames that are likely still to be generated; by another guess at its length than its own, if given."""
        if self.generated:
            return 0
        expected = self.expected_frames if expected_frames is None else expected_frames
        # One that outlives the guess goes on for nobody knows how long: a tenth is no surprise.
        return max(expected - self.frames, 1 + self.frames // 10)

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

    def lead_s(self, stage: str, last: Job | None = None) -> float:
        """Sound that the listener has, or gets without more work of this stage; of the jobs up to ``last``."""
        ahead = 0
        for job in self.jobs if stage == "talker" else ():
            ahead += len(job.ring)
            if job is last:
                break
        return self.listener.lead_s() + FRAME_S * ahead
