"""The session path of ``rtts say``: text that arrives bit by bit, or that is longer than one utterance can hold."""

from __future__ import annotations

import asyncio
import codecs
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO

import numpy as np

from rtts.audio import SAMPLE_RATE_HZ
from rtts.cli.ledger import Ledger
from rtts.cli.sinks import Write
from rtts.errors import RttsError, TextError
from rtts.speech import AUDIBLE, Metrics, count_underruns
from rtts.stream.config import StreamConfig, Verbalise
from rtts.stream.events import Done, PcmChunk, StopReason
from rtts.stream.figures import gravest
from rtts.stream.session import Session
from rtts.stream.turns import MAX_AHEAD_CHARS

READ_BYTES = 1 << 16
PIECE_CHARS = 2000


def live_config(
    first_chunk_frames: int, chunk_frames: int, *, clean_text: bool, verbalise: Verbalise
) -> StreamConfig:
    """A session's config for the flags of ``rtts say``. A pipe's reader may take all the time that it likes."""
    return StreamConfig(
        first_chunk_frames=first_chunk_frames,
        chunk_frames=chunk_frames,
        clean_text=clean_text,
        verbalise=verbalise,
        text_timeout_s=3600.0,
        consumer_timeout_s=86400.0,
    )


async def pieces_of(text: str) -> AsyncIterator[str]:
    """``text`` bit by bit."""
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


async def standard_input(file: IO[bytes] | None = None) -> AsyncIterator[str]:
    """UTF-8 text from ``file`` (standard input), as soon as it is there.

    Raises:
        TextError: it is not UTF-8.
    """
    source = file if file is not None else sys.stdin.buffer
    # Unbuffered: the buffer's lock, held by a thread that waits for a key, would crash the interpreter at its end.
    read: Callable[[int], bytes] = getattr(source, "raw", source).read
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    wanted = threading.Semaphore(0)

    def work() -> None:
        while wanted.acquire():
            data: bytes | OSError
            try:
                data = read(READ_BYTES) or b""
            except OSError as error:
                data = error
            try:
                loop.call_soon_threadsafe(arrived.put_nowait, data)
            except RuntimeError:
                return  # the loop is closed
            if not data or isinstance(data, OSError):
                return

    # A thread of its own, because waiting for a key cannot be interrupted: it must not keep the program from ending.
    threading.Thread(target=work, name="rtts-stdin", daemon=True).start()
    decode = codecs.getincrementaldecoder("utf-8")().decode
    taken = 0
    while True:
        wanted.release()
        data = await arrived.get()
        if isinstance(data, OSError):
            raise data
        try:
            text = decode(data, final=not data)
        except UnicodeDecodeError as error:
            # The position counts from the bytes that the decoder had kept from before.
            kept = len(error.object) - len(data)
            byte = taken - kept + error.start
            raise TextError(f"standard input is not UTF-8 text (byte {byte}); convert it first") from None
        taken += len(data)
        for start in range(0, len(text), PIECE_CHARS):
            yield text[start : start + PIECE_CHARS]
        if not data:
            return


async def speak(
    session: Session,
    text: AsyncIterator[str],
    writes: Sequence[Write],
    ledger: Ledger,
    report: Callable[[str, float], None],
) -> Metrics:
    """Feed ``text`` and write its sound as it comes. Text that stays away for long makes several turns of it.

    Raises:
        TextError: there was nothing to speak.
        StreamError: speech failed.
    """
    tally = _Tally()
    feeding = asyncio.ensure_future(_feed(session, text, tally))
    try:
        while True:
            async for chunk in session:
                samples = chunk.samples.astype(np.float32) / np.float32(32767)
                for write in writes:
                    write(samples)
                tally.add(chunk)
                report(f"{tally.samples / SAMPLE_RATE_HZ:.1f} s", 0.0)
                if ledger.full and not feeding.done():
                    feeding.cancel()
                    session.end()
            if session.done is not None:
                tally.turns.append(session.done)
            if feeding.done() and not session.pending:
                break
        if not feeding.cancelled():
            feeding.result()
    finally:
        feeding.cancel()
    if not ledger.frames:
        raise TextError("there is no text to speak; give at least one word")
    return tally.metrics(capped=ledger.full)


async def _feed(session: Session, text: AsyncIterator[str], tally: _Tally) -> None:
    try:
        async for piece in text:
            tally.start_s = tally.start_s or time.monotonic()
            session.feed(piece)
            while session.unspoken_chars > MAX_AHEAD_CHARS:
                tally.progress.clear()
                await tally.progress.wait()
    except (RttsError, OSError):
        await session.interrupt()
        session.end()  # a turn that is over at once: nobody waits for more
        raise
    session.end()


def _reason(turns: list[Done]) -> StopReason:
    """The gravest of all turns; that text stayed away counts only if nothing came after."""
    last = turns[-1].stop_reason
    if last not in ("eos", "length_cap", "silence", "stalled"):
        return last
    return gravest({turn.stop_reason for turn in turns if turn.stop_reason != "stalled"} | {last})


class _Tally:
    """What the figures of ``--json`` need to know."""

    def __init__(self) -> None:
        self.start_s: float | None = None
        self.progress = asyncio.Event()
        self.samples = 0
        self.turns: list[Done] = []
        self._chunks: list[tuple[float, int]] = []
        self._audible: int | None = None

    def add(self, chunk: PcmChunk) -> None:
        """Count a chunk that was handed on."""
        if self._audible is None:
            loud = np.flatnonzero(np.abs(chunk.samples.astype(np.int32)) >= AUDIBLE * 32767)
            self._audible = self.samples + int(loud[0]) if loud.size else None
        self._chunks.append((time.monotonic(), len(chunk.samples)))
        self.samples += len(chunk.samples)
        self.progress.set()

    def metrics(self, *, capped: bool) -> Metrics:
        """Figures of everything that was spoken; ``capped``: up to the limit."""
        start_s = self.start_s or time.monotonic()
        turns = [(turn, turn.metrics) for turn in self.turns if turn.metrics.frames]
        frames = sum(figures.frames for _, figures in turns)
        work_ms = sum(
            figures.frames * ((figures.ar_ms_per_frame or 0.0) + (figures.codec_ms_per_frame or 0.0))
            for _, figures in turns
        )
        slower_s = sum(figures.audio_s * (figures.rtf or 0.0) for _, figures in turns)
        audio_s = self.samples / SAMPLE_RATE_HZ
        ttfa_ms = (self._chunks[0][0] - start_s) * 1e3 if self._chunks else None
        audible_ms = None
        if ttfa_ms is not None and self._audible is not None:
            audible_ms = ttfa_ms + self._audible / SAMPLE_RATE_HZ * 1e3
        return Metrics(
            stop_reason="length_cap" if capped or not turns else _reason([turn for turn, _ in turns]),
            frames=frames,
            audio_s=audio_s,
            wall_s=(self._chunks[-1][0] if self._chunks else time.monotonic()) - start_s,
            rtf=slower_s / audio_s if audio_s else None,
            ttfa_ms=ttfa_ms,
            audible_ms=audible_ms,
            ms_per_frame=work_ms / frames if frames else None,
            underruns=count_underruns(self._chunks),
        )
