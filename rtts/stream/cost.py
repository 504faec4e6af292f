"""What a frame costs on this machine, learnt while it speaks. Pure."""

from __future__ import annotations

_SMOOTHING = 0.2
_FORGETTING = 0.95
ROW_SHARE = 0.12
"""What a further row adds to a pass of the talker, as a share of the pass with one, until both were measured: on two
AVX2 cores 0.07 in fp32 and 0.15 in int8 at the 0.6B's size."""


class FrameCost:
    """Running mean of the seconds that a frame takes to come out of a stage."""

    def __init__(self, initial_s: float | None = None) -> None:
        self.seconds = initial_s

    def add(self, seconds: float) -> None:
        """Count one frame."""
        if self.seconds is None:
            self.seconds = seconds
        else:
            self.seconds += _SMOOTHING * (seconds - self.seconds)


class PassCost:
    """Seconds of a pass of the talker over a number of rows: a line through recent passes.

    The line's slope is ``ROW_SHARE`` until passes with different numbers of rows say otherwise.
    """

    def __init__(self) -> None:
        self._weight = self._x = self._xx = self._t = self._xt = 0.0

    def add(self, rows: int, seconds: float) -> None:
        """Count one pass."""
        more = rows - 1
        sums = (self._weight, self._x, self._xx, self._t, self._xt)
        now = (1.0, more, more * more, seconds, more * seconds)
        self._weight, self._x, self._xx, self._t, self._xt = (
            _FORGETTING * old + new for old, new in zip(sums, now, strict=True)
        )

    def seconds(self, rows: int) -> float | None:
        """Of a pass with so many rows; None before the first one was counted."""
        if not self._weight:
            return None
        mean_x, mean_t = self._x / self._weight, self._t / self._weight
        usual = ROW_SHARE * mean_t / (1 + ROW_SHARE * mean_x)
        spread = self._xx - self._weight * mean_x**2
        together = self._xt - self._weight * mean_x * mean_t
        slope = max(0.0, (together + usual) / (spread + 1.0))  # as if one more pass had shown the usual
        return max(mean_t + slope * (rows - 1 - mean_x), 0.0)
