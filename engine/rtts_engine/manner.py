"""Who speaks and how: what a request says about a voice, a language and a manner of speaking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from rtts_engine.errors import RequestError

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
TextLayout = Literal["streaming", "full"]
"""Text beside the frames, one id each, or all of it before the first frame."""


@dataclass(frozen=True, slots=True, eq=False)
class CloneVoice:
    """A cloned voice: x-vector alone, or with the codes and the transcript of the reference clip (ICL)."""

    x_vector: F32
    """(D,)"""
    ref_codes: I32 | None = None
    """(R, groups), R >= 1"""
    ref_text: str | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """Who speaks, in which language and how."""

    language: str | None = None
    """Name or ISO 639-1 code ("en", "en-GB") in any case; None is "auto"."""
    speaker: str | None = None
    """A speaker of a ``custom_voice`` model; None or "" leaves the choice to the model."""
    voice: CloneVoice | None = None
    """The voice of a ``base`` model, which needs one."""
    instruct: str | None = None
    """How to speak, in words; for ``custom_voice`` and ``voice_design`` models."""

    def __post_init__(self) -> None:
        for name in ("language", "speaker", "instruct"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise RequestError(f"{name} is {value!r:.60}, expected str or None")
        if self.voice is not None and not isinstance(self.voice, CloneVoice):
            raise RequestError(f"voice is {type(self.voice).__name__}, expected CloneVoice or None")
