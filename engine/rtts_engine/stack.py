"""A transformer stack at run time: positions, masks and key/value caches around one net."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TransformerConfig
from rtts_engine.positions import causal_mask, rope_frequencies, rope_tables
from rtts_engine.runtime import EMPTY, Feed, Handle, Net, owned

F32 = npt.NDArray[np.float32]


@dataclass(slots=True)
class StackState:
    """Caches of one stream. It may be continued by one caller only: ncnn appends in place."""

    position: int = 0
    """Rows seen so far."""
    caches: list[Handle] = field(default_factory=list)


class Stack:
    """Runs a net written by ``graph.stack`` over explicit states; holds no state of its own."""

    def __init__(self, net: Net, config: TransformerConfig) -> None:
        self._net = net
        self._frequencies = rope_frequencies(config.head_dim, config.rope_theta)
        layers = range(config.num_layers)
        self._past_names = [f"p{kind}{i}" for i in layers for kind in "kv"]
        self._cache_names = [f"c{kind}{i}" for i in layers for kind in "kv"]

    def positions(self, start: int, rows: int) -> dict[str, Handle]:
        """The feeds that depend on positions only; a caller whose positions recur may keep them."""
        cos, sin = rope_tables(np.arange(start, start + rows), self._frequencies)
        return {"mask": owned(causal_mask(rows, start)), "cos": owned(cos), "sin": owned(sin)}

    def run(
        self,
        state: StackState,
        rows: F32,
        outputs: list[str],
        *,
        positions: dict[str, Handle] | None = None,
        capacity: int = 0,
    ) -> list[F32]:
        """Append ``rows`` (n, width) to ``state`` and return ``outputs`` of the last row, each (1, size).

        ``capacity``: positions to reserve when the state is new; a longer stream still works.
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
