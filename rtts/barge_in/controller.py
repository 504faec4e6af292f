"""A microphone that interrupts a session: frames are judged, the buffer is ducked, the session is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

import numpy.typing as npt

from rtts.barge_in.config import BargeInConfig
from rtts.barge_in.echo import EchoGuard
from rtts.barge_in.frames import Framer
from rtts.barge_in.machine import BargeInMachine, Decision, Reason
from rtts.barge_in.vad import VoiceDetector
from rtts.errors import RequestError, StreamError
from rtts.stream.events import Heard
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.session import Session, check_session

log = logging.getLogger(__name__)

Sound: TypeAlias = "tuple[npt.NDArray[Any], int]"
"""Microphone samples, (n,) or (n, channels), and their rate in Hz."""

RECORD_S = 4.0
"""Played sound that the echo guard may look back on."""
_LATE_S = 0.1
"""A microphone that is late by less does not count as gone."""


@dataclass(frozen=True, slots=True)
class Ducked:
    """A voice was heard, and the assistant was turned down. Times are ``now`` as given to ``push`` (monotonic)."""

    first_voice_s: float
    """End of the first microphone frame with voice."""
    duck_s: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """It was a false alarm, or the assistant came to its end by itself; it has its volume back."""

    first_voice_s: float
    duck_s: float
    resume_s: float
    reason: Reason
    """``pause``, ``limit`` or ``finished``."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The user took the turn. The last sample is heard at the buffer's ``last_sound_s + latency_s``."""

    heard: Heard
    """What was played of the turn."""
    first_voice_s: float
    """End of the first microphone frame with voice, of the stretch of speech that committed."""
    duck_s: float
    commit_s: float
    done_s: float
    """When the session was interrupted: from then on nothing of the turn is handed out."""


BargeInEvent: TypeAlias = Ducked | Resumed | Interruption


class BargeIn:
    """Lets a user interrupt a session by speaking. One microphone, one session, one event loop, its thread only.

    Attach a sink (``rtts.webrtc.TtsTrack``, ``rtts.local.Player``) to the session first, then give it the microphone:
    ``listen`` to a source, or ``push`` by hand. ``aclose`` or ``async with`` ends it.
    """

    def __init__(
        self,
        session: Session,
        config: BargeInConfig | None = None,
        *,
        on_interrupt: Callable[[Interruption], object] | None = None,
    ) -> None:
        """
        Args:
            session: what is interrupted.
            config: see ``BargeInConfig``.
            on_interrupt: called at every commit, when the session is silent; it should return at once.

        Raises:
            RuntimeSetupError: webrtcvad is not installed.
            RequestError: that is no session, or ``config`` no config.
        """
        check_session(session)
        if config is not None and not isinstance(config, BargeInConfig):
            raise RequestError(f"config is {type(config).__name__}, expected a BargeInConfig or None")
        self.config = config or BargeInConfig()
        self._session = session
        self._on_interrupt = on_interrupt
        self._framer = Framer(self.config.frame_ms)
        self._detector = VoiceDetector(self.config)
        self._echo = EchoGuard(self.config) if self.config.echo_guard else None
        self._machine = BargeInMachine(self.config)
        self._buffer: PlaybackBuffer | None = None
        self._pulled = 0
        self._subscribers: set[asyncio.Queue[BargeInEvent | None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.error: Exception | None = None
        """Why listening failed."""

    async def __aenter__(self) -> BargeIn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def ducked(self) -> bool:
        """Whether the assistant is turned down while it is unclear if the user goes on."""
        return self._machine.ducked

    @property
    def echo_delay_s(self) -> float | None:
        """How late the assistant hears itself; None while it does not."""
        return None if self._echo is None else self._echo.delay_s

    def listen(self, source: AsyncIterator[Sound]) -> None:
        """Push everything that ``source`` gives, in a task that ``aclose`` ends.

        A failure is logged, kept in ``error``, and raised by ``wait`` and ``events``.

        Args:
            source: ``rtts.barge_in.from_track(track)``, ``rtts.barge_in.from_device()`` or your own.

        Raises:
            RequestError: it listens already, or is closed.
        """
        self._require_open()
        if self._task is not None and not self._task.done():
            raise RequestError("this barge-in listens to a microphone already; open another one for the next")
        self.error = None
        self._task = asyncio.get_running_loop().create_task(self._listen(source), name="rtts-barge-in")

    async def push(self, samples: npt.NDArray[Any], sample_rate_hz: int, now: float | None = None) -> None:
        """The next microphone samples; returns when everything that follows from them is done.

        Args:
            samples: (n,) or (n, channels), int16, int32 or floats; any n.
            sample_rate_hz: 4000 to 384000. 8, 16, 32 and 48 kHz need no resampling.
            now: when the last of them was recorded, in seconds of ``time.monotonic()``; None is now.

        Raises:
            AudioError: samples or rate are unfit.
            RequestError: the session has no sink that plays it, or this is closed.
        """
        self._require_open()
        buffer = self._attached()
        now_s = time.monotonic() if now is None else now
        frames = list(self._framer.push(samples, sample_rate_hz))
        pushed_s = self._framer.pushed_s
        if self._echo is not None:
            played, self._pulled = buffer.pulled_since(self._pulled)
            self._echo.played(played, pushed_s)
        for frame in frames:
            voice = self._detector.is_voice(frame)
            echo = self._echo is not None and self._echo.is_echo(
                frame, pushed_s - frame.age_s, self._detector.level_dbfs
            )
            speaking = not buffer.idle or (self.config.before_sound and self._session.pending)
            decision = self._machine.step(now_s - frame.age_s, voice, speaking=speaking, echo=echo)
            if decision is not None:
                await self._act(decision, now_s)
        self._arm(now_s)

    def events(self) -> AsyncIterator[BargeInEvent]:
        """Events from now on, until ``aclose``, or the source that it listens to ends (or fails, which is raised)."""
        return self._subscribe()

    async def wait(self) -> Interruption:
        """The next interruption.

        Raises:
            StreamError: there will be none, because the microphone ended or this was closed.
            RttsError: whatever listening failed with.
        """
        async with contextlib.aclosing(self._subscribe()) as events:
            async for event in events:
                if isinstance(event, Interruption):
                    return event
        raise StreamError("no interruption can come any more: the microphone's stream ended")

    async def aclose(self) -> None:
        """Stop listening, and give the assistant its volume back. Closing again has no effect."""
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._let_go()
        self._emit(None)

    # -- inside --------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise RequestError("this barge-in is closed; make another one")

    def _attached(self) -> PlaybackBuffer:
        buffer = self._session.buffer  # the session's own word on what is played
        if buffer is None:
            raise RequestError(
                "the session has no sink, so nobody knows what is played; make a TtsTrack or a Player of it, "
                "or attach your own PlaybackBuffer, before listening"
            )
        if buffer is not self._buffer:
            self._let_go()
            self._buffer = buffer
            if self._echo is not None:
                buffer.record(RECORD_S)
            self._pulled = buffer.pulled_since(0)[1]
        return buffer

    def _let_go(self) -> None:
        """The sink has changed, or nobody listens any more: it has its volume back and records nothing."""
        self._release()
        if self._buffer is not None and self._echo is not None:
            self._buffer.record(0.0)

    async def _listen(self, source: AsyncIterator[Sound]) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                if hasattr(source, "aclose"):
                    stack.push_async_callback(source.aclose)
                async for samples, sample_rate_hz in source:
                    await self.push(samples, sample_rate_hz)
        except Exception as error:
            self.error = error
            log.error("barge-in stopped listening: %s", error, exc_info=error)
        finally:
            self._release()
            self._emit(None)

    async def _act(self, decision: Decision, now_s: float) -> None:
        assert self._buffer is not None
        if decision.action == "duck":
            self._buffer.duck(self.config.duck_gain)
            self._emit(Ducked(decision.first_voice_s, decision.t_s))
        elif decision.action == "resume":
            self._resume(decision)
        else:
            start_s = time.perf_counter()
            try:
                heard = await self._session.interrupt()
            finally:
                self._buffer.duck(1.0)  # behind the fade: the next turn has its full volume
            done_s = now_s + time.perf_counter() - start_s
            interruption = Interruption(heard, decision.first_voice_s, decision.duck_s, decision.t_s, done_s)
            self._emit(interruption)
            if self._on_interrupt is not None:
                self._on_interrupt(interruption)

    def _resume(self, decision: Decision) -> None:
        assert self._buffer is not None
        self._buffer.duck(1.0)
        self._emit(Resumed(decision.first_voice_s, decision.duck_s, decision.t_s, decision.reason))

    def _arm(self, now_s: float) -> None:
        """A microphone that goes quiet for good must not leave the assistant ducked."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._machine.deadline_s
        if deadline_s is not None:
            delay_s = deadline_s - now_s + _LATE_S
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._poll, deadline_s + _LATE_S)

    def _poll(self, t_s: float) -> None:
        self._timer = None
        decision = self._machine.poll(t_s)
        if decision is not None:
            self._resume(decision)

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        decision = self._machine.stop()
        if decision is not None:
            self._resume(decision)

    def _subscribe(self) -> AsyncGenerator[BargeInEvent, None]:
        self._require_open()
        queue: asyncio.Queue[BargeInEvent | None] = asyncio.Queue()
        if self._task is not None and self._task.done():
            queue.put_nowait(None)
        self._subscribers.add(queue)
        return self._events(queue)

    async def _events(self, queue: asyncio.Queue[BargeInEvent | None]) -> AsyncGenerator[BargeInEvent, None]:
        try:
            while (event := await queue.get()) is not None:
                yield event
            if self.error is not None:
                raise self.error
        finally:
            self._subscribers.discard(queue)

    def _emit(self, event: BargeInEvent | None) -> None:
        for queue in self._subscribers:
            queue.put_nowait(event)
