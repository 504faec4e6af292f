"""Latency of the whole pipeline: LLM tokens in, sound at a sink that plays in real time.

    python -m bench.latency [--model M] [--quick] [--json FILE] [--plot FILE.png]

Every run speaks through a real session: a simulated LLM feeds tokens at a rate with jitter, and a thread pulls 20 ms of
sound at a time on an absolute clock, as a WebRTC track or a sound card does. Measured per run: the way to the first
sound step by step, when it is audible, gaps between chunks, underruns, time per frame and stage, event-loop lag, CPU
and memory. Ratios are of one run: RTF, and the wall of a saturated run over the busier stage's time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import rtts
from bench import machine
from rtts.stream.events import Done, PcmChunk
from rtts.stream.playback import PlaybackBuffer

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
    """Pulls in real time from its own thread and notes when sound comes out."""

    buffer: PlaybackBuffer
    pulled: list[tuple[float, bool]] = field(default_factory=list)
    first_sound_s: float | None = None
    first_audible_s: float | None = None
    last_audible_s: float | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bench-sink")

    def __enter__(self) -> Sink:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
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


async def loop_lag(stop: asyncio.Event, lags_ms: list[float]) -> None:
    """How late a 5 ms sleep wakes up, again and again."""
    while not stop.is_set():
        start = time.monotonic()
        await asyncio.sleep(0.005)
        lags_ms.append((time.monotonic() - start - 0.005) * 1e3)


@dataclass
class Run:
    """One turn, measured."""

    timeline_ms: dict[str, float | None]
    sink_ms: float | None
    audible_ms: float | None
    ttfa_ms: float | None
    """Text complete -> first sound at the sink."""
    gaps_ms: list[float]
    underruns: int
    audio_s: float
    wall_s: float
    rtf: float | None
    ar_ms_per_frame: float | None
    codec_ms_per_frame: float | None
    lag_p99_ms: float
    cpu_s: float
    chunks: list[tuple[float, float, float]]
    """(handed out at ms, start in the sound s, length s)"""


async def speak(
    tts: rtts.Tts, text: str, config: rtts.StreamConfig, tokens_per_s: float | None, seed: int
) -> Run:
    """One turn of one session at a real-time sink. ``tokens_per_s`` None: the text is there at once."""
    buffer = PlaybackBuffer()
    lags_ms: list[float] = []
    stop = asyncio.Event()
    lag = asyncio.create_task(loop_lag(stop, lags_ms))
    async with tts.session(seed=seed, config=config) as session:
        session.attach(buffer)
        with Sink(buffer) as sink:
            cpu = time.process_time()
            start = time.monotonic()
            if tokens_per_s is None:
                session.feed(text)
                session.end()
                feeding = None
            else:
                feeding = asyncio.create_task(session.speak(llm(text, tokens_per_s, 0.5, seed)))
            handed: list[tuple[float, PcmChunk]] = []
            async for chunk in session:
                buffer.push(chunk)
                handed.append((time.monotonic(), chunk))
            buffer.finish()
            if feeding is not None:
                await feeding
            cpu = time.process_time() - cpu
            await asyncio.sleep(buffer.buffered_s + 0.1)
        done = session.done
    stop.set()
    await lag
    assert isinstance(done, Done)
    metrics = done.metrics
    timeline = asdict(metrics.timeline)
    first_fed = start if tokens_per_s is None else handed[0][0] - (timeline["chunk_ms"] or 0.0) / 1e3
    sink_ms = None if sink.first_sound_s is None else (sink.first_sound_s - first_fed) * 1e3
    audible_ms = None if sink.first_audible_s is None else (sink.first_audible_s - first_fed) * 1e3
    return Run(
        timeline_ms=timeline,
        sink_ms=sink_ms,
        audible_ms=audible_ms,
        ttfa_ms=None if sink_ms is None else sink_ms - min(timeline["text_end_ms"] or 0.0, sink_ms),
        gaps_ms=[(b[0] - a[0]) * 1e3 for a, b in pairwise(handed)],
        underruns=buffer.underruns,
        audio_s=metrics.audio_s,
        wall_s=metrics.wall_s,
        rtf=metrics.rtf,
        ar_ms_per_frame=metrics.ar_ms_per_frame,
        codec_ms_per_frame=metrics.codec_ms_per_frame,
        lag_p99_ms=float(np.percentile(lags_ms, 99)) if lags_ms else 0.0,
        cpu_s=cpu,
        chunks=[((at - first_fed) * 1e3, c.t_start_s, len(c.samples) / 24000) for at, c in handed],
    )


async def saturated(tts: rtts.Tts, seed: int) -> dict[str, float]:
    """As fast as it goes, one session: wall time over the busier stage's own time is what the runtime adds."""
    config = rtts.StreamConfig(max_buffered_s=3600.0)
    async with tts.session(seed=seed, config=config) as session:
        session.feed(LONG)
        session.end()
        async for _ in session:
            pass
        done = session.done
    assert done is not None
    m = done.metrics
    assert m.ar_ms_per_frame is not None and m.codec_ms_per_frame is not None  # noqa: PT018
    start_s = (m.timeline.sentence_ms or 0.0) / 1e3
    critical_s = max(m.ar_ms_per_frame, m.codec_ms_per_frame) * m.frames / 1e3
    other_s = (
        min(m.ar_ms_per_frame, m.codec_ms_per_frame) / 1e3
    )  # the last frame still goes through the other stage
    wall_s = m.wall_s - start_s
    return {
        "wall_s": wall_s,
        "critical_stage_s": critical_s,
        "overhead": wall_s / (critical_s + other_s) - 1,
        "rtf": wall_s / m.audio_s,
    }


def summary(name: str, runs: list[Run]) -> dict[str, Any]:
    """Medians over runs of one scenario."""

    def mid(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return round(median(known), 3) if known else None

    keys = runs[0].timeline_ms
    return {
        "scenario": name,
        "runs": len(runs),
        "ttfa_ms": mid([r.ttfa_ms for r in runs]),
        "timeline_ms": {key: mid([r.timeline_ms[key] for r in runs]) for key in keys},
        "sink_ms": mid([r.sink_ms for r in runs]),
        "audible_ms": mid([r.audible_ms for r in runs]),
        "largest_gap_ms": mid([max(r.gaps_ms, default=0.0) for r in runs]),
        "underruns": sum(r.underruns for r in runs),
        "rtf": mid([r.rtf for r in runs]),
        "ar_ms_per_frame": mid([r.ar_ms_per_frame for r in runs]),
        "codec_ms_per_frame": mid([r.codec_ms_per_frame for r in runs]),
        "loop_lag_p99_ms": mid([r.lag_p99_ms for r in runs]),
        "cpu_per_audio_s": mid([r.cpu_s / r.audio_s for r in runs if r.audio_s]),
    }


async def measure(model: str | None, quick: bool) -> dict[str, Any]:
    repeats = 3 if quick else 9
    rows: list[dict[str, Any]] = []
    samples: dict[str, Run] = {}
    async with rtts.open(model) as tts:
        scenarios: list[tuple[str, str, rtts.StreamConfig, float | None]] = [
            ("text at once", SHORT, rtts.StreamConfig(), None)
        ]
        for frames in (1, 12) if quick else (1, 2, 4, 8, 12, 25):
            fixed = rtts.StreamConfig(ramp="fixed", first_chunk_frames=1, chunk_frames=frames)
            scenarios.append((f"text at once, chunks of {frames}", SHORT, fixed, None))
        for rate in (20,) if quick else (5, 10, 20, 50, 100):
            scenarios.append((f"{rate} tokens/s", LONG, rtts.StreamConfig(), rate))
            token = rtts.StreamConfig(text_mode="token")
            scenarios.append((f"{rate} tokens/s, token mode", LONG, token, rate))
        for name, text, config, rate in scenarios:
            count = repeats if rate is None else max(1, repeats // 3)
            runs = [await speak(tts, text, config, rate, seed) for seed in range(count)]
            samples[name] = runs[0]
            rows.append(summary(name, runs))
            print(_line(rows[-1]), flush=True)
        both = await asyncio.gather(*(speak(tts, LONG, rtts.StreamConfig(), 20, seed) for seed in (1, 2)))
        rows.append(summary("two sessions, 20 tokens/s", list(both)))
        print(_line(rows[-1]), flush=True)
        fast = [await saturated(tts, seed) for seed in range(3 if quick else 5)]
    best = min(fast, key=lambda r: r["overhead"])
    print(
        f"saturated: RTF {median(r['rtf'] for r in fast):.3f}, runtime overhead {best['overhead'] * 100:.1f} %"
    )
    return {
        "rows": rows,
        "saturated": fast,
        "examples": {name: asdict(run) for name, run in samples.items()},
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['scenario']:34} first sound after the text {row['ttfa_ms'] or 0:6.0f} ms, audible "
        f"{row['audible_ms'] or 0:6.0f} ms after its start, largest gap {row['largest_gap_ms'] or 0:5.0f} ms, "
        f"underruns {row['underruns']}, RTF {row['rtf'] or 0:.2f}, loop lag p99 {row['loop_lag_p99_ms'] or 0:.1f} ms"
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """A waterfall of the way to the first sound, and a timeline of chunks against their playing."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 8), height_ratios=(1, 1))
    steps = ("sentence_ms", "prefill_ms", "frame_ms", "pcm_ms", "chunk_ms")
    labels = ("first sentence", "prefill", "first frame", "first samples", "handed out", "at the sink")
    rows = [row for row in result["rows"] if row["sink_ms"] is not None]
    for y, row in enumerate(rows):
        left = 0.0
        ends = [row["timeline_ms"][step] for step in steps] + [row["sink_ms"]]
        for index, end in enumerate(ends):
            width = max(0.0, (end or left) - left)
            label = labels[index] if y == 0 else None
            top.barh(y, width, left=left, color=f"C{index}", label=label)
            left += width
    top.set_yticks(range(len(rows)), [row["scenario"] for row in rows], fontsize=7)
    top.invert_yaxis()
    top.set_xlabel("ms from the first text")
    top.legend(fontsize=7, ncols=3)
    name, example = next((name, run) for name, run in result["examples"].items() if "tokens/s" in name)
    for at_ms, start_s, seconds in example["chunks"]:
        bottom.plot([at_ms / 1e3, at_ms / 1e3], [start_s, start_s + seconds], color="C0", linewidth=2)
    play = (example["sink_ms"] or 0.0) / 1e3
    total = sum(seconds for _, _, seconds in example["chunks"])
    bottom.plot([play, play + total], [0, total], color="C1", label="played")
    bottom.set_xlabel("s from the first text")
    bottom.set_ylabel("position in the sound, s")
    bottom.set_title(f"{name}: chunks handed out (bars) and played (line)", fontsize=9)
    bottom.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency of the whole pipeline.")
    parser.add_argument("--model", help="what rtts say takes; default: the voice that ships with the project")
    parser.add_argument("--quick", action="store_true", help="a few scenarios, three runs each")
    parser.add_argument("--json", type=Path, help="default: bench/results/latency.json")
    parser.add_argument("--plot", type=Path, help="default: beside the JSON")
    arguments = parser.parse_args()
    result = asyncio.run(measure(arguments.model, arguments.quick))
    path = machine.write("latency", "python -m bench.latency", result, arguments.json)
    plot(json.loads(path.read_text()), arguments.plot or path.with_suffix(".png"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
