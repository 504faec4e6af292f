"""A minute of speech at a sink that plays in real time: does this machine keep up, and how much silence is heard?

The text is there at once. On a machine that is slower than real time for one sentence at a time, the talker takes
several in a pass (``rtts.stream.company``); so the same text is spoken one sentence at a time as well. Every sentence
is ended at the length of ordinary speech, so that a model with random weights, which never ends by itself, is measured
alike.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from rtts.bench.machine import peak_memory_mb
from rtts.bench.rig import Run, middle, percentile, turn
from rtts.stream.config import StreamConfig
from rtts.stream.engine import FRAMES_PER_TEXT_ID, ModelEngine, Utterance
from rtts.stream.tts import Tts
from rtts_engine.manner import Manner
from rtts_engine.model import Model
from rtts_engine.request import Settings

TEXT = (
    "Thank you for calling. I looked at your order, and it left our warehouse this morning. It should be with you on "
    "Thursday, before noon. If nobody is at home, the driver will leave the parcel with a neighbour and put a card in "
    "your letter box. You asked about the second pair of shoes as well. They are out of stock at the moment, but a new "
    "delivery is on its way to us. I can keep a pair for you, and send it as soon as it arrives. There would be no "
    "charge for the second parcel. You also wanted to know how to send something back. Please use the label that is in "
    "the box, and hand the parcel in at any post office. The money is with you three days later. Is there anything "
    "else that I can do for you today?"
)
"""About a minute."""
_BUSY = (
    "import time\nwhile 1:\n t=time.perf_counter()+.01\n while time.perf_counter()<t: pass\n time.sleep(.01)"
)


class OrdinaryLength(ModelEngine):
    """Ends every whole sentence at the length of ordinary speech at the latest."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._tokenizer = model.tokenizer

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        if text is not None:
            frames = max(1, FRAMES_PER_TEXT_ID * len(self._tokenizer.encode(text)))
            settings = replace(settings, max_frames=frames)
        return super().utterance(text, manner, settings)


class Scenario(NamedTuple):
    """How the text is spoken."""

    name: str
    prefetch: int | None
    """None: as many sentences ahead as the machine needs."""
    busy: bool = False
    """Beside a process that wants half a core."""


SCENARIOS = (
    Scenario("one sentence at a time", 0),
    Scenario("as the machine needs", None),
    Scenario("as the machine needs, half a core taken", None, busy=True),
)


async def measure(
    tts: Tts, *, text: str = TEXT, quick: bool = False, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Rows of figures, one a scenario, and one run of each."""
    rows, examples = [], {}
    for scenario in SCENARIOS[1:2] if quick else SCENARIOS:
        # The sound is made as fast as it can be, and nothing ends a monotonous model.
        config = StreamConfig(max_buffered_s=3600.0, silence_timeout_s=60.0, repeat_timeout_s=60.0)
        if scenario.prefetch is not None:
            config = replace(config, prefetch_sentences=scenario.prefetch)
        with _busy() if scenario.busy else contextlib.nullcontext():
            run = await turn(tts, text, config, None, 0)
        rows.append(row(scenario.name, [run]))
        examples[scenario.name] = asdict(run) | {"late_ms": None}
        tell(line(rows[-1]))
    return {"rows": rows, "peak_memory_mb": peak_memory_mb(), "examples": examples}


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", _BUSY]) as process:
        try:
            yield
        finally:
            process.kill()


def row(name: str, runs: list[Run]) -> dict[str, Any]:
    """Medians over runs of one scenario, and the slowest."""
    rtf = [run.wall_s / run.audio_s for run in runs]
    return {
        "scenario": name,
        "runs": len(runs),
        "audio_s": middle(run.audio_s for run in runs),
        "rtf": middle(rtf),
        "rtf_worst": round(max(rtf), 3),
        "first_samples_ms": middle(_after_text(run, run.timeline_ms["pcm_ms"]) for run in runs),
        "preroll_s": middle(run.preroll_s for run in runs),
        "first_sound_ms": middle(run.ttfa_ms for run in runs),
        "holes": middle(run.underruns for run in runs),
        "holes_s": middle(run.holes_s for run in runs),
        "ar_ms_per_frame": middle(run.ar_ms_per_frame for run in runs),
        "codec_ms_per_frame": middle(run.codec_ms_per_frame for run in runs),
        "loop_lag_p99_ms": percentile((late for run in runs for late in run.late_ms), 99),
    }


def _after_text(run: Run, moment_ms: float | None) -> float | None:
    """Since the first sentence was there."""
    start_ms = run.timeline_ms["sentence_ms"]
    return None if moment_ms is None or start_ms is None else moment_ms - start_ms


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    return (
        f"{row['scenario']:40} {row['audio_s'] or 0:3.0f} s: RTF {row['rtf'] or 0:.2f} (worst {row['rtf_worst']:.2f}), "
        f"first samples {row['first_samples_ms'] or 0:.0f} ms after the first sentence, played after "
        f"{(row['first_sound_ms'] or 0) / 1e3:.1f} s, then {row['holes'] or 0:.0f} holes of {row['holes_s'] or 0:.1f} s"
    )
