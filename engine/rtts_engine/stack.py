"""A transformer stack at run time: positions, masks and key/value caches around one net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TransformerConfig
from rtts_engine.positions import MASKED, causal_mask, rope_frequencies, rope_tables
from rtts_engine.runtime import EMPTY, Feed, Handle, Net, owned

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


@dataclass(slots=True)
class StackState:
    """Caches of one stream. It may be continued by one caller only: ncnn appends in place."""

    position: int = 0
    """Rows seen so far."""
    caches: list[Handle] = field(default_factory=list)


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

    def positions(self, start: int, rows: int) -> dict[str, Handle]:
        """What a run is fed besides its rows, for one stream of which the last row is wanted.

        It depends on positions only; a caller whose positions recur may keep it.
        """
        pick = np.zeros((1, rows), np.float32)
        pick[0, -1] = 1
        return self._feeds(np.arange(start, start + rows), causal_mask(rows, start), pick)

    def side_by_side(self, start: int, end: int, streams: int) -> dict[str, Handle]:
        """The same for a run over positions ``start`` to ``end`` where each has one row of every stream.

        All rows share a cache, and a row sees those of its own stream alone. The rows of the last position are wanted.
        """
        position, stream = (axis.reshape(-1) for axis in np.indices((end, streams)))
        new = slice(start * streams, None)
        seen = (stream[new, None] == stream) & (position[new, None] >= position)
        pick = np.eye(streams, (end - start) * streams, (end - start - 1) * streams)
        return self._feeds(position[new], np.where(seen, np.float32(0), MASKED), pick)

    def _feeds(self, positions: I64, mask: F32, pick: npt.ArrayLike) -> dict[str, Handle]:
        cos, sin = rope_tables(positions, self._frequencies)
        return {"mask": owned(mask), "cos": owned(cos), "sin": owned(sin), "pick": owned(pick)}

    def run(
        self,
        state: StackState,
        rows: F32,
        outputs: list[str],
        *,
        positions: dict[str, Handle] | None = None,
        capacity: int = 0,
    ) -> list[F32]:
        """Append ``rows`` (n, width) to ``state`` and return ``outputs`` of the wanted rows, each (m, size).

        ``positions`` are by default those of one stream whose last row is wanted. ``capacity``: positions to reserve
        when the state is new; a longer stream still works.
        """
        count = rows.shape[0]
        feeds: dict[str, Feed] = {"x": rows}
        feeds.update(positions if positions is not None else self.positions(state.position, count))
        feeds.update(zip(self._past_names, state.caches or [EMPTY] * len(self._past_names), strict=True))
        arrays, state.caches = self._net.run(
            feeds, outputs, self._cache_names, opaque=True, cache_capacity=capacity if not state.caches else 0
        )
        state.position += count
        return arrays

    def step_together(self, states: Sequence[StackState], rows: F32, outputs: list[str]) -> list[F32]:
        """Append one row (width,) of ``rows`` (n, width) to each of n states that have been run before.

        The weights are read once for all rows; every state's attention is its own, so that states may be of any length
        and may be continued alone or with any others.

        Returns:
            ``outputs`` of all rows, each (n, size); a row may hold NaN or infinity.
        """
        assert self._attention is not None
        cos, sin = rope_tables([state.position for state in states], self._frequencies)
        run = self._net.start()
        run.feed({"x": rows, "cos": cos, "sin": sin})
        for i in self._layers:
            joined = np.concatenate([run.array(f"{kind}{i}") for kind in "qkv"])  # (heads, n, head_dim)
            apart = np.ascontiguousarray(joined.transpose(1, 0, 2))[:, :, None]
            mixed = []
            for row, state in zip(apart, states, strict=True):
                attention = self._attention.start()
                attention.feed({"qkv": row, "pk": state.caches[2 * i], "pv": state.caches[2 * i + 1]})
                mixed.append(attention.array("a").reshape(-1))
                state.caches[2 * i] = attention.state("ck", opaque=True)
                state.caches[2 * i + 1] = attention.state("cv", opaque=True)
            run.feed({f"a{i}": np.stack(mixed)})
        run.feed({"picked": run.array("top")})  # all of them, and NaN stays in its row
        arrays = [run.array(name) for name in outputs]
        for state in states:
            state.position += 1
        return arrays
