"""The assistant's own voice in the microphone is recognised, and a user above it is heard."""

from __future__ import annotations

import numpy as np
import pytest

from rtts.barge_in import BargeInConfig, EchoGuard, Framer, VoiceDetector
from tests.rtts.barge_in.sounds import noise, room, silence, speech

FRAME = 320
TWICE = np.concatenate([speech("assistant", 24_000), speech("assistant", 24_000)[::-1]])


class Listener:
    """A guard that hears a microphone while something is played; one (voice, echo) a frame."""

    def __init__(self, **changes: object) -> None:
        config = BargeInConfig.from_mapping(changes)
        self.guard = EchoGuard(config)
        self._detector, self._framer = VoiceDetector(config), Framer(config.frame_ms)

    @property
    def seconds(self) -> float:
        return self._framer.pushed_s

    def hear(self, microphone: np.ndarray, played: np.ndarray, block: int = FRAME) -> np.ndarray:
        pcm = np.rint(np.clip(played, -1, 1) * 32767).astype(np.int16)
        flags = []
        for start in range(0, len(microphone) - block + 1, block):
            frames = self._framer.push(microphone[start : start + block], 16_000)
            self.guard.played(pcm[start * 3 // 2 : (start + block) * 3 // 2], self._framer.pushed_s)
            for frame in frames:
                voice = self._detector.is_voice(frame)
                end_s = self._framer.pushed_s - frame.age_s
                flags.append((voice, self.guard.is_echo(frame, end_s, self._detector.level_dbfs)))
        return np.array(flags)


def echoed(gain: float = 0.5, delay_s: float = 0.12, reverb_s: float = 0.3) -> np.ndarray:
    heard = room(TWICE, gain=gain, delay_s=delay_s, reverb_s=reverb_s, rate_hz=24_000)
    count = len(TWICE) * 2 // 3
    heard = np.interp(np.arange(count) * 1.5, np.arange(len(heard)), heard).astype(np.float32)
    return heard + noise(len(heard) / 16_000, 0.0005)


@pytest.mark.parametrize(
    ("gain", "delay_s", "reverb_s"),
    [
        (0.1, 0.03, 0.3),
        (0.1, 0.4, 0.6),
        (0.5, 0.12, 0.05),
        (0.5, 0.12, 0.6),
        (1.0, 0.03, 0.05),
        (1.0, 0.4, 0.3),
    ],
)
def test_echo_is_no_user(gain: float, delay_s: float, reverb_s: float) -> None:
    listener = Listener()
    flags = listener.hear(echoed(gain, delay_s, reverb_s), TWICE)
    passed = flags[:, 0] & ~flags[:, 1]
    assert flags[:, 0].mean() > 0.5  # it is speech, after all
    assert passed[:50].mean() < 0.2
    assert passed[50:].mean() < 0.03
    assert listener.guard.delay_s == pytest.approx(delay_s, abs=0.02)


def test_an_echo_later_than_it_may_be_is_not_found() -> None:
    listener = Listener(echo_delay_ms=200)
    listener.hear(echoed(delay_s=0.4), TWICE)
    assert listener.guard.delay_s is None


@pytest.mark.parametrize(("louder_db", "least"), [(12, 0.6), (6, 0.35)])
def test_a_user_above_the_echo_is_heard(louder_db: float, least: float) -> None:
    echo = echoed(0.5)
    start = 5 * 16_000
    user = speech("user", rms=float(np.std(echo)) * 10 ** (louder_db / 20))
    echo[start : start + len(user)] += user
    flags = Listener().hear(echo, TWICE)[250 : 250 + 100]
    assert (flags[:, 0] & ~flags[:, 1]).sum() / flags[:, 0].sum() > least


def test_without_echo_every_user_is_heard() -> None:
    """Headphones, or an echo canceller in front."""
    user = np.concatenate([silence(3.0), speech("user", rms=0.02), silence(4.6)])[: len(TWICE) * 2 // 3]
    listener = Listener()
    flags = listener.hear(user + noise(len(user) / 16_000, 0.0005), TWICE)[150:250]
    assert listener.guard.delay_s is None
    assert (flags[:, 0] & ~flags[:, 1]).sum() / flags[:, 0].sum() > 0.95


def test_a_user_is_heard_while_nothing_is_played() -> None:
    user = np.concatenate([silence(1.0), speech("user")])
    flags = Listener().hear(user, np.zeros(len(user) * 3 // 2))
    assert flags[:, 0].any()
    assert not flags[:, 1].any()


def test_bursts_of_either_side_do_not_matter() -> None:
    """A sink that pulls 60 ms at a time, a microphone that brings 100 ms."""
    listener = Listener()
    flags = listener.hear(echoed(), TWICE, block=1600)
    assert (flags[50:, 0] & ~flags[50:, 1]).mean() < 0.03


def test_a_late_microphone_is_no_slip() -> None:
    """A busy event loop: 0.3 s are played before the microphone's backlog comes."""
    listener, echo = Listener(), echoed()
    first, late = 3 * 16_000, 3 * 16_000 + 4800
    listener.hear(echo[:first], TWICE)
    pcm = np.rint(TWICE[first * 3 // 2 : late * 3 // 2] * 32767).astype(np.int16)
    listener.guard.played(pcm, first / 16_000)
    assert listener.guard.delay_s == pytest.approx(0.12, abs=0.02)
    listener.hear(echo[first:late], np.zeros(0, np.float32))  # the backlog, in no time
    flags = listener.hear(echo[late:], TWICE[late * 3 // 2 :])
    assert listener.guard.delay_s == pytest.approx(0.12, abs=0.02)
    assert (flags[:, 0] & ~flags[:, 1]).mean() < 0.03


@pytest.mark.parametrize("gap_s", [0.5, 5.0])
def test_clocks_that_slip_are_learned_anew(gap_s: float) -> None:
    """A microphone that was muted: something is played that it does not hear."""
    listener, echo = Listener(), echoed()
    listener.hear(echo, TWICE)
    listener.guard.played(np.zeros(round(gap_s * 24_000), np.int16), listener.seconds)
    flags = listener.hear(echo, TWICE)
    assert listener.guard.delay_s == pytest.approx(0.12, abs=0.02)
    assert (flags[75:, 0] & ~flags[75:, 1]).mean() < 0.03
