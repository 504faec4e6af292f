"""Speech is voice; noise, hum, keyboard and held tones are not, at the latest when the floor knows them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rtts.barge_in import BargeInConfig, Framer, VoiceDetector
from rtts.barge_in.vad import band_power, dbfs
from rtts.errors import RuntimeSetupError
from tests.rtts.barge_in.sounds import chord, clicks, hum, noise, silence, speech


def judged(sound: np.ndarray, rate_hz: int = 16_000, **changes: object) -> np.ndarray:
    """One flag a frame."""
    config = BargeInConfig.from_mapping(changes)
    detector = VoiceDetector(config)
    return np.array([detector.is_voice(frame) for frame in Framer(config.frame_ms).push(sound, rate_hz)])


@pytest.mark.parametrize("frame_ms", [10, 20, 30])
@pytest.mark.parametrize("aggressiveness", [1, 2, 3])
def test_speech_is_found_at_once(aggressiveness: int, frame_ms: int) -> None:
    sound = np.concatenate([silence(0.6), speech("user")]) + noise(3.0, 0.0005)
    flags = judged(sound, aggressiveness=aggressiveness, frame_ms=frame_ms)
    before = 600 // frame_ms
    assert not flags[:before].any()
    onset = flags[before:].argmax() * frame_ms
    assert onset <= 120
    assert flags[before + onset // frame_ms :][: 1000 // frame_ms].mean() > 0.75


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_any_rate_tells_the_same(rate_hz: int) -> None:
    reference = judged(np.concatenate([silence(0.6), speech("user")]))
    flags = judged(np.concatenate([silence(0.6, rate_hz), speech("user", rate_hz)]), rate_hz)
    count = min(len(flags), len(reference))
    assert (flags[:count] == reference[:count]).mean() > 0.93


@pytest.mark.parametrize(
    ("name", "sound", "most"),
    [
        ("silence", silence(6), 0.0),
        ("faint noise", noise(6, 0.001), 0.0),
        ("white noise", noise(6, 0.03), 0.0),
        ("loud white noise", noise(6, 0.2), 0.0),
        ("pink noise", noise(6, 0.03, pink=True), 0.06),
        ("hum", hum(6, 0.1), 0.0),
        ("keyboard", clicks(6), 0.1),
        ("a chord that was there", chord(6, 0.1), 0.06),
    ],
)
def test_what_is_no_voice(name: str, sound: np.ndarray, most: float) -> None:
    assert judged(sound).mean() <= most, name


def test_noise_that_begins_is_forgotten_after_two_seconds() -> None:
    flags = judged(np.concatenate([silence(2), chord(5, 0.1)]))
    assert flags[100:110].any()  # a chord that begins is taken for voice: known, and documented
    assert flags[100 + 105 :].mean() < 0.06


def test_speech_in_noise() -> None:
    sound = np.concatenate([silence(2.0), speech("user")])
    flags = judged(sound + noise(len(sound) / 16_000, 0.01, pink=True))
    assert flags[:100].mean() < 0.06
    assert flags[100:160].mean() > 0.6


def test_levels() -> None:
    times = np.arange(320) / 16_000
    sine = np.sin(2 * np.pi * 1000 * times).astype(np.float32)
    assert dbfs(float(band_power(sine, 16_000))) == pytest.approx(0.0, abs=0.1)
    assert dbfs(float(band_power(0.1 * sine, 16_000))) == pytest.approx(-20.0, abs=0.1)
    assert dbfs(float(band_power(np.sin(2 * np.pi * 50 * times).astype(np.float32), 16_000))) < -25
    assert dbfs(0.0) < -96


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "webrtcvad", None)
    with pytest.raises(RuntimeSetupError, match=r"pip install 'rtts\[vad\]'"):
        VoiceDetector(BargeInConfig())
