"""The values that a session hands out: chunks of sound, what was heard, and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

I16 = npt.NDArray[np.int16]

StopReason = Literal["eos", "length_cap", "cancelled", "silence", "stalled", "slow_consumer", "error"]
"""Why an utterance or a turn ended."""


@dataclass(frozen=True, slots=True, eq=False)
class PcmChunk:
    """Sound that is ready to play."""

    samples: I16
    """(n,) mono, 24 kHz."""
    text_span: tuple[int, int]
    """[start, end) in the text fed to the session: what this chunk speaks, estimated within a sentence."""
    t_start_s: float
    """Where the chunk starts in the session's sound, in seconds."""
    generation: int
    """Raised by every interruption: sound of an older generation must not be played."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener has heard of a turn's text."""

    text: str
    """The part of the fed text that was played, as it was fed."""
    seconds: float
    """Sound of the turn that the sink really consumed."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """How a turn's first sound came about, in milliseconds from its first fed text. None: it never happened."""

    text_end_ms: float | None
    """The text was complete."""
    sentence_ms: float | None
    """The first sentence was cut and handed to the talker."""
    prefill_ms: float | None
    """Its prompt had gone through the talker."""
    frame_ms: float | None
    """Its first frame of codes existed."""
    pcm_ms: float | None
    """Its first samples existed."""
    chunk_ms: float | None
    """The first chunk was handed out: time to first audio."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a turn measured."""

    timeline: Timeline
    audio_s: float
    wall_s: float
    """From the first fed text to the end of the turn."""
    rtf: float | None
    """Time of the slower stage / audio time; waits for text and consumer are not counted."""
    ar_ms_per_frame: float | None
    codec_ms_per_frame: float | None
    frames: int
    underruns: int
    preroll_s: float
    """Sound held back before the first chunk, because this machine is slower than real time; 0 if it is not."""


@dataclass(frozen=True, slots=True)
class Started:
    """The first text of a turn arrived."""

    generation: int


@dataclass(frozen=True, slots=True)
class SentenceStarted:
    """A sentence was handed to the talker."""

    index: int
    text: str
    """As it is spoken (cleaned)."""
    text_span: tuple[int, int]
    """Its place in the fed text."""
    seed: int


@dataclass(frozen=True, slots=True)
class ChunkReady:
    """A chunk can be taken."""

    t_start_s: float
    seconds: float
    text_span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Underrun:
    """The sink ran out of sound in the middle of speech."""

    at_s: float
    """Position in the session's sound."""
    missing_s: float


@dataclass(frozen=True, slots=True)
class Done:
    """A turn's speech ended; nothing of it follows."""

    stop_reason: StopReason
    metrics: Metrics


Event: TypeAlias = Started | SentenceStarted | ChunkReady | Underrun | Done
