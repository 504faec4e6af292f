"""Checks of a reference clip before an encoder sees it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rtts_engine.config import SAMPLE_RATE_HZ
from rtts_engine.errors import AudioError

F32 = npt.NDArray[np.float32]

MAX_CLIP_SECONDS = 300
"""Longest clip: the encoders' time and memory grow with it, and a voice is known after seconds."""


def checked_clip(samples: npt.ArrayLike, minimum_samples: int) -> F32:
    """``samples`` as float32 (n,), mono 24 kHz.

    Raises:
        AudioError: not one axis of numbers, empty, shorter than ``minimum_samples``, longer than
            ``MAX_CLIP_SECONDS``, or with NaN or infinity in it.
    """
    clip = np.asarray(samples)
    if clip.ndim != 1 or not np.issubdtype(clip.dtype, np.floating):
        raise AudioError(
            f"a clip is {clip.dtype} of shape {list(clip.shape)}, expected mono float samples (n,) at 24 kHz"
        )
    seconds = len(clip) / SAMPLE_RATE_HZ
    if len(clip) < minimum_samples:
        raise AudioError(
            f"a clip of {len(clip)} samples ({seconds:.3f} s) is too short, at least {minimum_samples} "
            f"({minimum_samples / SAMPLE_RATE_HZ:.3f} s) are needed; record 3 to 20 s of speech"
        )
    if seconds > MAX_CLIP_SECONDS:
        raise AudioError(
            f"a clip of {seconds:.0f} s is too long, at most {MAX_CLIP_SECONDS} s; cut out 3 to 20 s"
        )
    with np.errstate(over="ignore"):  # what is too large for float32 is reported as infinity
        clip = clip.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(clip))
    if len(bad):
        raise AudioError(
            f"a clip holds {clip[bad[0]]} at {bad[0] / SAMPLE_RATE_HZ:.3f} s; repair or record it again"
        )
    return clip
