"""What a microphone may hear in the tests. The speech was made with the voice that ships with the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

F32 = npt.NDArray[np.float32]

RATE_HZ = 16_000
SPEECH = Path(__file__).parent / "speech"


def speech(name: str, rate_hz: int = RATE_HZ, *, rms: float = 0.07) -> F32:
    """``user`` (2.4 s) or ``assistant`` (5 s)."""
    samples, own_hz = soundfile.read(SPEECH / f"{name}.flac", dtype="float32")
    sound: F32 = soxr.resample(samples, own_hz, rate_hz).astype(np.float32)
    return sound * np.float32(rms / np.sqrt(np.mean(sound**2)))


def silence(seconds: float, rate_hz: int = RATE_HZ) -> F32:
    return np.zeros(round(seconds * rate_hz), np.float32)


def noise(seconds: float, rms: float, rate_hz: int = RATE_HZ, *, pink: bool = False, seed: int = 0) -> F32:
    white = np.random.default_rng(seed).standard_normal(round(seconds * rate_hz))
    if pink:
        spectrum = np.fft.rfft(white)
        spectrum /= np.sqrt(np.maximum(np.fft.rfftfreq(len(white), 1 / rate_hz), 20.0))
        white = np.fft.irfft(spectrum, len(white))
    return (white * rms / np.std(white)).astype(np.float32)


def chord(seconds: float, rms: float, rate_hz: int = RATE_HZ) -> F32:
    """A held major chord with harmonics: webrtcvad takes it for speech."""
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    tones = sum(np.sin(2 * np.pi * hz * k * times) / k for hz in (220.0, 277.2, 329.6) for k in (1, 2, 3))
    return (tones * rms / np.std(tones)).astype(np.float32)


def hum(seconds: float, rms: float, rate_hz: int = RATE_HZ) -> F32:
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    return (np.sqrt(2) * rms * np.sin(2 * np.pi * 50 * times)).astype(np.float32)


def clicks(seconds: float, rate_hz: int = RATE_HZ) -> F32:
    """A keyboard: bursts of 15 ms, five a second."""
    out = silence(seconds, rate_hz)
    burst = noise(0.015, 0.2, rate_hz, seed=3) * np.linspace(1, 0, round(0.015 * rate_hz), dtype=np.float32)
    for start in range(0, len(out) - len(burst), rate_hz // 5):
        out[start : start + len(burst)] = burst
    return out


def room(sound: F32, *, gain: float, delay_s: float, reverb_s: float = 0.3, rate_hz: int = RATE_HZ) -> F32:
    """What of ``sound`` reaches a microphone: late, attenuated, with reverberation of half the direct energy."""
    count = max(1, round(reverb_s * rate_hz))
    tail = np.random.default_rng(7).standard_normal(count) * 10 ** (-3 * np.arange(count) / count)
    tail *= np.sqrt(0.5 / np.sum(tail**2))
    tail[0] += 1.0
    size = 1 << (len(sound) + count).bit_length()
    wet = np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(tail, size), size)[: len(sound)]
    late = round(delay_s * rate_hz)
    return (gain * np.concatenate([np.zeros(late), wet])[: len(sound)]).astype(np.float32)
