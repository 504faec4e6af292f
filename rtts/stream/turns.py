"""The life of a session's turns: begun by text, spoken by the workers, taken chunk by chunk, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import numpy as np

from rtts.errors import RequestError
from rtts.stream import events, figures
from rtts.stream.config import StreamConfig
from rtts.stream.desk import Desk, RawChunk
from rtts.stream.dispatch import Dispatch
from rtts.stream.events import Done, Event, Heard, PcmChunk, StopReason
from rtts.stream.feeding import Feeding
from rtts.stream.job import Job
from rtts.stream.playhead import Playhead
from rtts.stream.subscription import Subscription
from rtts.stream.timers import Timers
from rtts.stream.turn import Sentence, Turn
from rtts.stream.workers import Workers
from rtts_engine.config import FRAME_S, SAMPLE_RATE_HZ
from rtts_engine.manner import Manner
from rtts_engine.request import Settings

MAX_AHEAD_CHARS = 10_000
"""Text that may wait to be spoken, some ten minutes of speech: an iterator without end needs no memory without end, and
what an interruption drops is not asked for."""


class Turns:
    """What a ``Session`` is below its calls. One event loop, its thread only."""

    def __init__(self, workers: Workers, manner: Manner, settings: Settings, config: StreamConfig) -> None:
        """
        Raises:
            RequestError: there is no running event loop, or no seat at the workers.
        """
        self.config = config
        self.done: Done | None = None
        """How the last turn ended, with its metrics."""
        self._language = (manner.language or "auto").lower()
        self._workers = workers
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RequestError(
                "a session needs a running event loop; open it in a coroutine, see asyncio.run"
            ) from None
        self._desk = Desk(
            config,
            workers,
            self._post(self._on_chunk),
            self._post(self._on_ended),
            self._post(self._on_failed),
        )
        self._stream = workers.open(self._desk)
        self._dispatch = Dispatch(workers, self._stream, manner, settings, config, self._emit)
        self._generation = 0
        self._turn: Turn | None = None
        """The one that takes text."""
        self._turns: deque[Turn] = deque()
        """Those whose sound was not taken to its end."""
        self._playhead = Playhead()
        self._fed_chars = 0
        self._changed = asyncio.Event()
        self._subscribers: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._timers = Timers(self._loop)
        self._feeding = Feeding()
        self._taker: weakref.ref[AsyncGenerator[PcmChunk, None]] | None = None
        """Who takes the chunks, as long as it is there: a loop that was left is gone."""
        self._taking: Turn | None = None
        """The turn that it takes; None while it waits for one."""
        self._spoken = asyncio.Event()
        """Set when less text waits to be spoken."""
        self._held_back = False
        """Text is there, but it waits until more of what was fed is spoken."""

    # -- text --------------------------------------------------------------------------------

    def _begin(self, now_s: float) -> None:
        self._turn = Turn(
            self.config,
            self._language,
            self._generation,
            base=self._fed_chars,
            sample=self._playhead.made,
            now_s=now_s,
        )
        self._turns.append(self._turn)
        self._playhead.begin(self._turn)
        self._emit(events.Started(self._generation))
        self._watch_consumer()  # it may not have taken the turn before yet
        self._changed.set()

    def _text_arrived(self) -> None:
        turn = self._turn
        assert turn is not None
        self._dispatch.more(turn)
        self._timers.arm("text", turn.deadline_s, self._poll_text)
        if turn.closed:
            self._timers.disarm("stall")
        elif not turn.stalled and not self._held_back:
            self._timers.arm("stall", turn.fed_s + self.config.text_timeout_s, self._stalled)

    async def _room(self) -> None:
        """Wait while too much of the turn's text is unspoken and somebody takes its sound. That is no stall."""
        while (turn := self._turn) is not None and turn.unspoken_chars > MAX_AHEAD_CHARS and self._taken:
            self._held_back = True
            self._timers.disarm("stall")
            self._spoken.clear()
            try:
                await self._spoken.wait()
            finally:
                self._held_back = False
                if turn is self._turn and not turn.closed:
                    turn.fed_s = time.monotonic()
                    self._text_arrived()

    @property
    def _taken(self) -> bool:
        """Whether a consumer is at it: not one that was left, or whose turn was dropped."""
        chunks = self._taker() if self._taker is not None else None
        if getattr(chunks, "ag_frame", None) is None:  # gone, or run to its end
            return False
        return self._taking is None or self._taking in self._turns

    def _poll_text(self) -> None:
        if self._turn is not None and not self._turn.closed:
            self._turn.poll(time.monotonic())
            self._text_arrived()

    def _stalled(self) -> None:
        """Open text stayed away: what there is is spoken to its end, and the turn ends there unless more text comes."""
        if self._turn is not None and not self._turn.closed:
            self._turn.stall(time.monotonic())
            self._text_arrived()
            self._finish_if_done()

    # -- from the workers ----------------------------------------------------------------------

    def _post(self, handler: Callable[..., None]) -> Callable[..., None]:
        """``handler`` as something that other threads may call."""

        def call(*args: object) -> None:
            with contextlib.suppress(RuntimeError):  # a closed loop: nobody listens any more
                self._loop.call_soon_threadsafe(handler, *args)

        return call

    def _sentence(self, job: Job) -> tuple[Turn, Sentence] | None:
        turn = self._turn
        if turn is None or job.generation != self._generation or job.index >= len(turn.sentences):
            return None
        sentence = turn.sentences[job.index]
        return (turn, sentence) if sentence.job is job else None

    def _on_chunk(self, raw: RawChunk) -> None:
        found = self._sentence(raw.job)
        if found is None:
            return
        turn, sentence = found
        gap = 0
        if sentence.samples == 0 and turn.first_chunk_s is not None:
            gap = round(self.config.sentence_gap_s * SAMPLE_RATE_HZ)
        samples = raw.samples
        if gap:
            samples = np.concatenate([np.zeros(gap, np.int16), raw.samples])
            self._desk.padded(gap, turn.generation)
        start_s = turn.end_sample / SAMPLE_RATE_HZ
        span = turn.handed_out(sentence, gap, len(raw.samples), last=raw.last)
        if turn.first_chunk_s is None:
            turn.first_chunk_s = time.monotonic()
            turn.preroll_s = raw.preroll_frames * FRAME_S
        self._playhead.made = turn.end_sample
        turn.ready.append(PcmChunk(samples, span, start_s, turn.generation))
        self._emit(events.ChunkReady(start_s, len(samples) / SAMPLE_RATE_HZ, span))
        self._watch_consumer()
        self._changed.set()

    def _on_ended(self, job: Job) -> None:
        found = self._sentence(job)
        if found is None:
            return
        turn, sentence = found
        self._dispatch.take_back(turn)
        turn.complete(sentence)
        self._spoken.set()
        if turn.ready:  # now it is known that its last chunk was the sentence's
            chunk = turn.ready[-1]
            turn.ready[-1] = replace(chunk, text_span=(chunk.text_span[0], turn.close_span()))
        self._dispatch.more(turn)
        self._finish_if_done()

    def _on_failed(self, job: Job, cause: BaseException) -> None:
        found = self._sentence(job)
        if found is None:
            return
        turn, _ = found
        turn.error = cause
        turn.ready.clear()
        untaken = [each for each in self._turns if each.ready]  # earlier turns, which are whole
        self._playhead.failed(turn, untaken[-1].end_sample if untaken else self._playhead.taken)
        self._next_generation()
        self._end_turn("error")

    def _on_underrun(self, at_s: float, missing_s: float) -> None:
        self._emit(events.Underrun(at_s, missing_s))

    def _watch_consumer(self) -> None:
        """Runs the timer of a consumer that everything waits for."""
        if self._desk.room():
            self._timers.disarm("consumer")
        elif "consumer" not in self._timers:
            deadline_s = time.monotonic() + self.config.consumer_timeout_s
            self._timers.arm("consumer", deadline_s, self._consumer_is_slow)

    def _consumer_is_slow(self) -> None:
        if self._turn is not None and not self._desk.room():
            self._drop("slow_consumer")

    # -- ends ----------------------------------------------------------------------------------

    def _take(self, turn: Turn) -> PcmChunk:
        chunk = turn.ready.popleft()
        self._desk.taken(len(chunk.samples), chunk.generation)
        self._playhead.taken = round(chunk.t_start_s * SAMPLE_RATE_HZ) + len(chunk.samples)
        self._timers.disarm("consumer")
        self._watch_consumer()
        self._workers.wake()
        return chunk

    def _forget(self, turn: Turn) -> None:
        if turn in self._turns:
            self._turns.remove(turn)

    def _finish_if_done(self) -> None:
        turn = self._turn
        if turn is None or turn.waiting or not (turn.closed or turn.stalled):
            return
        if not all(sentence.ended for sentence in turn.sentences):
            return
        self._end_turn(figures.stop_reason(turn))

    def _drop(self, reason: StopReason) -> Heard:
        """End the turn and forget its sound."""
        self._next_generation()
        heard = self._playhead.interrupt(self._generation)
        self._end_turn(reason)
        for dropped in self._turns:
            dropped.ready.clear()
        self._turns.clear()
        self._changed.set()
        return heard

    def _next_generation(self) -> None:
        """Nothing that was begun until now is fed, made or handed out."""
        self._generation += 1
        self._feeding.cancel()
        self._workers.cancel(self._stream)
        self._desk.reset(self._generation)

    def _end_turn(self, reason: StopReason) -> None:
        self._timers.clear()
        self._spoken.set()
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.done = self.done = Done(
            reason, figures.metrics(turn, time.monotonic(), self._playhead.underruns)
        )
        self._emit(turn.done)
        self._changed.set()

    def _emit(self, event: Event | None) -> None:
        for subscription in self._subscribers:
            subscription.put(event)
