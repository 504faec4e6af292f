"""The way to the first sound, step by step, and whether sound goes on without a hole.

Every run speaks through a real session: a simulated LLM feeds tokens at a rate with jitter, and a thread pulls 20 ms of
sound at a time on an absolute clock, as a WebRTC track or a sound card does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from rtts.bench.machine import peak_memory_mb
from rtts.bench.rig import LONG, SHORT, Run, middle, percentile, turn
from rtts.stream.config import StreamConfig
from rtts.stream.tts import Tts


class Scenario(NamedTuple):
    """What is spoken, and how its text arrives."""

    name: str
    text: str
    config: StreamConfig
    tokens_per_s: float | None
    runs: int


def scenarios(quick: bool) -> list[Scenario]:
    """Chunk sizes from 1 to 25 frames, LLM rates from 5 to 100 tokens/s, both text modes."""
    few = 3 if quick else 9
    found = [Scenario("text at once", SHORT, StreamConfig(), None, 5 if quick else 21)]
    for frames in (1, 12) if quick else (1, 2, 4, 8, 12, 25):
        fixed = StreamConfig(ramp="fixed", first_chunk_frames=frames, chunk_frames=frames)
        found.append(Scenario(f"text at once, chunks of {frames}", SHORT, fixed, None, few))
    for rate in (20,) if quick else (5, 10, 20, 50, 100):
        found.append(Scenario(f"{rate} tokens/s", LONG, StreamConfig(), rate, 1 if quick else 3))
        token = StreamConfig(text_mode="token")
        found.append(Scenario(f"{rate} tokens/s, token mode", LONG, token, rate, 1 if quick else 3))
    return found


async def measure(tts: Tts, *, quick: bool = False, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Rows of figures, one a scenario, and a whole run of those at 20 tokens/s."""
    rows: list[dict[str, Any]] = []
    examples: dict[str, dict[str, Any]] = {}
    for scenario in scenarios(quick):
        runs = [
            await turn(tts, scenario.text, scenario.config, scenario.tokens_per_s, seed)
            for seed in range(scenario.runs)
        ]
        rows.append(row(scenario.name, runs))
        if scenario.tokens_per_s == 20:
            examples[scenario.name] = asdict(runs[0]) | {"late_ms": None}
        tell(line(rows[-1]))
    pairs = [
        await asyncio.gather(*(turn(tts, LONG, StreamConfig(), 20, seed + other) for other in (0, 100)))
        for seed in range(1 if quick else 3)
    ]
    rows.append(row("two sessions, 20 tokens/s", [run for pair in pairs for run in pair]))
    tell(line(rows[-1]))
    return {"rows": rows, "peak_memory_mb": peak_memory_mb(), "examples": examples}


def row(name: str, runs: list[Run]) -> dict[str, Any]:
    """Medians over runs of one scenario; underruns are summed, lateness of the loop is pooled."""
    return {
        "scenario": name,
        "runs": len(runs),
        "ttfa_ms": middle(run.ttfa_ms for run in runs),
        "ttfa_p95_ms": percentile((run.ttfa_ms for run in runs), 95),
        "timeline_ms": {step: middle(run.timeline_ms[step] for run in runs) for step in runs[0].timeline_ms},
        "sink_ms": middle(run.sink_ms for run in runs),
        "audible_ms": middle(run.audible_ms for run in runs),
        "largest_gap_ms": middle(max(run.gaps_ms, default=0.0) for run in runs),
        "underruns": sum(run.underruns for run in runs),
        "rtf": middle(run.rtf for run in runs),
        "ar_ms_per_frame": middle(run.ar_ms_per_frame for run in runs),
        "codec_ms_per_frame": middle(run.codec_ms_per_frame for run in runs),
        "loop_lag_p99_ms": percentile((late for run in runs for late in run.late_ms), 99),
        "cpu_per_audio_s": middle(run.cpu_s / run.audio_s for run in runs if run.audio_s),
    }


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    return (
        f"{row['scenario']:30} text complete -> sink {row['ttfa_ms'] or 0:6.0f} ms, audible "
        f"{row['audible_ms'] or 0:6.0f} ms after its start, largest gap {row['largest_gap_ms'] or 0:5.0f} ms, "
        f"underruns {row['underruns']}, RTF {row['rtf'] or 0:.2f}, loop lag p99 {row['loop_lag_p99_ms'] or 0:.1f} ms"
    )
