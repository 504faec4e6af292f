"""A session: the asyncio side of a stream. Text in, chunks of sound out, turn after turn, interruptible."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import replace
from types import TracebackType

import numpy as np

from rtts.errors import RequestError, StreamError
from rtts.notices import ReachWatch
from rtts.stream import events, figures
from rtts.stream.config import StreamConfig
from rtts.stream.desk import Desk, RawChunk
from rtts.stream.dispatch import Dispatch
from rtts.stream.events import Done, Event, Heard, PcmChunk, StopReason
from rtts.stream.feeding import Feeding
from rtts.stream.job import Job
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.playhead import Playhead
from rtts.stream.subscription import Subscription
from rtts.stream.timers import Timers
from rtts.stream.turn import Sentence, Turn
from rtts.stream.workers import Workers
from rtts_engine.config import FRAME_S, SAMPLE_RATE_HZ
from rtts_engine.prompt import Manner
from rtts_engine.request import MAX_SEED, Settings
from rtts_engine.tokenizer import check_text


def check_session(session: object) -> None:
    """Raises ``RequestError`` where a sink or a barge-in was given something else than a session."""
    if not isinstance(session, Session):
        raise RequestError(f"session is {type(session).__name__}, expected what Tts.session() returns")


class Session:
    """Speaks text that is fed to it, in turns.

    A turn goes from its first ``feed`` to ``end``. Iterating over the session gives a turn's chunks, waiting for it to
    begin if need be, and stops behind its last one. ``interrupt`` ends a turn at once. One event loop, its thread only.
    """

    def __init__(
        self,
        workers: Workers,
        manner: Manner,
        settings: Settings,
        config: StreamConfig,
        *,
        languages: Sequence[str] = (),
    ) -> None:
        """Use ``Tts.session``."""
        if settings.seed is None:
            settings = replace(settings, seed=secrets.randbelow(MAX_SEED))
        assert settings.seed is not None
        self.config = config
        self.seed = settings.seed
        """The seed in use: same seed, text and voice give the same samples."""
        self._language = (manner.language or "auto").lower()
        self._reach = ReachWatch(languages)
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
        self._playhead = Playhead()
        self._fed_chars = 0
        self._turns: deque[Turn] = deque()
        self._changed = asyncio.Event()
        self.done: Done | None = None
        """How the last turn ended, with its metrics."""
        self._subscribers: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._timers = Timers(self._loop)
        self._feeding = Feeding()
        self._closed = False

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- text --------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        """More text of the turn, in pieces of any size; the first piece begins a turn.

        Raises:
            TextError: the text is no string, or holds a lone surrogate.
            RequestError: the turn was ended, or the session is closed.
        """
        self._require_open()
        check_text(text)
        if not text:
            return
        now_s = time.monotonic()
        if self._turn is None:
            self._begin(now_s)
        assert self._turn is not None
        if self._turn.closed:
            raise RequestError(
                "the turn was ended; take its sound to the end or interrupt it before the next one"
            )
        self._reach.feed(text)
        self._turn.feed(text, now_s)
        self._fed_chars += len(text)
        self._text_arrived()

    def end(self) -> None:
        """The turn's text is complete. Ending it again while it is spoken has no effect.

        Where no turn is open (its speech has ended, too), one without text begins and is over at once.
        """
        self._require_open()
        if self._turn is None:
            self._begin(time.monotonic())
        assert self._turn is not None
        if not self._turn.closed:
            self._reach.end()
            self._turn.close(time.monotonic())
            self._text_arrived()
            self._finish_if_done()

    async def speak(self, text: AsyncIterable[str]) -> None:
        """Feed everything that ``text`` gives and end the turn. Returns when the text is fed, or was interrupted.

        An interruption does not wait for the next piece: ``text`` is closed at once. When ``text`` fails or the call is
        cancelled, what was fed is spoken to its end.

        Raises:
            RequestError: ``text`` is no asynchronous iterable; and as ``feed``.
        """
        self._require_open()
        if not hasattr(text, "__aiter__"):
            raise RequestError(
                f"speak() takes an asynchronous iterator of text, not {type(text).__name__}; "
                "use feed() and end() for text that is there"
            )
        await self._feeding.run(self._feed_from(text))

    async def _feed_from(self, text: AsyncIterable[str]) -> None:
        generation = self._generation
        fed = False
        pieces = aiter(text)
        try:
            async for piece in pieces:
                if generation != self._generation:
                    return  # it goes on although it was interrupted: nothing of it belongs to the next turn
                self.feed(piece)
                fed = True
                await asyncio.sleep(0)  # an iterator that never waits must not keep everybody else waiting
        finally:
            # Also where it failed: whoever takes the sound is told of the end of what was fed, if only of none.
            if generation == self._generation and (self._turn is not None or not fed):
                self.end()
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()  # whatever it reads from is let go at once

    # -- sound -------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncGenerator[PcmChunk, None]:
        self._require_open()
        return self._chunks()

    async def _chunks(self) -> AsyncGenerator[PcmChunk, None]:
        """The chunks of the oldest turn that was not taken to its end, or of the next one to begin."""
        while not self._turns:
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()
        turn = self._turns[0]
        while True:
            if turn.ready:
                yield self._take(turn)
            elif turn.error is not None:
                error, turn.error = turn.error, None
                self._forget(turn)
                raise StreamError(f"speech failed: {error}") from error
            elif turn.done is not None:
                self._forget(turn)
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    @property
    def made_s(self) -> float:
        """Sound handed out since the session was opened."""
        return self._playhead.made / SAMPLE_RATE_HZ

    @property
    def unspoken_chars(self) -> int:
        """How much text was fed and is not sound yet, as it is spoken: what the cleaner drops does not count."""
        return self._turn.unspoken_chars if self._turn is not None else 0

    @property
    def pending(self) -> bool:
        """Whether a turn has begun whose sound was not taken to its end."""
        return bool(self._turns)

    @property
    def closed(self) -> bool:
        """Whether ``aclose`` was called: nothing comes any more."""
        return self._closed

    @property
    def buffer(self) -> PlaybackBuffer | None:
        """The sink's buffer, once one is attached."""
        return self._playhead.buffer

    def attach(self, buffer: PlaybackBuffer) -> None:
        """Tell the session which buffer its chunks go to, so that it knows what is played and can interrupt it.

        Raises:
            RequestError: another sink is attached, and two would take each other's chunks; or ``buffer`` is none.
        """
        self._require_open()
        if not isinstance(buffer, PlaybackBuffer):
            raise RequestError(f"buffer is {type(buffer).__name__}, expected a PlaybackBuffer")
        self._playhead.attach(buffer)
        self._desk.buffer = buffer
        buffer.watch_underruns(self._post(self._on_underrun))

    def detach(self, buffer: PlaybackBuffer) -> None:
        """The sink with this buffer takes no more; another one may be attached. What was played is remembered."""
        self._playhead.detach(buffer)
        if buffer is self._desk.buffer:
            self._desk.buffer = None

    async def interrupt(self) -> Heard:
        """End the turn now: nothing more of it is generated, handed out or played. Returns what was heard of it."""
        self._require_open()
        return self._drop("cancelled")

    def events(self) -> AsyncIterator[Event]:
        """Events from now on, until the session is closed."""
        self._require_open()
        subscription = Subscription()
        self._subscribers.add(subscription)
        return subscription

    async def aclose(self) -> None:
        """Drop what is under way and give the seat at the model back. Closing again has no effect."""
        if self._closed:
            return
        try:
            self._drop("cancelled")
        finally:  # a hook of the sink may have failed
            self._closed = True
            self._workers.close_stream(self._stream)
            self._emit(None)
            self._changed.set()

    # -- turns -------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("the session is closed; open another one")
        if asyncio._get_running_loop() is not self._loop:
            raise RequestError(
                "a session is used in the event loop that opened it; from another thread, use call_soon_threadsafe "
                "or run_coroutine_threadsafe of that loop"
            )

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
        elif not turn.stalled:
            self._timers.arm("stall", turn.fed_s + self.config.text_timeout_s, self._stalled)

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
