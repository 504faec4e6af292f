"""What to speak: one utterance's text, manner, sampling and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rtts_engine.errors import RequestError, TextError
from rtts_engine.frame_cap import FRAMES_PER_TEXT_ID
from rtts_engine.manner import Manner, TextLayout
from rtts_engine.sampling import Sampling

MAX_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How an utterance is generated, whatever its text."""

    text_layout: TextLayout | None = None
    """None is the official default: streaming for a Base model, full otherwise."""
    sampling: Sampling | None = None
    """None takes the model's own generation defaults."""
    seed: int | None = None
    """None draws one; the stream tells which. Same seed, text and manner: same codes, however they are chunked."""
    max_frames: int | None = None
    """Frames after which generation stops with ``length_cap``; None derives a cap from the text's length."""

    frames_per_text_id: int = FRAMES_PER_TEXT_ID
    """Slope of the derived cap, see ``frame_cap``."""

    def __post_init__(self) -> None:
        for name in ("frames_per_text_id", "seed", "max_frames"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (int, np.integer)):
                raise RequestError(f"{name} is {value!r:.60}, expected a whole number")
        if self.text_layout not in (None, "streaming", "full"):
            raise RequestError(
                f"text_layout is {self.text_layout!r:.60}, expected 'streaming', 'full' or None"
            )
        if self.sampling is not None and not isinstance(self.sampling, Sampling):
            raise RequestError(f"sampling is {self.sampling!r:.60}, expected Sampling or None")
        if self.frames_per_text_id < 1:
            raise RequestError(f"frames_per_text_id is {self.frames_per_text_id}, expected at least 1")
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise RequestError(f"seed is {self.seed}, expected 0 to {MAX_SEED}")
        if self.max_frames is not None and self.max_frames < 1:
            raise RequestError(f"max_frames is {self.max_frames}, expected at least 1")


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One utterance with its complete text."""

    text: str
    manner: Manner = field(default_factory=Manner)
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TextError(f"text is {type(self.text).__name__}, expected str; decode bytes first")
