"""Utterances that went wrong are noticed, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from rtts import StreamConfig
from rtts.stream.watchdog import SILENCE_RMS, Watchdog

CONFIG = StreamConfig(silence_timeout_s=0.8, repeat_timeout_s=1.6)  # 10 and 20 frames


def codes(number: int) -> np.ndarray:
    return np.full((1, 16), number, np.int32)


def sound(rms: float) -> np.ndarray:
    return np.full(1920, rms, np.float32)


def first_dead(frames: list[tuple[np.ndarray, np.ndarray]]) -> int | None:
    watchdog = Watchdog(CONFIG)
    return next((i for i, each in enumerate(frames) if watchdog.looks_dead(*each)), None)


def test_ordinary_speech_passes() -> None:
    rng = np.random.default_rng(0)
    frames = [(rng.integers(0, 2048, (1, 16), np.int32), sound(0.05)) for _ in range(500)]
    assert first_dead(frames) is None


def test_silence_counts_from_its_start() -> None:
    quiet = [(codes(i), sound(SILENCE_RMS * 0.9)) for i in range(50)]
    assert first_dead(quiet) == 9
    assert first_dead([(codes(i), sound(SILENCE_RMS * 1.1)) for i in range(50)]) is None
    interrupted = [*quiet[:9], (codes(99), sound(0.1)), *quiet[9:]]
    assert first_dead(interrupted) == 19


def test_no_samples_are_silence() -> None:
    assert first_dead([(codes(i), np.zeros(0, np.float32)) for i in range(20)]) == 9


@pytest.mark.parametrize("period", [1, 2, 3, 4])
def test_repetition_of_up_to_four_frames(period: int) -> None:
    frames = [(codes(i % period), sound(0.1)) for i in range(60)]
    assert first_dead(frames) == period + 19


def test_five_frames_are_not_watched_and_a_change_starts_anew() -> None:
    assert first_dead([(codes(i % 5), sound(0.1)) for i in range(200)]) is None
    held = [(codes(7), sound(0.1))] * 20
    assert first_dead([*held, (codes(8), sound(0.1)), *held[:-1]]) is None
    assert first_dead([*held, (codes(8), sound(0.1)), *held, *held]) == 41
