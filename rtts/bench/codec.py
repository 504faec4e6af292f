"""The codec decoder alone: milliseconds per frame for frames that come one at a time or several together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rtts.bench.rig import middle
from rtts_engine.model import Model
from rtts_engine.request import SpeechRequest

FRAME_MS = 80.0
_SIZES = (1, 2, 4, 8, 12, 25)


def measure(model: Model, *, quick: bool = False, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """Rows of figures, one for each number of frames that go in at once. The sizes take turns within every round."""
    codes = _codes(model, max(_SIZES))
    times: dict[int, list[float]] = {size: [] for size in _SIZES}
    for _ in range(2 if quick else 8):
        for size in _SIZES:
            state = model.codec_state(None).copy()
            start_s = time.perf_counter()
            for at in range(0, len(codes), size):
                model.codec.decode(state, codes[at : at + size])
            times[size].append((time.perf_counter() - start_s) * 1e3 / len(codes))
    one = middle(times[1])
    rows = [
        {
            "frames_at_once": size,
            "ms_per_frame": middle(times[size]),
            "rtf": middle((each / FRAME_MS for each in times[size]), 4),
            "times_one_frame": round((middle(times[size]) or 0.0) / one, 3) if one else None,
        }
        for size in _SIZES
    ]
    for row in rows:
        tell(line(row))
    return {"rows": rows, "threads": model.threads.codec, "precision": model.manifest.precision}


def _codes(model: Model, frames: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """(n, 16) codes of real speech, or drawn ones of a model that needs a voice to speak."""
    if model.manifest.speakers:
        spoken = np.array(
            list(model.frames(SpeechRequest("This is what the codec sounds like, more or less.")))
        )
        return np.tile(spoken, (-(-frames // len(spoken)), 1))[: 2 * frames].astype(np.int32)
    size = model.manifest.config.codec.decoder.codebook_size
    return np.random.default_rng(1).integers(0, size, (2 * frames, 16)).astype(np.int32)


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    return (
        f"{row['frames_at_once']:2} frame(s) at once: {row['ms_per_frame']:6.2f} ms a frame, RTF {row['rtf']:.3f}, "
        f"{row['times_one_frame']:.2f} x the time of single frames"
    )
