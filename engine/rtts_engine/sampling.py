"""Choosing codes: the reference's processor order, and draws that depend on nothing but seed, frame and codebook."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from rtts_engine.config import CONTROL_IDS, PENALTY_RANGE, TEMPERATURE_RANGE, GenerationDefaults, TalkerConfig
from rtts_engine.errors import RequestError, not_finite

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

MIN_FRAMES = 2
"""The reference's hard-wired ``min_new_tokens``."""

_FALLBACK = GenerationDefaults()


def _within(value: object, low: float, high: float) -> bool:
    """Whether ``value`` is a number (not NaN) from ``low`` to ``high``."""
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(low <= value <= high)


@dataclass(frozen=True, slots=True)
class Draw:
    """How one code is chosen."""

    do_sample: bool = _FALLBACK.do_sample
    temperature: float = _FALLBACK.temperature
    top_k: int = _FALLBACK.top_k
    """0 keeps all."""
    top_p: float = _FALLBACK.top_p
    """1 keeps all."""

    def check(self, prefix: str) -> None:
        """Raises ``RequestError`` naming the field that is out of range; ``prefix`` goes before its name."""
        low, high = TEMPERATURE_RANGE
        if not _within(self.temperature, low, high):
            raise RequestError(
                f"{prefix}temperature is {self.temperature!r}, expected {low:g} to {high:g} (greedy: do_sample off)"
            )
        if not isinstance(self.top_k, (int, np.integer)) or self.top_k < 0:
            raise RequestError(f"{prefix}top_k is {self.top_k!r}, expected a whole number, 0 (off) or more")
        if not _within(self.top_p, 0.0, 1.0):
            raise RequestError(f"{prefix}top_p is {self.top_p!r}, expected 0 to 1 (off)")


@dataclass(frozen=True, slots=True)
class Sampling:
    """The talker's and the code predictor's rules; the two switches are independent, as in the reference."""

    talker: Draw = Draw()
    predictor: Draw = Draw()
    repetition_penalty: float = _FALLBACK.repetition_penalty
    """On first codes already chosen in this utterance; the predictor has none."""

    def __post_init__(self) -> None:
        self.talker.check("")
        self.predictor.check("subtalker_")
        low, high = PENALTY_RANGE
        if not _within(self.repetition_penalty, low, high):
            raise RequestError(
                f"repetition_penalty is {self.repetition_penalty!r}, expected {low:g} to {high:g} (1 = off)"
            )

    @classmethod
    def from_defaults(cls, defaults: GenerationDefaults) -> Sampling:
        """The values of a checkpoint's generation_config.json."""
        d = defaults
        return cls(
            Draw(d.do_sample, d.temperature, d.top_k, d.top_p),
            Draw(d.subtalker_do_sample, d.subtalker_temperature, d.subtalker_top_k, d.subtalker_top_p),
            d.repetition_penalty,
        )

    def greedy(self) -> Sampling:
        """The same rules with both draws replaced by argmax."""
        return replace(
            self,
            talker=replace(self.talker, do_sample=False),
            predictor=replace(self.predictor, do_sample=False),
        )

    def with_talker(
        self,
        *,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
    ) -> Sampling:
        """The same rules with what is given changed for the talker. Raises ``RequestError``: out of range."""
        old = self.talker
        talker = replace(
            old,
            temperature=old.temperature if temperature is None else temperature,
            top_k=old.top_k if top_k is None else top_k,
            top_p=old.top_p if top_p is None else top_p,
        )
        penalty = self.repetition_penalty if repetition_penalty is None else repetition_penalty
        return replace(self, talker=talker, repetition_penalty=penalty)


def probabilities(logits: F32, draw: Draw) -> tuple[npt.NDArray[np.int64], F64]:
    """Ids that survive temperature, top-k and top-p, ascending, and their probabilities (float64, sum 1).

    Raises:
        ModelError: the largest of ``logits`` is no number.
    """
    kept, scores = _top(logits, draw)
    weights = np.exp(scores.astype(np.float64) - _finite(float(scores.max(initial=-np.inf))))
    if draw.top_p < 1.0:
        order = np.argsort(weights, kind="stable")
        tail = np.cumsum(weights[order]) / weights.sum() <= 1.0 - draw.top_p
        tail[-1] = False  # the best one always stays
        survivors = np.sort(order[~tail])
        kept, weights = kept[survivors], weights[survivors]
    return kept, weights / weights.sum()


def _top(logits: F32, draw: Draw) -> tuple[npt.NDArray[np.int64], F32]:
    """Ids that survive temperature and top-k, ascending, and their scores, which hold no NaN."""
    scores = logits if draw.temperature == 1.0 else logits / np.float32(draw.temperature)
    size, limit, least = scores.size, -math.inf, scores.size
    if 0 < draw.top_k < size:
        ordered = scores.copy()
        ordered.partition(size - draw.top_k)
        limit = float(ordered[size - draw.top_k])
        least = draw.top_k if limit > -math.inf else size
    kept = (scores >= limit).nonzero()[0]  # ties with the k-th stay
    if kept.size < least:  # NaN is among the largest for the sort, and at least nothing
        raise not_finite("the model's view of the next code")
    if limit == -math.inf:
        kept = kept[scores[kept] > limit]  # what is masked is never drawn
    return kept, scores.take(kept)


def _finite(best: float) -> float:
    """``best``, the largest score. Raises ModelError: it is no number."""
    if not math.isfinite(best):
        raise not_finite("the model's view of the next code")
    return best


def uniforms(seed: int, frame: int, count: int) -> F64:
    """Numbers in [0, 1), one per codebook, that depend on seed and frame only (Philox 4x64)."""
    bits = np.random.Philox(key=seed, counter=[0, 0, 0, frame]).random_raw(count)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, np.float64)


def choose(logits: F32, draw: Draw, uniform: float) -> int:
    """One code by inverting the distribution at ``uniform``. Greedy takes the lowest index among equal maxima.

    Raises:
        ModelError: the largest of ``logits`` is no number.
    """
    if not draw.do_sample:
        code = int(logits.argmax())  # the first NaN, if there is one
        _finite(float(logits[code]))
        return code
    if draw.top_p < 1.0:
        ids, weights = probabilities(logits, draw)
        sums = weights.cumsum().tolist()
    else:
        # Most draws go here, some fifteen a frame, with all code out of cache (see ``runtime``): few array operations.
        ids, top = _top(logits, draw)
        scores = top.tolist()
        best, exp = _finite(max(scores, default=-math.inf)), math.exp
        sums = list(accumulate([exp(score - best) for score in scores]))
    return int(ids[min(bisect_right(sums, uniform * sums[-1]), len(sums) - 1)])


class FirstCode:
    """The talker's rules for one utterance: repetition penalty, minimum length, suppressed ids, then a draw."""

    def __init__(self, config: TalkerConfig, sampling: Sampling) -> None:
        self._eos = config.ids.eos
        self._sampling = sampling
        self._penalty = np.float32(sampling.repetition_penalty)
        self._suppressed = np.arange(config.vocab_size - CONTROL_IDS, config.vocab_size)
        self._suppressed = self._suppressed[self._suppressed != self._eos]
        self._seen = np.zeros(config.vocab_size, bool)

    def process(self, logits: F32, frame: int) -> F32:
        """The scores from which frame number ``frame``'s first code is drawn, before temperature."""
        scores = logits.astype(np.float32, copy=True)
        if self._penalty != 1.0:
            old = scores[self._seen]
            scores[self._seen] = np.where(old >= 0, old / self._penalty, old * self._penalty)
        if frame < MIN_FRAMES:
            scores[self._eos] = -np.inf
        scores[self._suppressed] = -np.inf
        return scores

    def choose(self, logits: F32, frame: int, uniform: float) -> int:
        """Draw the first code of ``frame`` and remember it."""
        code = choose(self.process(logits, frame), self._sampling.talker, uniform)
        self._seen[code] = True
        return code
