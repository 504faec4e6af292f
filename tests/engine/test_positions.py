"""Rotations and masks: the formulas, and what the dtype of the frequencies decides."""

from __future__ import annotations

import numpy as np

from rtts_engine.positions import MASKED, causal_mask, rope_frequencies, rope_tables


def test_angles_are_position_times_frequency() -> None:
    frequencies = rope_frequencies(8, 1e6)
    assert frequencies.dtype == np.float32
    np.testing.assert_allclose(frequencies, 1e6 ** (-np.arange(4) / 4), rtol=1e-6)
    cos, sin = rope_tables([0, 3], frequencies)
    assert cos.dtype == sin.dtype == np.float32
    np.testing.assert_allclose(cos, np.cos(np.outer([0, 3], frequencies)), atol=1e-6)
    np.testing.assert_allclose(sin, np.sin(np.outer([0, 3], frequencies)), atol=1e-6)


def test_float64_frequencies_keep_late_positions_exact() -> None:
    late, frequencies = 4_500_001, rope_frequencies(64, 1e4)
    exact = np.cos(late * frequencies.astype(np.longdouble))
    wide, _ = rope_tables([late], frequencies.astype(np.float64))
    assert np.abs(wide[0] - exact).max() < 1e-7
    rounded, _ = rope_tables([late], frequencies)
    assert np.abs(rounded[0] - exact).max() > 1e-2


def test_a_row_sees_the_past_and_itself() -> None:
    np.testing.assert_array_equal(causal_mask(2, 1), np.array([[0, 0, MASKED], [0, 0, 0]], np.float32))
    np.testing.assert_array_equal(causal_mask(1, 3), np.zeros((1, 4), np.float32))
