"""How many of a listener's sentences the talker generates together. Pure, without a clock.

A pass over several sentences takes little longer than one over a single sentence, because reading the weights is most
of it. Every sentence is later for its company, and all together are earlier. So company is kept where it is for
nothing, because the listener has sound to play meanwhile, and where a machine is slower than real time: there it is
what makes the sentences that follow come in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rtts_engine.config import FRAME_S

_SIZES = (1, 2, 4, 8)
"""Of a pass: those in between take as long as the next larger one (``rtts_engine.stack.rows_computed``)."""
EARLY_S = 0.5
"""Company is for nothing where every frame still comes this much before its turn."""
_WORTH_S = 0.05
"""Company must save the listener at least this much silence."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A sentence that is not generated to its end."""

    made: int
    """Frames of it that the talker has made; 0: it has not seen the text either."""
    waiting: int
    """Frames of it, and of sentences between it and the one before, that are not the listener's sound yet and need no
    pass."""
    missing: int
    """Frames that it is likely to still need, at least 1."""


def rows_together(
    sentences: Sequence[Ahead],
    lead_s: float,
    pass_s: Callable[[int], float],
    *,
    prompt_s: float = 0.0,
    codec_s: float = 0.0,
) -> int:
    """How many of the sentences, from the first one on, should be in the talker's next pass.

    Args:
        sentences: in the order in which they are played, at least one.
        lead_s: sound that the listener holds.
        pass_s: seconds of a pass over a number of sentences.
        prompt_s: seconds until a sentence's prompt has gone through the talker.
        codec_s: seconds that the codec takes for a frame; company cannot help beyond its pace.
    """
    sizes = [size for size in _SIZES if size < len(sentences)] + [len(sentences)]
    silence = {rows: silence_s(sentences, lead_s, pass_s, rows, prompt_s=prompt_s) for rows in sizes}
    free = [rows for rows in sizes if silence[rows] <= -EARLY_S]
    if free:
        return free[-1]
    frames = sum(each.waiting + each.missing for each in sentences)
    bearable = max(min(silence.values()), frames * (codec_s - FRAME_S) - lead_s) + _WORTH_S
    return next(rows for rows in sizes if silence[rows] <= bearable)


def silence_s(
    sentences: Sequence[Ahead],
    lead_s: float,
    pass_s: Callable[[int], float],
    rows: int,
    *,
    prompt_s: float = 0.0,
) -> float:
    """Silence in all that a listener hears if ``rows`` sentences are generated at a time; negative: none, by so much.

    That is how late the latest frame is for gapless playing from now on.
    """
    due_s = lead_s
    queue = []
    for each in sentences:
        due_s += each.waiting * FRAME_S
        queue.append([due_s, each.missing, not each.made])
        due_s += each.missing * FRAME_S
    now_s, late_s = 0.0, float("-inf")
    active: list[list[float]] = []
    while queue or active:
        while queue and len(active) < rows:
            active.append(queue.pop(0))
            now_s += prompt_s if active[-1][2] else 0.0
        step_s = pass_s(len(active))
        passes = min(missing for _, missing, _ in active)
        for sentence in active:
            # In between, lateness is a straight line.
            for count in (1, passes):
                late_s = max(late_s, now_s + count * step_s - (sentence[0] + (count - 1) * FRAME_S))
            sentence[0] += passes * FRAME_S
            sentence[1] -= passes
        now_s += passes * step_s
        active = [sentence for sentence in active if sentence[1] > 0]
    return late_s
