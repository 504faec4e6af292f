"""The evaluation's measures of a clip: clicks, edges, levels, pitch and spectra, on made-up sounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bench.voice import pitch, sound, spectra

F32 = npt.NDArray[np.float32]
RATE_HZ = 24000


def tone(hz: float, seconds: float = 1.0, level: float = 0.3) -> F32:
    """A tone with four overtones, as a voice has them."""
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return np.asarray(level * sum(np.sin(2 * np.pi * hz * k * at) / k for k in range(1, 6)) / 2, np.float32)


def speechlike(seed: int) -> F32:
    """Pulses of a glottis through noise, with pauses: what a detector of clicks must not stumble over."""
    random = np.random.default_rng(seed)
    pulses = np.zeros(3 * RATE_HZ)
    pulses[np.cumsum(random.integers(110, 230, 400))[:300]] = 1.0
    formant = np.exp(-np.arange(200) / 30) * np.sin(np.arange(200) * 0.5)
    x = np.convolve(pulses, formant)[: len(pulses)] * 0.5 + random.normal(0, 0.003, len(pulses))
    envelope = np.clip(np.sin(np.arange(len(x)) / RATE_HZ * 2 * np.pi), 0, 1)
    return np.asarray(x * envelope, np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_where_nothing_was_put(seed: int) -> None:
    x = speechlike(seed)
    assert len(sound.joins(x)) == 37
    assert sound.clicks(x, sound.joins(x)) == []
    assert sound.clicks(tone(150.0), sound.joins(tone(150.0))) == []


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_an_injected_step_is_found_at_its_join_alone(offset: int) -> None:
    x = tone(120.0)
    at = sound.joins(x)[4]
    x[at + offset :] += 0.05
    assert sound.clicks(x, sound.joins(x)) == [at]
    assert sound.clicks(x, sound.controls(x)) == []


def test_an_injected_spike_is_found() -> None:
    x = speechlike(0)
    quiet = 14400 // sound.FRAME * sound.FRAME  # 0.6 s: in a pause
    x[quiet] += 0.02
    assert sound.clicks(x, sound.joins(x)) == [quiet]


def test_a_step_at_either_end_of_silence_is_found() -> None:
    silence = np.zeros(2880, np.float32)
    ramp = np.minimum(np.arange(1920) / 480, 1).astype(np.float32)
    x = np.concatenate([tone(200.0, 0.08) + np.float32(0.05), silence, tone(200.0, 0.08) * ramp])
    assert sound.clicks(x, [1920, 4800]) == [1920]
    assert sound.clicks(x[::-1], [len(x) - 4800, len(x) - 1920]) == [len(x) - 1920]


def test_edges_and_levels() -> None:
    x = np.concatenate([np.zeros(2400), tone(200.0, 0.5), np.zeros(1200)]).astype(np.float32)
    assert sound.start_peak(x) == 0.0
    assert sound.end_step(x) == 0.0
    assert sound.end_step(x[:-1500]) == pytest.approx(abs(x[-1501]))
    levels = sound.levels(x)
    assert levels.start_s == pytest.approx(0.1, abs=0.001)
    assert levels.voiced_s == pytest.approx(0.5, abs=0.01)
    assert levels.speech_db == pytest.approx(20 * np.log10(np.sqrt((x[2400:-1200] ** 2).mean())), abs=0.1)
    assert levels.noise_db == -120.0
    assert levels.clipped == 0
    x[5000:5010] = 1.0
    x += np.float32(0.0)
    assert sound.levels(x).clipped == 10
    x[0] = 0.5
    assert sound.start_peak(x) == 0.5


def test_an_empty_clip_has_levels() -> None:
    empty = np.zeros(0, np.float32)
    assert sound.levels(empty).speech_db == -120.0
    assert (sound.start_peak(empty), sound.end_step(empty)) == (0.0, 0.0)
    assert sound.joins(empty) == []
    assert pitch.describe(empty, RATE_HZ).median_hz is None


@pytest.mark.parametrize("hz", [70.0, 110.0, 205.3, 400.0])
def test_pitch_of_a_tone(hz: float) -> None:
    found = pitch.describe(tone(hz), RATE_HZ)
    assert found.median_hz == pytest.approx(hz, rel=0.005)
    assert found.voiced > 0.95
    assert found.spread_semitones is not None
    assert found.spread_semitones < 0.1


def test_range_of_a_glide() -> None:
    """150 to 300 Hz over two seconds: the octave, and 5 % cut off at both ends."""
    at = np.arange(2 * RATE_HZ) / RATE_HZ
    phase = 2 * np.pi * (150 * at + 150 / 4 * at**2)
    glide = np.asarray(0.2 * (np.sin(phase) + 0.5 * np.sin(2 * phase)), np.float32)
    found = pitch.describe(glide, RATE_HZ)
    assert (found.low_hz, found.median_hz, found.high_hz) == pytest.approx((157.5, 225.0, 292.5), rel=0.02)


def test_noise_and_silence_have_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32)
    assert pitch.describe(noise, RATE_HZ).voiced < 0.05
    assert pitch.describe(np.zeros(RATE_HZ, np.float32), RATE_HZ).median_hz is None


def test_log_mel_error() -> None:
    x = tone(150.0)
    assert spectra.error_db(x, x) == 0.0
    louder = spectra.error_db(x, x * np.float32(2))
    assert 0.0 < louder < 6.03  # 6 dB where there is sound, nothing where there is none
    mask = spectra.log_mel(x) > 0
    gain = (spectra.log_mel(x * np.float32(2)) - spectra.log_mel(x))[mask]
    np.testing.assert_allclose(gain, 6.02, atol=0.1)


def test_long_term_spectra_ignore_the_level() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32)
    dull = np.convolve(noise, np.ones(8) / 8, "same").astype(np.float32)
    own = spectra.long_term(noise)
    assert spectra.long_term_distance_db(own, 7 * own) == pytest.approx(0.0, abs=1e-9)
    assert spectra.long_term_distance_db(own, spectra.long_term(dull)) > 3.0


def test_rolloff() -> None:
    at = np.arange(RATE_HZ) / RATE_HZ
    both = np.sin(2 * np.pi * 1000 * at) + 0.1 * np.sin(2 * np.pi * 6000 * at)
    assert spectra.rolloff_hz(both.astype(np.float32)) == pytest.approx(1000, abs=60)
    assert spectra.rolloff_hz(both.astype(np.float32), share=0.995) == pytest.approx(6000, abs=60)
