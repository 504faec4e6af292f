"""Notices an utterance that has gone wrong: endless silence, or the same few frames again and again. Pure."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from rtts.stream.config import StreamConfig
from rtts_engine.config import FRAME_S

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

SILENCE_RMS = 10 ** (-55 / 20)
"""A frame below -55 dB of full scale counts as silent."""
MAX_PERIOD_FRAMES = 4


class Watchdog:
    """Looks at every frame of one utterance."""

    def __init__(self, config: StreamConfig) -> None:
        self._silence_frames = max(1, round(config.silence_timeout_s / FRAME_S))
        self._repeat_frames = max(1, round(config.repeat_timeout_s / FRAME_S))
        self._silent = 0
        self._recent: deque[bytes] = deque(maxlen=MAX_PERIOD_FRAMES)
        self._repeats = [0] * (MAX_PERIOD_FRAMES + 1)

    def looks_dead(self, codes: I32, samples: F32) -> bool:
        """Count one frame: its codes (1, 16) and samples (1920,). True when the utterance should be ended."""
        rms = float(np.sqrt(np.mean(np.square(samples)))) if samples.size else 0.0
        self._silent = self._silent + 1 if rms < SILENCE_RMS else 0
        key = codes.tobytes()
        for period in range(1, MAX_PERIOD_FRAMES + 1):
            same = len(self._recent) >= period and self._recent[-period] == key
            self._repeats[period] = self._repeats[period] + 1 if same else 0
        self._recent.append(key)
        return self._silent >= self._silence_frames or max(self._repeats) >= self._repeat_frames
