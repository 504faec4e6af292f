"""Is a frame voice? webrtcvad behind a gate that follows the noise floor."""

from __future__ import annotations

import importlib
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from rtts.barge_in.config import BargeInConfig
from rtts.barge_in.frames import Frame
from rtts.errors import RuntimeSetupError

F32 = npt.NDArray[np.float32]

SPEECH_BAND_HZ = (200.0, 3600.0)
FLOOR_S = 2.0
"""The noise floor is the lowest level of the last two seconds: speech has a pause in as long, noise has not."""
_SILENCE = 1e-10


def band_power(samples: F32, rate_hz: int) -> npt.NDArray[np.float64]:
    """Mean power between 200 and 3600 Hz along the last axis; a full-scale sine has 0.5.

    Mains hum and rumble, which webrtcvad takes for speech, lie below the band.
    """
    count = samples.shape[-1]
    window = np.hanning(count + 1)[:-1]
    spectrum = np.fft.rfft(samples * window, axis=-1)
    hz = np.fft.rfftfreq(count, 1 / rate_hz)
    inside = (hz >= SPEECH_BAND_HZ[0]) & (hz <= SPEECH_BAND_HZ[1])
    power: npt.NDArray[np.float64] = (
        2 * (np.abs(spectrum[..., inside]) ** 2).sum(axis=-1) / (count * (window**2).sum())
    )
    return power


def dbfs(power: float) -> float:
    """Power as decibels below a full-scale sine; -97 at the least."""
    return float(10 * np.log10(2 * max(power, _SILENCE)))


class VoiceDetector:
    """Frames in, voice or not out. Holds webrtcvad's state and the noise floor of one microphone."""

    def __init__(self, config: BargeInConfig) -> None:
        """
        Raises:
            RuntimeSetupError: webrtcvad is not installed.
        """
        self._config = config
        self._vad: Any = _load_webrtcvad().Vad(config.aggressiveness)
        self._levels: deque[float] = deque(maxlen=round(FLOOR_S * 1000 / config.frame_ms))
        self.level_dbfs = -np.inf
        """Level of the last frame, 200 to 3600 Hz."""

    @property
    def floor_dbfs(self) -> float:
        """The noise floor, ``min_level_dbfs`` less ``gate_db`` at the least."""
        least = self._config.min_level_dbfs - self._config.gate_db
        return max(least, min(self._levels, default=least))

    def is_voice(self, frame: Frame) -> bool:
        """Judge the next frame."""
        pcm = np.rint(np.clip(frame.samples, -1.0, 1.0) * 32767).astype("<i2")
        speech = bool(self._vad.is_speech(pcm.tobytes(), frame.rate_hz))
        self.level_dbfs = dbfs(float(band_power(frame.samples, frame.rate_hz)))
        self._levels.append(self.level_dbfs)
        return speech and self.level_dbfs >= self.floor_dbfs + self._config.gate_db


def _load_webrtcvad() -> Any:
    try:
        return importlib.import_module("webrtcvad")
    except ImportError:
        raise RuntimeSetupError(
            "barge-in needs the package webrtcvad-wheels; run pip install 'rtts[vad]'"
        ) from None
