"""Random numbers that depend on (seed, name) only: not on order, platform, or numpy's version.

numpy promises a stable stream for its bit generators but not for ``Generator.normal``; so the raw Philox words are
used, and sixteen bits of them at a time pick from a table of normal quantiles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

_TABLE_BITS = 16
_BLOCK_VALUES = 1 << 20


@lru_cache(maxsize=1)
def _normal_quantiles() -> FloatArray:
    """The 65,536 quantiles of N(0, 1), rounded to 1/4096 so that a last-bit difference of ``log`` cannot show."""
    count = 1 << _TABLE_BITS
    inverse = NormalDist().inv_cdf
    upper = [round(inverse((i + 0.5) / count) * 4096) / 4096 for i in range(count // 2, count)]
    return np.array([-value for value in reversed(upper)] + upper, dtype=np.float32)


def _words(seed: int, name: str) -> np.random.Philox:
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest()
    return np.random.Philox(key=int.from_bytes(digest, "little"))


def _indices(words: np.random.Philox, count: int) -> NDArray[np.uint16]:
    raw = np.asarray(words.random_raw(-(-count // 4)), dtype="<u8")
    return raw.view("<u2")[:count]


def normal_blocks(seed: int, name: str, count: int, std: float, mean: float = 0.0) -> Iterator[FloatArray]:
    """``count`` values of N(mean, std^2) in blocks of about a million; each block is the caller's to change."""
    words, table = _words(seed, name), _normal_quantiles()
    for start in range(0, count, _BLOCK_VALUES):
        block = table.take(_indices(words, min(_BLOCK_VALUES, count - start)))
        block *= np.float32(std)
        if mean:
            block += np.float32(mean)
        yield block


def normal(seed: int, name: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> FloatArray:
    """The values of ``normal_blocks`` as one array."""
    return np.concatenate(list(normal_blocks(seed, name, int(np.prod(shape)), std, mean))).reshape(shape)


def uniform(seed: int, name: str, count: int, low: float, high: float) -> FloatArray:
    """``count`` values spread evenly over [low, high)."""
    steps = _indices(_words(seed, name), count).astype(np.float32)
    scaled = steps * np.float32((high - low) / (1 << _TABLE_BITS)) + np.float32(low)
    return np.asarray(scaled, dtype=np.float32)
