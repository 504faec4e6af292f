"""The generation loop: talker step, 15 predictor steps, one frame; as an iterator that can wait for text."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from rtts_engine.config import ModelConfig
from rtts_engine.errors import RequestError
from rtts_engine.frame_cap import resolve_max_frames
from rtts_engine.prompt import LivePrompt
from rtts_engine.request import MAX_SEED, Settings
from rtts_engine.sampling import FirstCode, Sampling, choose, uniforms
from rtts_engine.stack import StackState
from rtts_engine.tables import Tables
from rtts_engine.talker import Predictor, Talker, TalkerOutput

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

StopReason = Literal["eos", "length_cap", "cancelled", "error"]
"""Why a stream ended: its end of speech, its cap, ``cancel``, or an exception while a frame was computed."""


class FrameStream(Iterator[I32]):
    """Frames of one utterance, each (16,) int32, computed when asked for.

    One thread iterates; ``cancel`` and the prompt's ``feed`` may be used from others. While the text is still open,
    ask ``needs_text`` before each frame: a frame whose text row is not known cannot be computed, and filling the
    gap would be input that the model has never seen.
    """

    def __init__(
        self,
        talker: Talker,
        predictor: Predictor,
        tables: Tables,
        prompt: LivePrompt,
        config: ModelConfig,
        settings: Settings,
    ) -> None:
        sampling = settings.sampling or Sampling.from_defaults(config.generation)
        self._talker = talker
        self._predictor = predictor
        self._tables = tables
        self._prompt = prompt
        self._config = config
        self._first = FirstCode(config.talker, sampling)
        self._draw = sampling.predictor
        self._settings = settings
        self._state: StackState | None = None
        self._last: I32 | None = None
        self._row: F32 | None = None
        self._cancelled = False
        self._running = threading.Lock()
        self.seed: int = settings.seed if settings.seed is not None else secrets.randbelow(MAX_SEED)
        """The seed in use."""
        self.prefilled_s: float | None = None
        """When the prompt had gone through the talker (``time.monotonic``)."""
        self.frames = 0
        """Frames emitted so far."""
        self.stop_reason: StopReason | None = None
        """Why the stream ended; None while it has not."""

    @property
    def max_frames(self) -> int:
        """The cap in force; it grows with the text while that is open."""
        ids, limit = self._prompt.feed.n_text_ids, self._config.generation.max_new_tokens
        return resolve_max_frames(
            self._settings.max_frames,
            ids,
            max_new_tokens=limit,
            frames_per_id=self._settings.frames_per_text_id,
        )

    @property
    def needs_text(self) -> bool:
        """Whether the next frame has to wait for text to be pushed or closed. Nothing waits at the cap."""
        if self.stop_reason is not None or self._cancelled or self._last is None:
            return False
        if self._row is None:
            self._row = self._prompt.feed.next_row()
        return self._row is None and self.frames < self.max_frames

    def cancel(self) -> None:
        """End the stream before its next frame, from any thread."""
        self._cancelled = True

    def __next__(self) -> I32:
        # Two threads in one stream would continue one cache twice, which ncnn does not survive.
        if not self._running.acquire(blocking=False):
            raise RequestError(
                "another thread is computing this stream's next frame; give each thread its own stream"
            )
        try:
            return self._next()
        finally:
            self._running.release()

    def _next(self) -> I32:
        if self.stop_reason is None and self._cancelled:
            self._stop("cancelled")
        if self.stop_reason is not None:
            raise StopIteration
        if self.needs_text:
            raise RequestError(
                "the next frame needs text that has not arrived; check needs_text before each frame"
            )
        try:
            frame = self._generate()
        except BaseException:
            # The caches have moved on without a frame: nothing that is right can follow.
            self._stop("error")
            raise
        if frame is None:
            raise StopIteration
        return frame

    def _generate(self) -> I32 | None:
        """The next frame, or None where the stream ends instead, for the reason that is then set."""
        output = self._advance()
        if output is None:
            self._stop("length_cap")
            return None
        uniform = uniforms(self.seed, self.frames, self._config.talker.num_code_groups)
        first = self._first.choose(output.logits, self.frames, uniform[0])
        if first == self._config.talker.ids.eos:
            self._stop("eos")
            return None
        if self.frames >= self.max_frames:
            self._stop("length_cap")
            return None
        self._last = self._predictor.frame(
            output.hidden, first, lambda book, logits: choose(logits, self._draw, uniform[book])
        )
        self.frames += 1
        return self._last

    def _advance(self) -> TalkerOutput | None:
        """The talker's view of the next frame: the prompt's at first, then one step per frame; None without text."""
        if self._state is None or self._last is None:
            self._state, output = self._talker.prefill(self._prompt.rows)
            self.prefilled_s = time.monotonic()
            return output
        if self._row is None:
            return None
        row = self._tables.frames(self._last[None])[0] + self._row
        self._row = None
        return self._talker.step(self._state, row)

    def _stop(self, reason: StopReason) -> None:
        self.stop_reason = reason
        self._state = None  # the caches are the bulk of a stream's memory
