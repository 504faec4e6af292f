"""Does the microphone hear the assistant itself? Correlation finds the way through the room, level judges the frame.

No echo canceller: nothing is subtracted. The guard learns how late and how loud the played sound comes back, and a
frame that is not clearly louder than that is taken for the assistant's own voice.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from rtts.barge_in.config import BargeInConfig
from rtts.barge_in.frames import Frame
from rtts.barge_in.vad import band_power, dbfs

F32 = npt.NDArray[np.float32]

RATE_HZ = 8_000
PLAYED_RATIO = 3
"""Played sound has 24 kHz."""
WINDOW = RATE_HZ * 240 // 1000
"""Microphone samples that are correlated at a time."""
HOP_S = 0.04
EARLY = RATE_HZ * 60 // 1000
"""The two clocks are compared at pushes: by so much an echo may seem to come before its cause."""
HELD = RATE_HZ * 4
"""Played samples that are remembered, so that microphone chunks may be seconds long."""
SLIP_S = 0.1
SLIP_LASTS_S = 0.5
"""When the clocks have moved apart by more, and for longer than a busy event loop explains, all is learned anew."""
EMPHASIS = 0.9
"""First-order pre-emphasis: without it any two vowels resemble each other."""
MEMORY = 0.12
"""Weight of the newest window in the running correlation."""
FOUND = 0.25
"""Peak of the running correlation that only an echo reaches."""
ALIKE = 0.42
"""Correlation of a single window that two voices do not reach by chance."""
AUDIBLE_DBFS = -55.0
BLOCK = RATE_HZ // 100
TAIL_DB_PER_BLOCK = 1.5
"""Decay of the assumed room, per 10 ms: 0.4 s for 60 dB."""
TAIL = 10 ** (-TAIL_DB_PER_BLOCK / 10 * np.arange(24))
COUPLING_S = 4.0
"""How long it is remembered how loud the echo was."""
COUPLING_QUANTILE = 0.6
COUPLING_LEAST_S = 0.3
"""Until so much echo was measured, everything that is heard while sound is played counts as echo."""


class _Tape:
    """The last samples of a stream, addressed by their position in it."""

    def __init__(self, length: int) -> None:
        self._data = np.zeros(length, np.float32)
        self.end = 0

    def append(self, samples: F32) -> None:
        self.end += len(samples)
        kept = samples[-len(self._data) :]
        self._data = np.concatenate([self._data[len(kept) :], kept])

    def read(self, start: int, end: int) -> F32:
        """Samples of [start, end); zeros where there is nothing (any more)."""
        out = np.zeros(end - start, np.float32)
        held = self.end - len(self._data)
        first, last = max(start, held), min(end, self.end)
        if first < last:
            out[first - start : last - start] = self._data[first - held : last - held]
        return out


class EchoGuard:
    """One microphone and what is played near it."""

    def __init__(self, config: BargeInConfig) -> None:
        self._config = config
        self._late = round(RATE_HZ * config.echo_delay_ms / 1000)
        self._hop = max(1, round(HOP_S * 1000 / config.frame_ms))
        self._played = _Tape(HELD)
        self._rest = np.zeros(0, np.float32)
        self._heard = _Tape(WINDOW + 1)
        self._offset: int | None = None
        self._slip_since_s: float | None = None
        self._frames = 0
        self._running = np.zeros(self._late + EARLY + 1)
        self._newest = np.zeros_like(self._running)
        self._couplings: deque[float] = deque(maxlen=round(COUPLING_S * 1000 / config.frame_ms))
        self._least = round(COUPLING_LEAST_S * 1000 / config.frame_ms)

    @property
    def delay_s(self) -> float | None:
        """How late the assistant's voice comes back; None while no echo was found."""
        lag = self._lag()
        return None if lag is None else lag / RATE_HZ

    def played(self, samples: npt.NDArray[np.int16], heard_s: float) -> None:
        """What was played since the last call, and how much the microphone has recorded in all: they are simultaneous.

        Args:
            samples: (n,) at 24 kHz.
            heard_s: length of the microphone's stream with what is about to be judged.
        """
        sound = np.concatenate([self._rest, samples.astype(np.float32) / 32768])
        whole = len(sound) // PLAYED_RATIO * PLAYED_RATIO
        self._rest = sound[whole:]
        self._played.append(_decimated(sound[:whole], PLAYED_RATIO))
        offset = self._played.end - round(heard_s * RATE_HZ)
        if self._offset is None or self._has_slipped(abs(offset - self._offset), heard_s):
            self._offset, self._slip_since_s = offset, None
            self._running[:] = self._newest[:] = 0
            self._couplings.clear()

    def _has_slipped(self, samples: int, heard_s: float) -> bool:
        if samples <= SLIP_S * RATE_HZ:
            self._slip_since_s = None
            return False
        if self._slip_since_s is None:
            self._slip_since_s = heard_s
        return samples > HELD // 2 or heard_s - self._slip_since_s > SLIP_LASTS_S

    def is_echo(self, frame: Frame, end_s: float, level_dbfs: float) -> bool:
        """Judge the next frame, whether or not it holds a voice.

        Args:
            frame: of the microphone.
            end_s: where it ends in the microphone's stream.
            level_dbfs: as ``VoiceDetector.level_dbfs``.
        """
        self._heard.append(_decimated(frame.samples, frame.rate_hz // RATE_HZ))
        if self._offset is None:
            return False
        end = round(end_s * RATE_HZ) + self._offset
        self._frames += 1
        if self._frames % self._hop == 0:
            self._correlate(end)
        lag = self._lag()
        if lag is None:
            return float(np.abs(self._newest).max()) >= ALIKE
        played_dbfs = self._played_level(end - lag)
        if played_dbfs < AUDIBLE_DBFS:
            return False
        self._couplings.append(level_dbfs - played_dbfs)
        if len(self._couplings) < self._least:
            return True
        expected_dbfs = played_dbfs + float(np.quantile(self._couplings, COUPLING_QUANTILE))
        return level_dbfs < expected_dbfs + self._config.echo_margin_db

    def _lag(self) -> int | None:
        peak = int(np.abs(self._running).argmax())
        return None if abs(self._running[peak]) < FOUND else self._late - peak

    def _played_level(self, end: int) -> float:
        """Level that reaches the microphone from what was played up to ``end``, reverberation included."""
        blocks = self._played.read(end - BLOCK * (len(TAIL) - 1), end + BLOCK).reshape(-1, BLOCK)
        return dbfs(float(band_power(blocks, RATE_HZ)[::-1] @ TAIL))

    def _correlate(self, end: int) -> None:
        """Normalised correlation for every delay, of the newest window and as a running mean."""
        heard = _emphasised(self._heard.read(self._heard.end - WINDOW - 1, self._heard.end))
        played = _emphasised(self._played.read(end - WINDOW - self._late - 1, end + EARLY))
        energies = np.concatenate([[0.0], np.cumsum(played.astype(np.float64) ** 2)])
        energy = energies[WINDOW:] - energies[:-WINDOW]
        loudest = float(energy.max())
        audible = WINDOW * 10 ** (AUDIBLE_DBFS / 10) / 2
        own = float(np.sum(heard.astype(np.float64) ** 2))
        if loudest < audible or own <= 0:
            self._newest[:] = 0  # nothing to resemble: what was learned stays
            return
        size = 1 << (len(played) + WINDOW - 1).bit_length()
        product = np.conj(np.fft.rfft(heard, size)) * np.fft.rfft(played, size)
        matches = np.fft.irfft(product, size)[: len(energy)]
        self._newest = matches / np.sqrt(np.maximum(energy, 0.05 * loudest) * own)
        self._running += MEMORY * (self._newest - self._running)


def _emphasised(samples: F32) -> F32:
    sharper: F32 = samples[1:] - np.float32(EMPHASIS) * samples[:-1]
    return sharper


def _decimated(samples: F32, ratio: int) -> F32:
    """Means of ``ratio`` samples each: without delay, and what folds back does not matter to a correlation."""
    means: F32 = samples.reshape(-1, ratio).mean(axis=1, dtype=np.float32)
    return means
