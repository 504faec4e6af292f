"""``BargeInConfig``: when a voice at the microphone ducks and interrupts the assistant, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rtts.checks import check_choices, check_flags, check_numbers, check_whole, from_mapping, known_names
from rtts.errors import RequestError

PlaybackGuard = Literal["off", "strict", "ignore"]

_WHOLE = {
    "aggressiveness": (0, 3),
    "onset_frames": (1, 100),
    "onset_window": (1, 100),
}
_NUMBERS = {
    "min_speech_ms": (0.0, 10_000.0),
    "hangover_ms": (10.0, 5_000.0),
    "resume_delay_ms": (0.0, 10_000.0),
    "max_duck_ms": (50.0, 60_000.0),
    "cool_down_ms": (0.0, 60_000.0),
    "duck_gain": (0.0, 1.0),
    "playback_guard_ms": (0.0, 10_000.0),
    "gate_db": (0.0, 60.0),
    "min_level_dbfs": (-96.0, 0.0),
    "echo_delay_ms": (20.0, 2_000.0),
    "echo_margin_db": (0.0, 60.0),
}
_FLAGS = ("echo_guard", "before_sound")
_FRAMES_MS = (10, 20, 30)
_CHOICES = {"playback_guard": ("off", "strict", "ignore")}


@known_names("barge-in config")
@dataclass(frozen=True, slots=True)
class BargeInConfig:
    """When a user interrupts: voice at the microphone ducks the assistant at once, speech that goes on commits."""

    aggressiveness: int = 2
    """webrtcvad's mode: 0 takes most sounds for speech, 3 the fewest."""
    frame_ms: int = 20
    """Length of a frame that is judged as a whole: 10, 20 or 30 ms (all that webrtcvad knows)."""
    onset_frames: int = 3
    """Frames with voice, among the last ``onset_window``, that duck the assistant."""
    onset_window: int = 4
    """Frames that are looked at for the onset."""
    min_speech_ms: float = 240.0
    """Voice, onset included, that commits; it may be spread over twice as long. What is shorter is a false alarm."""
    hangover_ms: float = 200.0
    """A pause as long ends a stretch of speech: what follows counts from zero."""
    resume_delay_ms: float = 200.0
    """How long the assistant stays ducked after a stretch that was too short."""
    max_duck_ms: float = 2500.0
    """The assistant is never ducked for longer without a commit: sparse noise cannot keep it down."""
    cool_down_ms: float = 200.0
    """After a commit or a false alarm, voice counts for nothing for so long."""
    duck_gain: float = 0.25
    """Gain of the assistant while ducked (0 silences it, 1 leaves it alone)."""
    playback_guard: PlaybackGuard = "strict"
    """At the start of playback, while the echo guard knows nothing yet: ``strict`` doubles the frames of an onset and
    the speech of a commit, with ``ignore`` voice counts for nothing, ``off`` changes nothing."""
    playback_guard_ms: float = 500.0
    """How long ``playback_guard`` holds after the assistant starts to speak."""
    gate_db: float = 6.0
    """A frame is voice only so far above the running noise floor."""
    min_level_dbfs: float = -55.0
    """A frame is never voice below this level (200 to 3600 Hz; 0 is a full-scale sine)."""
    echo_guard: bool = True
    """Compare the microphone with what was played, so that the assistant does not interrupt itself."""
    echo_delay_ms: float = 500.0
    """Longest way from the playback buffer through the room back into ``push``."""
    echo_margin_db: float = 6.0
    """How far a user must be above the level at which the assistant itself is expected in the microphone."""
    before_sound: bool = False
    """Act as soon as a turn has begun, so that a user who goes on talking drops it before its first sound."""

    def __post_init__(self) -> None:
        check_whole(self, _WHOLE)
        check_numbers(self, _NUMBERS)
        check_choices(self, _CHOICES)
        check_flags(self, _FLAGS)
        if isinstance(self.frame_ms, bool) or self.frame_ms not in _FRAMES_MS:
            raise RequestError(f"frame_ms is {self.frame_ms!r}, expected 10, 20 or 30")
        if self.onset_frames > self.onset_window:
            raise RequestError(
                f"onset_frames is {self.onset_frames}, more than the onset_window of {self.onset_window} frames"
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> BargeInConfig:
        """From a configuration file or a message. An unknown name is an error that tells the nearest known one."""
        return from_mapping(cls, values, "barge-in config")
