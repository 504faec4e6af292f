"""The generation loop: talker step, 15 predictor steps, one frame; as an iterator that can wait for text."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

import numpy as np
import numpy.typing as npt

from rtts_engine.config import ModelConfig
from rtts_engine.errors import RequestError, not_finite
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
        self._uniform = uniforms(0, 0, 0)
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
        self.error: BaseException | None = None
        """What went wrong where ``next_frames`` ended the stream with ``error``."""

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
        frame = next_frames([self])[0]
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if frame is None:
            raise StopIteration
        return frame

    # -- one frame, in the order of its phases; ``next_frames`` calls them -----------------------

    def _ready(self) -> bool:
        """Whether there is a frame to compute; sets the reason if there is not."""
        if self.stop_reason is None and self._cancelled:
            self._stop("cancelled")
        if self.stop_reason is None and self.needs_text:
            raise RequestError(
                "the next frame needs text that has not arrived; check needs_text before each frame"
            )
        return self.stop_reason is None

    def _prefill(self) -> TalkerOutput:
        """The talker's view of the first frame."""
        self._state, output = self._talker.prefill(self._prompt.rows)
        self.prefilled_s = time.monotonic()
        return output

    def _input(self) -> F32 | None:
        """The talker's input row (D,) for the frame after the last one; None, and the end, at a cap without text."""
        assert self._last is not None
        if self._row is None:
            self._stop("length_cap")
            return None
        row: F32 = self._tables.frames(self._last[None])[0] + self._row
        self._row = None
        return row

    def _choose_first(self, output: TalkerOutput) -> int | None:
        """The frame's first code; None, and the end, instead of a frame. Raises ModelError: NaN or infinity."""
        if not math.isfinite(output.hidden.dot(output.hidden)):
            raise not_finite("the talker's output")
        self._uniform = uniforms(self.seed, self.frames, self._config.talker.num_code_groups)
        first = self._first.choose(output.logits, self.frames, self._uniform[0])
        if first == self._config.talker.ids.eos:
            self._stop("eos")
        elif self.frames >= self.max_frames:
            self._stop("length_cap")
        else:
            return first
        return None

    def _choose(self, book: int, logits: F32) -> int:
        return choose(logits, self._draw, self._uniform[book])

    def _emit(self, codes: I32) -> I32:
        self._last = codes
        self.frames += 1
        return codes

    def _fail(self, error: BaseException) -> None:
        """The caches have moved on without a frame: nothing that is right can follow."""
        self._stop("error")
        self.error = error

    def _stop(self, reason: StopReason) -> None:
        self.stop_reason = reason
        self._state = None  # the caches are the bulk of a stream's memory


def next_frames(streams: Sequence[FrameStream]) -> list[I32 | None]:
    """The next frame (16,) of each stream, computed together: the weights are read once for all of them.

    The streams, of one model, may be at any point, and may be iterated alone or with others before and after: a
    stream's codes do not depend on its company. None stands for a stream that ended instead; its ``stop_reason`` tells
    why. What goes wrong in one stream ends that one: its reason is ``error`` and ``error`` holds the exception.

    Raises:
        RequestError: a stream is there twice, is being computed by another thread, waits for text, or is of another
            model than the first; nothing was computed.
    """
    with ExitStack() as held:
        for stream in streams:
            # Two threads in one stream would continue one cache twice, which ncnn does not survive.
            if not stream._running.acquire(blocking=False):
                raise RequestError(
                    "another thread is computing this stream's next frame; give each thread its own stream"
                )
            held.callback(stream._running.release)
            if stream._talker is not streams[0]._talker:
                raise RequestError("streams of different models cannot be computed together; group them")
        ready = [stream for stream in streams if stream._ready()]
        outputs = _talk(ready)
        firsts = []
        for stream, output in outputs:
            try:
                first = stream._choose_first(output)
            except Exception as error:
                stream._fail(error)
                continue
            if first is not None:
                firsts.append((stream, output.hidden, first))
        frames = _complete(firsts)
        return [frames.get(id(stream)) for stream in streams]


def _talk(streams: Sequence[FrameStream]) -> list[tuple[FrameStream, TalkerOutput]]:
    """What the talker says about the next frame of each stream that has one."""
    outputs, running, rows = [], [], []
    for stream in streams:
        try:
            if stream._last is None:
                outputs.append((stream, stream._prefill()))
            elif (row := stream._input()) is not None:
                running.append(stream)
                rows.append(row)
        except BaseException as error:
            stream._fail(error)
            if not isinstance(error, Exception):
                raise
    if not running:
        return outputs
    try:
        states = [stream._state for stream in running if stream._state is not None]
        results = running[0]._talker.step_together(states, np.stack(rows))
    except BaseException as error:
        for stream in running:
            stream._fail(error)
        if not isinstance(error, Exception):
            raise
        return outputs
    return outputs + list(zip(running, results, strict=True))


def _complete(firsts: list[tuple[FrameStream, F32, int]]) -> dict[int, I32]:
    """The frames whose first codes are known, by the id of their stream."""
    if not firsts:
        return {}
    streams, hidden, codes = zip(*firsts, strict=True)
    try:
        frames = streams[0]._predictor.frames(np.stack(hidden), codes, [stream._choose for stream in streams])
        return {id(stream): stream._emit(frame) for stream, frame in zip(streams, frames, strict=True)}
    except BaseException as error:
        if len(firsts) == 1 or not isinstance(error, Exception):
            for stream in streams:
                stream._fail(error)
            if not isinstance(error, Exception):
                raise
            return {}
    # One of them is at fault: a frame starts from nothing, so each can be tried alone.
    return {key: frame for one in firsts for key, frame in _complete([one]).items()}
