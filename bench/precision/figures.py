"""Measures of how far one result is from another. All arrays are float; rows are compared one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]


def cosines(exact: F32, other: F32) -> F64:
    """(n,) cosine of each row (n, width) with the other's."""
    a, b = exact.astype(np.float64), other.astype(np.float64)
    norms = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    result: F64 = (a * b).sum(axis=1) / np.maximum(norms, 1e-300)
    return result


def divergences(exact: F32, other: F32) -> F64:
    """(n,) Kullback-Leibler divergence in nats of the softmax of ``other`` (n, C) from that of ``exact``."""
    p, q = _log_softmax(exact), _log_softmax(other)
    result: F64 = np.maximum((np.exp(p) * (p - q)).sum(axis=1), 0)
    return result


def _log_softmax(logits: F32) -> F64:
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    result: F64 = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return result


def snr_db(exact: F32, other: F32) -> float:
    """Energy of ``exact`` over that of the difference; infinity where there is none."""
    a, b = exact.astype(np.float64), other.astype(np.float64)
    noise = float(((a - b) ** 2).sum())
    return float(10 * np.log10((a * a).sum() / noise)) if noise else float("inf")


def equal_frames(exact: I32, other: I32) -> int:
    """Frames (n, groups) that are equal at the same place, where the lengths may differ."""
    count = min(len(exact), len(other))
    return int((exact[:count] == other[:count]).all(axis=1).sum())


def first_difference(exact: I32, other: I32) -> int:
    """Frames until the first that differs, or the shorter length."""
    count = min(len(exact), len(other))
    same = (exact[:count] == other[:count]).all(axis=1)
    return count if same.all() else int(np.argmin(same))
