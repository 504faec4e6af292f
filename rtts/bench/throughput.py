"""How fast speech is made when nobody plays it: real-time factor, what the runtime adds, several sessions at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rtts.bench.machine import peak_memory_mb
from rtts.bench.rig import LONG, LoopLag, middle, percentile
from rtts.stream.config import StreamConfig
from rtts.stream.events import Metrics
from rtts.stream.tts import Tts

_SESSIONS = (1, 2, 4)


async def measure(
    tts: Tts, *, text: str = LONG, quick: bool = False, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Rows of figures, one for each number of sessions that speak ``text`` at the same time."""
    rows = []
    for sessions in _SESSIONS[:2] if quick else _SESSIONS:
        rounds = [await _saturated(tts, text, sessions, seed) for seed in range(2 if quick else 5)]
        rows.append(
            {
                "sessions": sessions,
                "rounds": len(rounds),
                "rtf": middle((each["rtf"] for each in rounds), 4),
                "frames_per_s": middle((each["frames_per_s"] for each in rounds), 2),
                "overhead": middle((each["overhead"] for each in rounds), 4),
                "loop_lag_p99_ms": percentile((late for each in rounds for late in each["late_ms"]), 99),
                "walls": [
                    {name: each[name] for name in ("wall_s", "critical_s", "audio_s")} for each in rounds
                ],
            }
        )
        tell(line(rows[-1]))
    return {"rows": rows, "peak_memory_mb": peak_memory_mb()}


async def _saturated(tts: Tts, text: str, sessions: int, seed: int) -> dict[str, Any]:
    start_s = time.monotonic()
    async with LoopLag() as lag:
        turns = await asyncio.gather(*(_speak(tts, text, seed * 16 + index) for index in range(sessions)))
    wall_s = time.monotonic() - start_s
    audio_s, frames = sum(each.audio_s for each in turns), sum(each.frames for each in turns)
    ar_s = sum((each.ar_ms_per_frame or 0.0) * each.frames for each in turns) / 1e3
    codec_s = sum((each.codec_ms_per_frame or 0.0) * each.frames for each in turns) / 1e3
    # The slower stage works all the time; before its first frame or behind its last one the other has to do one.
    other_s = min(ar_s, codec_s) / frames
    critical_s = max(ar_s, codec_s) + other_s
    return {
        "wall_s": wall_s,
        "critical_s": critical_s,
        "audio_s": audio_s,
        "overhead": wall_s / critical_s - 1,
        "rtf": wall_s / audio_s,
        "frames_per_s": frames / wall_s,
        "late_ms": lag.late_ms,
    }


async def _speak(tts: Tts, text: str, seed: int) -> Metrics:
    # A model with random weights never ends by itself: 4 frames a token are enough for speech, and end it.
    config = StreamConfig(max_buffered_s=3600.0, max_frames_per_token=4)
    async with tts.session(seed=seed, config=config) as session:
        session.feed(text)
        session.end()
        async for _ in session:
            pass
        assert session.done is not None
        return session.done.metrics


def line(row: dict[str, Any]) -> str:
    """One row for people. The overhead is wall time over the engine's steps on the critical path."""
    return (
        f"{row['sessions']} session(s): RTF {row['rtf']:.3f} for all, {row['frames_per_s']:.1f} frames/s, runtime "
        f"overhead {row['overhead'] * 100:.1f} %, loop lag p99 {row['loop_lag_p99_ms'] or 0:.1f} ms"
    )
