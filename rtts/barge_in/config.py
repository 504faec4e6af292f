"""``BargeInConfig``: when a voice at the microphone ducks and interrupts the assistant, validated."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

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
_GUARDS = ("off", "strict", "ignore")


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
        for name, (low, high) in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise RequestError(f"{name} is {value!r}, expected an integer from {low} to {high}")
        for name, (least, most) in _NUMBERS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                raise RequestError(f"{name} is {value!r}, expected a number from {least:g} to {most:g}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise RequestError(f"{name} is {getattr(self, name)!r}, expected True or False")
        if isinstance(self.frame_ms, bool) or self.frame_ms not in _FRAMES_MS:
            raise RequestError(f"frame_ms is {self.frame_ms!r}, expected 10, 20 or 30")
        if self.playback_guard not in _GUARDS:
            raise RequestError(f"playback_guard is {self.playback_guard!r}, expected {' or '.join(_GUARDS)}")
        if self.onset_frames > self.onset_window:
            raise RequestError(
                f"onset_frames is {self.onset_frames}, more than the onset_window of {self.onset_window} frames"
            )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> BargeInConfig:
        """From a configuration file or a message. An unknown name is an error that tells the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                raise RequestError(f"barge-in config has no field {name!r}; {hint}")
        return cls(**values)
