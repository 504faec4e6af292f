"""How fast the assistant falls silent when the user speaks: stage by stage, in real time.

A turn plays at a sink that pulls 20 ms at a time; the microphone gives 20 ms at a time, quiet noise first and then a
voice (the model's own, another speaker where it has one). The voice's real onset is where it passes -40 dB.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

from rtts.bench.rig import LONG, PULL_S, Sink, middle, percentile
from rtts.errors import RequestError
from rtts.stream.playback import PlaybackBuffer
from rtts.stream.pump import Pump
from rtts.stream.tts import Tts
from rtts_engine.config import SAMPLE_RATE_HZ

F32 = npt.NDArray[np.float32]

MICROPHONE_HZ = 48000
_BLOCK = 960
_QUIET_S = 0.3
_AUDIBLE = 0.01
USER = "Wait a moment, please. I have a question about that."
STAGES = ("first_voice_ms", "duck_ms", "commit_ms", "interrupted_ms", "silent_ms")


async def measure(
    tts: Tts, user: F32, *, interruptions: int = 30, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """Stages in milliseconds from the onset of the voice, over many interruptions.

    Args:
        tts: the assistant.
        user: (n,) 24 kHz, somebody who says ``USER`` or the like.
        interruptions: how many.
        tell: is given lines for people.
    """
    loud = np.flatnonzero(np.abs(user) >= _AUDIBLE)
    if not len(loud):
        raise RequestError("the recording of the user is silent; give one with speech")
    user = soxr.resample(user[loud[0] :], SAMPLE_RATE_HZ, MICROPHONE_HZ)
    runs = [await _interrupt(tts, user, seed) for seed in range(interruptions)]
    missed = sum(run is None for run in runs)
    found = [run for run in runs if run is not None]
    row = {
        "interruptions": len(runs),
        "missed": missed,
        **{stage: middle(run[stage] for run in found) for stage in STAGES},
        "p95": {stage: percentile((run[stage] for run in found), 95) for stage in STAGES},
        "commit_to_silent_ms": middle(run["silent_ms"] - run["commit_ms"] for run in found),
        "commit_to_silent_p95_ms": percentile((run["silent_ms"] - run["commit_ms"] for run in found), 95),
    }
    tell(line(row))
    return {"row": row, "runs": found}


async def _interrupt(tts: Tts, user: F32, seed: int) -> dict[str, float] | None:
    from rtts.barge_in import BargeIn

    rng = np.random.default_rng(seed)
    speaks_s = 1.2 + rng.uniform(0.0, 1.0)
    async with tts.session(seed=seed) as session:
        buffer = PlaybackBuffer()
        pump = Pump(session, buffer)
        session.feed(LONG)
        session.end()
        with Sink(buffer) as sink:
            while not buffer.played_s:
                await asyncio.sleep(PULL_S)
            onset_s = time.monotonic() + speaks_s
            async with BargeIn(session) as barge_in:
                barge_in.listen(_microphone(user, onset_s, rng))
                try:
                    interruption = await asyncio.wait_for(
                        barge_in.wait(), speaks_s + len(user) / MICROPHONE_HZ + 1
                    )
                except asyncio.TimeoutError:
                    return None
            await asyncio.sleep(0.2)
        pump.stop()
    moments = (
        interruption.first_voice_s,
        interruption.duck_s,
        interruption.commit_s,
        interruption.done_s,
        sink.last_audible_s or onset_s,
    )
    return dict(zip(STAGES, ((moment - onset_s) * 1e3 for moment in moments), strict=True))


async def _microphone(user: F32, onset_s: float, rng: np.random.Generator) -> Any:
    """Blocks of 20 ms as they are recorded: each is given out when its last sample has sounded."""
    quiet = max(0, round((onset_s - time.monotonic()) * MICROPHONE_HZ))
    sound = np.concatenate([np.zeros(quiet, np.float32), user, np.zeros(MICROPHONE_HZ, np.float32)])
    sound += rng.normal(0.0, 0.0005, len(sound)).astype(np.float32)
    start_s = onset_s - quiet / MICROPHONE_HZ
    for at in range(0, len(sound) - _BLOCK, _BLOCK):
        await asyncio.sleep(max(0.0, start_s + (at + _BLOCK) / MICROPHONE_HZ - time.monotonic()))
        yield sound[at : at + _BLOCK], MICROPHONE_HZ


def line(row: dict[str, Any]) -> str:
    """The row for people."""
    if row["missed"] == row["interruptions"]:
        return f"none of {row['missed']} interruptions was noticed"
    return (
        f"{row['interruptions']} interruptions, {row['missed']} missed. After the onset of the voice: first frame "
        f"judged as voice {row['first_voice_ms']:.0f} ms, turned down {row['duck_ms']:.0f}, "
        f"committed {row['commit_ms']:.0f}, session interrupted {row['interrupted_ms']:.0f}, "
        f"last audible sample {row['silent_ms']:.0f} ms ({row['commit_to_silent_ms']:.0f} ms after the commit)"
    )
