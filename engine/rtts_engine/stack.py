"""A transformer stack at run time: positions, masks and key/value caches around one net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TransformerConfig
from rtts_engine.positions import causal_mask, rope_frequencies, rope_tables
from rtts_engine.runtime import Handle, Net, Numbered, Row, Run, empty_caches, owned

F32 = npt.NDArray[np.float32]

_KEPT_POSITIONS = 1024
"""Positions whose rotations and mask are kept for the streams that come after: 5 MB when all are there."""


@dataclass(slots=True)
class StackState:
    """Caches of one stream. It may be continued by one caller only: ncnn appends in place."""

    position: int = 0
    """Rows seen so far."""
    caches: list[Handle] = field(default_factory=list)
    run: Run | None = None
    """What the last pass was computed in; the next one goes on there. It holds nothing that a pass depends on."""
    past: Numbered = ()
    """``caches`` as the inputs of that run's next pass."""
    grown: Numbered = ()
    """``caches`` as outputs of that run."""


@dataclass(frozen=True, slots=True)
class Positions:
    """What a pass is fed besides its rows and caches."""

    handles: dict[str, Handle]
    numbered: Numbered


def rows_computed(rows: int) -> int:
    """How many rows a pass over ``rows`` should compute: ncnn's products take one, two, four or eight at a time.

    Measured on AVX2 in int8 at the 0.6B's size: three rows took 1.2 times as long as four, seven 1.3 times as long as
    eight.
    """
    return next((size for size in (1, 2, 4) if rows <= size), -(-rows // 8) * 8)


class Stack:
    """Runs a net written by ``graph.stack`` over explicit states; holds no state of its own."""

    def __init__(self, net: Net, config: TransformerConfig, attention: Net | None = None) -> None:
        """``attention``: the net of ``write_attention``, for ``step_together``."""
        self._net = net
        self._attention = attention
        self._frequencies = rope_frequencies(config.head_dim, config.rope_theta)
        self._layers = range(config.num_layers)
        self._past_names = [f"p{kind}{i}" for i in self._layers for kind in "kv"]
        self._cache_names = [f"c{kind}{i}" for i in self._layers for kind in "kv"]
        self._steps: dict[int, Positions] = {}

    def positions(self, start: int, rows: int, streams: int = 1) -> Positions:
        """What a run is fed besides its rows, of which those of the last position are wanted.

        It depends on positions only; a caller whose positions recur may keep it. ``streams``: rows at each position,
        for ``run_lockstep``.
        """
        cos, sin = rope_tables(np.repeat(np.arange(start, start + rows), streams), self._frequencies)
        pick = np.eye(streams, rows * streams, (rows - 1) * streams, dtype=np.float32)
        mask = causal_mask(rows, start)
        handles = {"mask": owned(mask), "cos": owned(cos), "sin": owned(sin), "pick": owned(pick)}
        return Positions(handles, self._net.numbered(handles))

    def step(self, position: int) -> Positions:
        """``positions`` of one row, which recur from stream to stream."""
        kept = self._steps.get(position)
        if kept is None:
            kept = self.positions(position, 1)
            if position < _KEPT_POSITIONS:
                self._steps[position] = kept
        return kept

    def run(
        self,
        state: StackState,
        rows: F32 | Row,
        outputs: Sequence[str],
        *,
        positions: Positions | None = None,
        capacity: int = 0,
    ) -> list[F32]:
        """Append ``rows`` (n, width) to ``state`` and return ``outputs`` of the wanted rows, each (m, size).

        ``positions`` are by default those of one stream whose last row is wanted. ``capacity``: positions to reserve
        when the state is new; a longer stream still works. What is returned may hold NaN or infinity.
        """
        count = len(rows.values if isinstance(rows, Row) else rows)
        if state.run is None:
            state.run = self._net.start(cache_capacity=capacity)
            state.caches = state.caches or empty_caches(len(self._past_names))
            state.past = self._net.numbered(dict(zip(self._past_names, state.caches, strict=True)))
            state.grown = self._net.numbered(dict(zip(self._cache_names, state.caches, strict=True)))
        else:
            state.run.again(outputs)
        run = state.run
        if positions is None:
            positions = self.step(state.position) if count == 1 else self.positions(state.position, count)
        run.feed({"x": rows})
        run.put(positions.numbered)
        run.put(state.past)
        arrays = [run.array(name) for name in outputs]
        run.advance(state.grown)
        state.position += count
        return arrays

    def run_lockstep(
        self,
        state: StackState,
        rows: F32 | Row,
        streams: int,
        outputs: Sequence[str],
        *,
        positions: Positions,
        capacity: int = 0,
    ) -> list[F32]:
        """``run`` for streams that began together and stay at one position, with one state for all.

        ``rows`` (n x streams, width): the rows of all streams at the first of n positions, then at the second. To the
        attention, more streams are more heads: each is computed as it is alone, to the last bit.
        """
        if streams == 1:
            return self.run(state, rows, outputs, positions=positions, capacity=capacity)
        total = len(rows.values if isinstance(rows, Row) else rows)
        run = self._net.start()
        run.feed({"x": rows} | {name: positions.handles[name] for name in ("cos", "sin", "pick")})
        past = state.caches or empty_caches(len(self._past_names))
        caches: list[Handle] = []
        for i in self._layers:
            attention = self._net.start(cache_capacity=0 if state.caches else capacity)
            attention.feed(
                {"mask": positions.handles["mask"], f"pk{i}": past[2 * i], f"pv{i}": past[2 * i + 1]}
            )
            for kind in "qkv":
                joined = run.array(f"{kind}{i}")  # (heads, n x streams, head_dim)
                heads, count, size = joined.shape
                apart = joined.reshape(heads, count // streams, streams, size).transpose(2, 0, 1, 3)
                attention.feed({f"{kind}{i}": apart.reshape(streams * heads, count // streams, size)})
            run.feed({f"a{i}": attention.array(f"a{i}").reshape(total, -1)})
            caches += [attention.state(f"c{kind}{i}", opaque=True) for kind in "kv"]
        arrays = [run.array(name) for name in outputs]
        state.caches = caches
        state.position += total // streams
        return arrays

    def step_together(self, states: Sequence[StackState], rows: F32, outputs: Sequence[str]) -> list[F32]:
        """Append one row (width,) of ``rows`` (n, width) to each of n states that have been run before.

        The weights are read once for all rows; every state's attention is its own, so that states may be of any length
        and may be continued alone or with any others.

        Returns:
            ``outputs`` of all rows, each (n, size); a row may hold NaN or infinity.
        """
        assert self._attention is not None
        count = len(states)
        filling = [0] * (rows_computed(count) - count)  # the first row once more, to nobody
        positions = [state.position for state in states]
        cos, sin = rope_tables(positions + [positions[i] for i in filling], self._frequencies)
        run, attention = self._net.start(), self._attention.start()
        run.feed({"x": np.concatenate([rows, rows[filling]]), "cos": cos, "sin": sin})
        for i in self._layers:
            joined = np.concatenate([run.array(f"{kind}{i}") for kind in "qkv"])  # (heads, n, head_dim)
            apart = np.ascontiguousarray(joined.transpose(1, 0, 2))[:, :, None]
            mixed = []
            for row, state in zip(apart[:count], states, strict=True):
                caches = state.caches[2 * i : 2 * i + 2]
                attention.again(["a"])
                attention.feed({"qkv": row, "pk": caches[0], "pv": caches[1]})
                mixed.append(attention.array("a").reshape(-1))
                attention.advance(self._attention.numbered({"ck": caches[0], "cv": caches[1]}))
            run.feed({f"a{i}": np.stack(mixed + [mixed[i] for i in filling])})
        run.feed({"picked": run.array("top")})  # all of them, and NaN stays in its row
        arrays = [run.array(name)[:count] for name in outputs]
        for state in states:
            state.position += 1
        return arrays
