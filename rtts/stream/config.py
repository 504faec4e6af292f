"""``StreamConfig``: everything about a stream that a user may tune, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rtts.checks import check_choices, check_flags, check_numbers, check_whole, from_mapping, known_names
from rtts.errors import RequestError
from rtts_engine.config import full_name

Ramp = Literal["adaptive", "fixed"]
TextMode = Literal["sentence", "token"]
Verbalise = Literal["auto"] | bool
Prefetch = int | Literal["auto"]

_WHOLE = {
    "first_chunk_frames": (1, 300),
    "chunk_frames": (1, 300),
    "ring_frames": (1, 4096),
    "prefetch_sentences": (0, 16),
    "max_frames_per_token": (4, 1000),
    "max_utterance_chars": (40, 10000),
}
_OR_AUTO = ("prefetch_sentences",)
_SECONDS = {
    "max_buffered_s": (0.2, 3600.0),
    "max_preroll_s": (0.0, 3600.0),
    "sentence_gap_s": (0.0, 5.0),
    "silence_timeout_s": (0.5, 60.0),
    "repeat_timeout_s": (0.5, 60.0),
    "text_timeout_s": (0.1, 3600.0),
    "consumer_timeout_s": (0.1, 86400.0),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "ramp": ("adaptive", "fixed"),
    "text_mode": ("sentence", "token"),
    "verbalise": ("auto", True, False),
}


def _check_verbalise(value: object) -> None:
    if not isinstance(value, bool) and not (isinstance(value, str) and value == "auto"):
        raise RequestError(f'verbalise is {value!r}, expected "auto", True or False')


def reads_words(normalization: str | None, verbalise: Verbalise, language: str | None) -> bool:
    """Whether text is to be written out in English words.

    Args:
        normalization: what the model needs (``SpeechEngine.text_normalization``).
        verbalise: what the user asks for.
        language: what the text is spoken in.

    Raises:
        RequestError: English words were asked for in another language, or ``verbalise`` is something else.
    """
    _check_verbalise(verbalise)
    english = full_name(language or "auto") in ("auto", "english")
    if verbalise == "auto":
        return normalization == "english" and english
    if verbalise and not english:
        raise RequestError(
            f"verbalise writes English words, and language is {language!r}; leave one of them out"
        )
    return verbalise


@known_names("stream config")
@dataclass(frozen=True, slots=True)
class StreamConfig:
    """How a session turns text into chunks of sound. A frame is 80 ms."""

    first_chunk_frames: int = 1
    """Frames in the first chunk of an utterance: fewer is earlier, one is the least."""
    chunk_frames: int = 12
    """Frames in a later chunk; with the adaptive ramp the most that a chunk may have."""
    ramp: Ramp = "adaptive"
    """``adaptive`` sizes chunks by what the listener holds and the measured speed; ``fixed`` takes the two sizes."""
    ring_frames: int = 256
    """Frames that the talker may be ahead of the codec before it waits."""
    max_buffered_s: float = 30.0
    """Sound that may wait to be taken before the codec waits (back-pressure)."""
    max_preroll_s: float = 5.0
    """Longest time that a machine slower than real time holds an utterance back so that no hole follows. Where that
    is not enough, it is held back as long once more whenever it has run dry."""
    text_mode: TextMode = "sentence"
    """``sentence`` speaks whole sentences; ``token`` feeds text into the running talker as it arrives."""
    prefetch_sentences: Prefetch = "auto"
    """Sentences that may be generated ahead of the one that is handed out; ``auto``: one, and as many as the talker
    takes in one pass on a machine that is slower than real time."""
    clean_text: bool = True
    """Take markdown, links, code and emoji out of the text."""
    verbalise: Verbalise = "auto"
    """Write numbers, signs and abbreviations out in English words; ``auto``: for models that only read words."""
    max_utterance_chars: int = 200
    """Longest text of one utterance; a CJK character counts as two. A longer sentence is cut at a clause. In ``token``
    mode an utterance goes on over sentences: one of half this length ends with its sentence, one of this length with
    its word."""
    sentence_gap_s: float = 0.12
    """Silence between two sentences, beyond what the voice itself leaves."""
    max_frames_per_token: int = 16
    """Frames an utterance may take for each of its text ids before it is cut (``length_cap``)."""
    silence_timeout_s: float = 4.0
    """Generated silence after which an utterance is ended (``silence``)."""
    repeat_timeout_s: float = 6.0
    """Repetition of the same few frames after which an utterance is ended (``silence``)."""
    text_timeout_s: float = 30.0
    """How long open text may stay away before what there is is spoken to its end and the turn ends (``stalled``)."""
    consumer_timeout_s: float = 60.0
    """How long a full buffer waits for its consumer before the turn ends (``slow_consumer``)."""

    def __post_init__(self) -> None:
        check_whole(self, _WHOLE, or_auto=_OR_AUTO)
        check_numbers(self, _SECONDS, what="seconds")
        check_choices(self, _CHOICES)
        check_flags(self, ("clean_text",))
        _check_verbalise(self.verbalise)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> StreamConfig:
        """From a configuration file or a message. An unknown name is an error that tells the nearest known one."""
        return from_mapping(cls, values, "stream config")
