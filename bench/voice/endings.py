"""Whether an utterance ended where it should: its length against the teacher's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Ending = Literal["good", "truncated", "runaway"]

FRAME_S = 0.08
SHORT, LONG = 0.6, 1.6
"""Lengths, as a share of the expected one, beyond which an utterance is truncated or a runaway."""
BASE_S, LETTER_S = 0.28, 0.065
"""Seconds of any clip and of a letter: closest to 398 clips of the teacher (they have 0.75 to 1.35 of it)."""


def letters(text: str) -> int:
    """Letters and digits of a text."""
    return sum(character.isalnum() for character in text)


def expected_s(text: str, line: int, speaker: int, teacher_s: Mapping[tuple[int, int], float]) -> float:
    """Expected length of a clip, silence at its edges included.

    The teacher's length of the same line (by the same speaker, else by another); without any, by the letters: the line
    that fits the teacher's clips best.

    Args:
        teacher_s: seconds of (line, speaker).
    """
    if (line, speaker) in teacher_s:
        return teacher_s[line, speaker]
    others = [seconds for (own, _), seconds in teacher_s.items() if own == line]
    if others:
        return sum(others) / len(others)
    return BASE_S + LETTER_S * letters(text)


def ending(seconds: float, expected: float, stop_reason: str) -> Ending:
    """``truncated`` below 0.6 of the expected length, ``runaway`` above 1.6 of it or stopped by the cap."""
    if stop_reason != "eos" or seconds > LONG * expected:
        return "runaway"
    return "truncated" if seconds < SHORT * expected else "good"
