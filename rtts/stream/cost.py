"""What a frame costs on this machine, learnt while it speaks. Pure."""

from __future__ import annotations

_SMOOTHING = 0.2
_FORGETTING = 0.98
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
    """Seconds of a pass of the talker over a number of rows: what one row takes now, and what each further one adds.

    The latter, as a share of the former, is a property of machine and model. It is learnt slowly, from passes with
    different numbers of rows, and is ``ROW_SHARE`` until there were some.
    """

    def __init__(self) -> None:
        self._one = FrameCost()
        # Sums over passes, recent ones most: of weights, further rows, their squares, seconds, and rows times seconds.
        # One value, as other threads read it.
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)

    def add(self, rows: int, seconds: float) -> None:
        """Count one pass."""
        more = rows - 1
        w, x, xx, t, xt = (_FORGETTING * old for old in self._sums)
        self._sums = (w + 1, x + more, xx + more * more, t + seconds, xt + more * seconds)
        self._one.add(seconds / (1 + self._share() * more))

    def seconds(self, rows: int) -> float | None:
        """Of a pass with so many rows; None before the first one was counted."""
        one_s = self._one.seconds
        return None if one_s is None else one_s * (1 + self._share() * (rows - 1))

    def _share(self) -> float:
        """Of a line through recent passes, held to the usual one as if by some passes more; at most 1: in turn."""
        weight, x, xx, t, xt = self._sums
        mean_x, mean_t = x / weight, t / weight
        usual = ROW_SHARE * mean_t / (1 + ROW_SHARE * mean_x)
        spread = xx - weight * mean_x**2
        together = xt - weight * mean_x * mean_t
        slope = max(0.0, (together + usual) / (spread + 1.0))
        one = mean_t - slope * mean_x
        return min(1.0, slope / one) if one > 0 else ROW_SHARE
