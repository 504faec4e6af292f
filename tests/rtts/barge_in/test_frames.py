"""Frames of any microphone: rate, type, channels and division do not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtts.barge_in import Frame, Framer
from rtts.barge_in.frames import VAD_RATES_HZ, mono
from rtts.errors import AudioError
from tests.rtts.barge_in.sounds import noise, speech


def cut(samples: np.ndarray, rate_hz: int, sizes: list[int], frame_ms: int = 20) -> list[Frame]:
    framer, frames, at = Framer(frame_ms), [], 0
    for size in [*sizes, len(samples)]:
        frames += framer.push(samples[at : at + size], rate_hz)
        at += size
    return frames


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]),
    st.sampled_from([10, 20, 30]),
    st.lists(st.integers(0, 3000), max_size=20),
)
def test_division_does_not_matter(rate_hz: int, frame_ms: int, sizes: list[int]) -> None:
    sound = noise(0.5, 0.1, rate_hz)
    whole, parts = cut(sound, rate_hz, [], frame_ms), cut(sound, rate_hz, sizes, frame_ms)
    assert len(parts) == len(whole) >= 0.4 * 1000 // frame_ms
    for one, other in zip(parts, whole, strict=True):
        assert one.rate_hz in VAD_RATES_HZ
        assert len(one.samples) == one.rate_hz * frame_ms // 1000
        assert np.array_equal(one.samples, other.samples)


def test_age_places_a_frame_in_the_stream() -> None:
    framer, pushed, ends = Framer(20), 0, []
    for size in (100, 1000, 37, 5000, 16, 320):
        pushed += size
        for frame in framer.push(np.zeros(size, np.float32), 16_000):
            ends.append(pushed / 16_000 - frame.age_s)
            assert frame.age_s >= 0
    assert framer.pushed_s == pushed / 16_000
    assert np.allclose(ends, 0.02 * np.arange(1, len(ends) + 1))


def test_types_and_channels_are_the_same_sound() -> None:
    sound = speech("user")
    pcm = np.rint(sound * 32768).astype(np.int16)
    exact = pcm.astype(np.float32) / 32768
    assert np.array_equal(mono(pcm), exact)
    assert np.array_equal(mono(exact.astype(np.float64)), exact)
    assert np.array_equal(mono(pcm.astype(np.int32) * 65536), exact)
    assert np.array_equal(mono(np.stack([pcm, pcm], axis=1)), exact)
    assert np.allclose(mono(np.stack([pcm, 0 * pcm], axis=1)), exact / 2)


def test_resampled_speech_is_the_speech() -> None:
    frames = cut(speech("user", 44_100), 44_100, [441] * 500)
    got = np.concatenate([frame.samples for frame in frames])
    assert np.corrcoef(got, speech("user")[: len(got)])[0, 1] > 0.99


def test_a_new_rate_starts_anew() -> None:
    framer = Framer(20)
    assert len(framer.push(np.zeros(300, np.int16), 16_000)) == 0
    assert framer.pushed_s == pytest.approx(300 / 16_000)
    assert len(framer.push(np.zeros(960, np.int16), 48_000)) == 1
    assert framer.pushed_s == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("samples", "rate_hz", "words"),
    [
        (np.zeros(10, np.uint8), 16_000, "uint8"),
        (np.zeros((2, 2, 2), np.int16), 16_000, "shape (2, 2, 2)"),
        (np.zeros((2, 480), np.int16), 16_000, "channels come last"),
        (np.array([0.0, np.nan]), 16_000, "NaN"),
        (np.zeros(10, np.int16), 1_000, "1000 Hz"),
        (np.zeros(10, np.int16), 16_000.0, "integer in Hz"),
    ],
)
def test_refused(samples: np.ndarray, rate_hz: Any, words: str) -> None:
    with pytest.raises(AudioError) as caught:
        Framer(20).push(samples, rate_hz)
    assert words in str(caught.value)
