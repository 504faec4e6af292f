"""The talker and the code predictor: from prompt rows to frames of 16 codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TalkerConfig
from rtts_engine.runtime import Net
from rtts_engine.stack import Stack, StackState
from rtts_engine.tables import Tables

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

_RESERVED_FRAMES = 256
"""Cache positions reserved beyond the prompt; a longer utterance grows the cache."""
_PREFILL_ROWS = 512


@dataclass(frozen=True, slots=True)
class TalkerOutput:
    """What the talker says about the next frame."""

    hidden: F32
    """(D,) final-normed state; it conditions the code predictor."""
    logits: F32
    """(vocab,) scores of the next first code, control ids included."""


class Talker:
    """One step per frame over an explicit ``StackState``."""

    def __init__(self, net: Net, config: TalkerConfig) -> None:
        self._stack = Stack(net, config.stack)

    def prefill(self, rows: F32) -> tuple[StackState, TalkerOutput]:
        """Run a prompt (L, D) from position 0."""
        state = StackState()
        capacity = len(rows) + _RESERVED_FRAMES
        # Scores and mask grow with rows x positions: a long prompt goes in block by block.
        for start in range(0, len(rows), _PREFILL_ROWS):
            output = self._advance(state, rows[start : start + _PREFILL_ROWS], capacity)
        return state, output

    def step(self, state: StackState, row: F32) -> TalkerOutput:
        """Append one input row (D,) to ``state``."""
        return self._advance(state, row[None])

    def _advance(self, state: StackState, rows: F32, capacity: int = 0) -> TalkerOutput:
        hidden, logits = self._stack.run(state, rows, ["hidden", "logits"], capacity=capacity)
        return TalkerOutput(hidden.reshape(-1), logits.reshape(-1))


class Predictor:
    """The 15 acoustic codes of a frame, one after another, from the talker's state and its first code."""

    def __init__(self, net: Net, config: TalkerConfig, tables: Tables) -> None:
        self._stack = Stack(net, config.predictor.stack)
        self._tables = tables
        self._groups = config.num_code_groups
        # Positions restart with every frame: masks and rotations are made once.
        first = self._stack.positions(0, 2)
        self._positions = [first] + [self._stack.positions(s + 1, 1) for s in range(1, self._groups - 1)]

    def frame(self, hidden: F32, first_code: int, choose: Callable[[int, F32], int]) -> I32:
        """All codes (16,) of a frame.

        Args:
            hidden: (D,) the talker's state that produced ``first_code``.
            first_code: c0.
            choose: picks a code given the codebook's number (1..15) and its logits (C,).
        """
        codes = np.empty(self._groups, np.int32)
        codes[0] = first_code
        rows = np.stack([hidden, self._tables.codec([first_code])[0]])
        state = StackState()
        for s in range(self._groups - 1):
            (logits,) = self._stack.run(
                state, rows, [f"logits{s}"], positions=self._positions[s], capacity=self._groups
            )
            code = choose(s + 1, logits.reshape(-1))
            codes[s + 1] = code
            if s < self._groups - 2:
                rows = self._tables.acoustic(s, [code])
        return codes
