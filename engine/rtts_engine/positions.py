"""What a transformer graph is fed besides its rows: rotations and masks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

MASKED = np.float32(-1e30)
"""Added to the score of a key that a row may not see."""


def rope_frequencies(head_dim: int, theta: float) -> F32:
    """Radians per position (head_dim / 2,), in float32 as the official package computes them."""
    exponent = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequencies: F32 = np.float32(1) / np.float32(theta) ** exponent
    return frequencies


def rope_tables(positions: npt.ArrayLike, frequencies: F32 | F64) -> tuple[F32, F32]:
    """cos and sin of the rotate-half RoPE, each (n, head_dim / 2) float32.

    Angles are computed in the dtype of ``frequencies``: float32 rounds as the official package does, float64 keeps
    a stream of hours as accurate as its first second.
    """
    angles = np.outer(np.asarray(positions, frequencies.dtype), frequencies)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def causal_mask(rows: int, past: int) -> F32:
    """(rows, past + rows), zero where row i may look (keys up to past + i)."""
    return np.triu(np.full((rows, past + rows), MASKED, np.float32), past + 1)
