"""A transformer stack at run time: positions, masks and key/value caches around one net."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TransformerConfig
from rtts_engine.runtime import EMPTY, Feed, Handle, Net, owned

F32 = npt.NDArray[np.float32]

MASKED = np.float32(-1e30)


def rope_tables(positions: npt.ArrayLike, head_dim: int, theta: float) -> tuple[F32, F32]:
    """cos and sin (n, head_dim / 2) of the rotate-half RoPE, computed in float32 as the reference does."""
    exponent = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    frequency = (1.0 / np.power(np.float32(theta), exponent)).astype(np.float32)
    angle = np.outer(np.asarray(positions, dtype=np.float32), frequency)
    return np.cos(angle), np.sin(angle)


def causal_mask(rows: int, past: int) -> F32:
    """(rows, past + rows), zero where row i may look (keys up to past + i)."""
    return np.triu(np.full((rows, past + rows), MASKED, np.float32), past + 1)


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
        self._config = config
        layers = range(config.num_layers)
        self._past_names = [f"p{kind}{i}" for i in layers for kind in "kv"]
        self._cache_names = [f"c{kind}{i}" for i in layers for kind in "kv"]

    def positions(self, start: int, rows: int) -> dict[str, Handle]:
        """The feeds that depend on positions only; a caller whose positions recur may keep them."""
        cos, sin = rope_tables(np.arange(start, start + rows), self._config.head_dim, self._config.rope_theta)
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
