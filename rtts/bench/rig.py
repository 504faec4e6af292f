"""What the benchmarks share: a simulated LLM, a sink that plays in real time, and one measured turn."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median
from types import TracebackType

import numpy as np

from rtts.stream.config import StreamConfig
from rtts.stream.events import PcmChunk, Underrun
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.tts import Tts
from rtts_engine.config import SAMPLE_RATE_HZ

PULL_SAMPLES = 480
PULL_S = 0.02
AUDIBLE = 328
"""-40 dB of int16 full scale."""

SHORT = "Hello there, how are you today?"
LONG = (
    "Thank you for calling. I looked at your order, and it left our warehouse this morning. "
    "It should be with you on Thursday, before noon. Is there anything else that I can do for you today?"
)


async def llm(text: str, tokens_per_s: float, jitter: float, seed: int) -> AsyncIterator[str]:
    """``text`` in pieces of three to six characters at a rate, each delay off by up to ``jitter`` of it."""
    source = random.Random(seed)
    position = 0
    due = time.monotonic()
    while position < len(text):
        size = source.randint(3, 6)
        due += (1 + source.uniform(-jitter, jitter)) / tokens_per_s
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield text[position : position + size]
        position += size


@dataclass
class Sink:
    """Pulls in real time from its own thread, as a sound card does, and notes when sound comes out."""

    buffer: PlaybackBuffer
    first_sound_s: float | None = None
    first_audible_s: float | None = None
    last_audible_s: float | None = None
    """All of ``time.monotonic``: the moment of the pull."""
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Sink:
        self._thread = threading.Thread(target=self._run, name="bench-sink")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        start, count = time.monotonic(), 0
        while not self._stop.is_set():
            count += 1
            self._stop.wait(max(0.0, start + count * PULL_S - time.monotonic()))
            before = self.buffer.played_s
            samples = self.buffer.pull(PULL_SAMPLES)
            now = time.monotonic()
            if self.buffer.played_s > before and self.first_sound_s is None:
                self.first_sound_s = now
            if np.abs(samples.astype(np.int32)).max() >= AUDIBLE:
                self.first_audible_s = self.first_audible_s or now
                self.last_audible_s = now


class LoopLag:
    """How late a 5 ms sleep of this event loop wakes up, again and again: ``async with LoopLag() as lag``."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []

    async def __aenter__(self) -> LoopLag:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            start = time.monotonic()
            await asyncio.sleep(0.005)
            self.late_ms.append((time.monotonic() - start - 0.005) * 1e3)


@dataclass(frozen=True)
class Run:
    """One turn, measured. Times count from the first fed text."""

    timeline_ms: dict[str, float | None]
    sink_ms: float | None
    audible_ms: float | None
    ttfa_ms: float | None
    """Text complete -> first sound at the sink."""
    gaps_ms: list[float]
    """Between chunks."""
    underruns: int
    holes_s: float
    """Silence at the sink in between."""
    preroll_s: float
    audio_s: float
    wall_s: float
    rtf: float | None
    ar_ms_per_frame: float | None
    codec_ms_per_frame: float | None
    late_ms: list[float]
    """Of the event loop."""
    cpu_s: float
    chunks: list[tuple[float, float, float]]
    """(handed out at ms, start in the sound s, length s)"""


async def turn(tts: Tts, text: str, config: StreamConfig, tokens_per_s: float | None, seed: int) -> Run:
    """One turn of one session at a real-time sink. ``tokens_per_s`` None: the text is there at once."""
    buffer = PlaybackBuffer()
    async with tts.session(seed=seed, config=config) as session, LoopLag() as lag:
        session.attach(buffer)
        events, holes = session.events(), session.events()
        with Sink(buffer) as sink:
            cpu_s = time.process_time()
            source = at_once(text) if tokens_per_s is None else llm(text, tokens_per_s, 0.5, seed)
            feeding = asyncio.create_task(session.speak(source))
            await anext(events)  # the first text is there
            start_s = time.monotonic()
            handed: list[tuple[float, PcmChunk]] = []
            async for chunk in session:
                buffer.push(chunk)
                handed.append((time.monotonic(), chunk))
            buffer.finish()
            await feeding
            cpu_s = time.process_time() - cpu_s
            await asyncio.sleep(buffer.buffered_s + 0.1)
        assert session.done is not None
        metrics = session.done.metrics
    holes_s = sum([event.missing_s async for event in holes if isinstance(event, Underrun)])
    timeline = asdict(metrics.timeline)
    sink_ms = _since(start_s, sink.first_sound_s)
    return Run(
        timeline_ms=timeline,
        sink_ms=sink_ms,
        audible_ms=_since(start_s, sink.first_audible_s),
        ttfa_ms=None if sink_ms is None else sink_ms - min(timeline["text_end_ms"] or 0.0, sink_ms),
        gaps_ms=[(b[0] - a[0]) * 1e3 for a, b in pairwise(handed)],
        underruns=buffer.underruns,
        holes_s=holes_s,
        preroll_s=metrics.preroll_s,
        audio_s=metrics.audio_s,
        wall_s=metrics.wall_s,
        rtf=metrics.rtf,
        ar_ms_per_frame=metrics.ar_ms_per_frame,
        codec_ms_per_frame=metrics.codec_ms_per_frame,
        late_ms=lag.late_ms,
        cpu_s=cpu_s,
        chunks=[((at - start_s) * 1e3, c.t_start_s, len(c.samples) / SAMPLE_RATE_HZ) for at, c in handed],
    )


async def at_once(text: str) -> AsyncIterator[str]:
    """The whole text, as an iterator."""
    yield text


def _since(start_s: float, moment_s: float | None) -> float | None:
    return None if moment_s is None else (moment_s - start_s) * 1e3


def middle(values: Iterable[float | None], digits: int = 3) -> float | None:
    """Median of the known values."""
    known = [value for value in values if value is not None]
    return round(median(known), digits) if known else None


def percentile(values: Iterable[float | None], share: float, digits: int = 3) -> float | None:
    """Of the known values."""
    known = [value for value in values if value is not None]
    return round(float(np.percentile(known, share)), digits) if known else None
