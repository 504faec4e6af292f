"""The talker and the code predictor: from prompt rows to frames of 16 codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TalkerConfig
from rtts_engine.runtime import Net, Row
from rtts_engine.stack import Positions, Stack, StackState, rows_computed
from rtts_engine.tables import Tables

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

Choose = Callable[[int, F32], int]

_RESERVED_FRAMES = 64
"""Cache positions reserved beyond the prompt: 15 MB at the 0.6B's size. A longer utterance grows the cache, which costs
no measurable time."""
_PREFILL_ROWS = 512


@dataclass(frozen=True, slots=True)
class TalkerOutput:
    """What the talker says about the next frame."""

    hidden: F32
    """(D,) final-normed state; it conditions the code predictor."""
    logits: F32
    """(vocab,) scores of the next first code, control ids included. Either may hold NaN or infinity."""


class Talker:
    """One step per frame over an explicit ``StackState``."""

    def __init__(self, net: Net, attention: Net, config: TalkerConfig) -> None:
        self._stack = Stack(net, config.stack, attention)

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

    def step_together(self, states: Sequence[StackState], rows: F32) -> list[TalkerOutput]:
        """Append one of ``rows`` (n, D) to each of n states, reading the weights once for all.

        States may be of any length, and stepped alone or with others at any time. NaN or infinity stay in their row.
        """
        if len(states) == 1:
            return [self.step(states[0], rows[0])]
        hidden, logits = self._stack.step_together(states, rows, ["hidden", "logits"])
        return [TalkerOutput(h, scores) for h, scores in zip(hidden, logits, strict=True)]

    def _advance(self, state: StackState, rows: F32, capacity: int = 0) -> TalkerOutput:
        hidden, logits = self._stack.run(state, rows, ["hidden", "logits"], capacity=capacity)
        return TalkerOutput(hidden.reshape(-1), logits.reshape(-1))


class Predictor:
    """The 15 acoustic codes of a frame, one after another, from the talker's state and its first code."""

    def __init__(self, net: Net, config: TalkerConfig, tables: Tables) -> None:
        self._stack = Stack(net, config.predictor.stack)
        self._tables = tables
        self._groups = config.num_code_groups
        self._outputs = [[f"logits{s}"] for s in range(self._groups - 1)]
        # Positions restart with every frame: masks and rotations are made once for each number of streams.
        self._positions: dict[int, list[Positions]] = {}

    def frame(self, hidden: F32, first_code: int, choose: Choose) -> I32:
        """All codes (16,) of a frame.

        Args:
            hidden: (D,) the talker's state that produced ``first_code``.
            first_code: c0.
            choose: picks a code given the codebook's number (1..15) and its logits (C,), which may hold NaN.
        """
        codes: I32 = self.frames(hidden[None], [first_code], [choose])[0]
        return codes

    def frames(self, hidden: F32, first_codes: Sequence[int], choose: Sequence[Choose]) -> I32:
        """All codes (n, 16) of one frame of each of n streams, computed together; arguments as of ``frame``."""
        count = len(first_codes)
        computed = rows_computed(count)
        filling = [0] * (computed - count)  # the first stream once more, for nobody
        positions = self._positions.get(computed)
        if positions is None:
            positions = [self._stack.positions(0, 2, computed)]
            positions += [self._stack.positions(s + 1, 1, computed) for s in range(1, self._groups - 1)]
            self._positions[computed] = positions
        codes = [list(first_codes)]
        begun = self._tables.codec([*first_codes, *(first_codes[i] for i in filling)])
        first = np.concatenate([hidden, hidden[filling], begun])
        later = Row(computed, first.shape[1])
        state = StackState()
        for s in range(self._groups - 1):
            (logits,) = self._stack.run_lockstep(
                state,
                later if s else first,
                computed,
                self._outputs[s],
                positions=positions[s],
                capacity=self._groups,
            )
            chosen = [pick(s + 1, scores) for pick, scores in zip(choose, logits[:count], strict=True)]
            codes.append(chosen)
            if s < self._groups - 2:
                self._tables.write_acoustic(s, chosen + [chosen[i] for i in filling], later.values)
        return np.ascontiguousarray(np.array(codes, np.int32).T)
