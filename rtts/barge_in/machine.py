"""When to duck, commit and resume: pure, every time is an argument."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from rtts.barge_in.config import BargeInConfig, PlaybackGuard

Action = Literal["duck", "commit", "resume"]
Reason = Literal["onset", "speech", "pause", "limit", "finished"]
"""Why: ``onset`` ducks; ``speech`` commits; ``pause`` (the voice went away), ``limit`` (ducked for too long) and
``finished`` (the assistant stopped by itself) resume."""

VOICE_PROBABILITY = 0.5
_TOLERANCE_S = 1e-6
"""Sums of frame lengths are not exact."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now. Times are of the clock that ``step`` is given."""

    action: Action
    reason: Reason
    t_s: float
    """Now."""
    first_voice_s: float
    """End of the first frame with voice of this stretch of speech."""
    duck_s: float
    """When it was ducked."""


class BargeInMachine:
    """Frames in, decisions out: idle -> ducked -> idle (resumed) or interrupted (committed), then a cool-down.

    A commit always follows a duck, and a duck is followed by a commit or a resume as long as frames come or ``poll`` is
    called at ``deadline_s``.
    """

    def __init__(self, config: BargeInConfig) -> None:
        self._config = config
        self._min_frames = math.ceil(config.min_speech_ms / config.frame_ms)
        self._window: deque[bool] = deque(maxlen=2 * config.onset_window)
        self._stretch: deque[bool] = deque(maxlen=max(1, 4 * self._min_frames))
        self._now_s = -math.inf
        self._first_voice_s = -math.inf
        self._last_voice_s = -math.inf
        self._duck_s: float | None = None
        self._cool_until_s = -math.inf
        self._armed = False
        self._armed_s = -math.inf

    @property
    def ducked(self) -> bool:
        """Between a duck and its commit or resume."""
        return self._duck_s is not None

    @property
    def deadline_s(self) -> float | None:
        """When ``poll`` resumes if no voice comes; None while not ducked."""
        if self._duck_s is None:
            return None
        pause_ms = self._config.hangover_ms + self._config.resume_delay_ms
        return min(self._last_voice_s + pause_ms / 1e3, self._duck_s + self._config.max_duck_ms / 1e3)

    def step(self, t_s: float, voice: float, *, speaking: bool, echo: bool = False) -> Decision | None:
        """The next microphone frame.

        Args:
            t_s: end of the frame; an earlier time than the last one counts as that.
            voice: probability of speech, or a flag; from 0.5 up it is voice.
            speaking: whether there is something to interrupt; otherwise nothing is done.
            echo: what is heard is the assistant itself, so it is no voice.
        """
        now_s = self._now_s = max(self._now_s, t_s)
        self._arm(now_s, speaking)
        if not self._armed:
            return self._resume(now_s, "finished")
        if not _reached(now_s, self._cool_until_s) or self._guard(now_s) == "ignore":
            self._forget()
            return None
        is_voice = voice >= VOICE_PROBABILITY and not echo
        self._count(now_s, is_voice)
        if self._duck_s is None:
            return self._duck(now_s) if is_voice and self._is_onset(now_s) else None
        if self._is_speech(self._duck_s):
            return self._end(now_s, "commit", "speech")
        return self.poll(now_s)

    def poll(self, t_s: float) -> Decision | None:
        """Resume if it is time to; for when no frames come, at ``deadline_s``."""
        self._now_s = max(self._now_s, t_s)
        deadline_s = self.deadline_s
        if self._duck_s is None or deadline_s is None or not _reached(self._now_s, deadline_s):
            return None
        limit_s = self._duck_s + self._config.max_duck_ms / 1e3
        return self._resume(self._now_s, "limit" if deadline_s >= limit_s else "pause")

    def stop(self) -> Decision | None:
        """No frame follows: the resume that a duck is still owed."""
        return self._resume(self._now_s, "finished")

    def _arm(self, now_s: float, armed: bool) -> None:
        """Voice from before the assistant began counts for nothing."""
        if armed and not self._armed:
            self._forget()
            self._armed_s = now_s
        self._armed = armed

    def _guard(self, at_s: float) -> PlaybackGuard:
        """What the playback guard was at that time."""
        over = _reached(at_s, self._armed_s + self._config.playback_guard_ms / 1e3)
        return "off" if over else self._config.playback_guard

    def _count(self, now_s: float, is_voice: bool) -> None:
        pause_s = now_s - self._last_voice_s - (self._config.frame_ms / 1e3 if is_voice else 0.0)
        if _reached(pause_s, self._config.hangover_ms / 1e3):
            self._forget()
        if is_voice:
            if not any(self._stretch):
                self._first_voice_s = now_s
            self._last_voice_s = now_s
        self._window.append(is_voice)
        self._stretch.append(is_voice)

    def _forget(self) -> None:
        self._window.clear()
        self._stretch.clear()

    def _is_onset(self, now_s: float) -> bool:
        factor = 2 if self._guard(now_s) == "strict" else 1
        recent = list(self._window)[-factor * self._config.onset_window :]
        return sum(recent) >= factor * self._config.onset_frames

    def _is_speech(self, duck_s: float) -> bool:
        needed = self._min_frames * (2 if self._guard(duck_s) == "strict" else 1)
        return sum(list(self._stretch)[-max(1, 2 * needed) :]) >= needed

    def _duck(self, now_s: float) -> Decision:
        self._duck_s = now_s
        return Decision("duck", "onset", now_s, self._first_voice_s, now_s)

    def _resume(self, now_s: float, reason: Reason) -> Decision | None:
        return None if self._duck_s is None else self._end(now_s, "resume", reason)

    def _end(self, now_s: float, action: Action, reason: Reason) -> Decision:
        assert self._duck_s is not None
        decision = Decision(action, reason, now_s, self._first_voice_s, self._duck_s)
        self._duck_s = None
        self._cool_until_s = now_s + self._config.cool_down_ms / 1e3
        self._forget()
        return decision


def _reached(now_s: float, moment_s: float) -> bool:
    return now_s >= moment_s - _TOLERANCE_S
