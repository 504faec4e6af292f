"""Error rates with confidence intervals: a bootstrap over sentences, because errors of one sentence belong together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DRAWS = 4000
SEED = 0
Count = tuple[int, int, int]
"""(sentence, errors, words or characters)"""
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rate:
    """Errors per word, with the interval that holds 95 % of the bootstrap's rates."""

    rate: float
    low: float
    high: float
    errors: int
    total: int
    clips: int


def rate(counts: Iterable[Count]) -> Rate:
    """The rate over clips. Raises ValueError without a word."""
    rows = list(counts)
    total = sum(row[2] for row in rows)
    if not total:
        raise ValueError("no words to count errors in")
    wrong = sum(row[1] for row in rows)
    sums = _per_sentence(rows)
    draws = _draws(sums, _choices(len(sums)))
    low, high = np.percentile(draws, [2.5, 97.5])
    return Rate(wrong / total, float(low), float(high), wrong, total, len(rows))


def difference(counts: Iterable[Count], base: Iterable[Count]) -> tuple[float, float, float, int]:
    """(difference of two rates, low, high, sentences), over the sentences that both hold, drawn together."""
    own, other = list(counts), list(base)
    shared = {row[0] for row in own} & {row[0] for row in other}
    if not shared:
        raise ValueError("no sentence is in both")
    a, b = (_per_sentence([row for row in rows if row[0] in shared]) for rows in (own, other))
    choices = _choices(len(shared))
    low, high = np.percentile(_draws(a, choices) - _draws(b, choices), [2.5, 97.5])
    middle = a[:, 0].sum() / a[:, 1].sum() - b[:, 0].sum() / b[:, 1].sum()
    return float(middle), float(low), float(high), len(shared)


def _per_sentence(rows: list[Count]) -> F64:
    """(sentences, 2): errors and words, sentences in order."""
    sums: dict[int, list[int]] = {}
    for sentence, wrong, words in rows:
        own = sums.setdefault(sentence, [0, 0])
        own[0] += wrong
        own[1] += words
    return np.array([sums[key] for key in sorted(sums)], np.float64)


def _choices(count: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(SEED).integers(0, count, (DRAWS, count))


def _draws(sums: F64, choices: npt.NDArray[np.int64]) -> F64:
    drawn = sums[choices].sum(1)
    result: F64 = drawn[:, 0] / np.maximum(drawn[:, 1], 1)
    return result
