"""Prompts in numbers: a text and its manner of speaking become input rows of the talker.

Assembly is symbolic first (``prompt_plan``: which ids meet on which row), then numeric (``Prompt``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rtts_engine.manner import F32 as F32
from rtts_engine.manner import I32 as I32
from rtts_engine.manner import CloneVoice as CloneVoice
from rtts_engine.manner import Manner as Manner
from rtts_engine.manner import TextLayout as TextLayout
from rtts_engine.prompt_plan import PromptPlan, PromptPlanner, Row
from rtts_engine.prompt_plan import PromptSpec as PromptSpec
from rtts_engine.text_feed import TextFeed
from rtts_engine.tokenizer import Tokenizer


class Embedder(Protocol):
    """The lookups that turn ids into rows; the model implements it."""

    @property
    def hidden_size(self) -> int:
        """Talker width D."""
        ...

    def text(self, ids: Sequence[int]) -> F32:
        """(n, D) projected text embeddings."""
        ...

    def codec(self, ids: Sequence[int]) -> F32:
        """(n, D) rows of ``talker.model.codec_embedding``."""
        ...

    def frames(self, codes: I32) -> F32:
        """(R, groups) codes -> (R, D) sums of the embeddings of a frame's codes."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt in numbers, laid out as the official package hands it to the talker."""

    rows: F32
    """(L, D) prefill input."""
    trailing: F32
    """(N, D) rows added to the generated frames 0..N-1; ``pad`` is added to all later ones."""
    pad: F32
    """(D,)"""
    n_text_ids: int
    """Ids of the spoken text, for the frame cap."""


@dataclass(frozen=True, slots=True)
class LivePrompt:
    """A prompt whose trailing text rows are made as they are needed."""

    rows: F32
    """(L, D) prefill input of the talker."""
    feed: TextFeed
    """Gives the row to add to each generated frame."""


class PromptBuilder:
    """Builds the prompts of one model. Stateless after construction, so that streams may share one."""

    def __init__(self, spec: PromptSpec, tokenizer: Tokenizer, embedder: Embedder) -> None:
        """Raises CheckpointError when the tokenizer does not give the role strings the ids that prompts rely on."""
        self._text_ids = spec.text_ids
        self._planner = PromptPlanner(spec, tokenizer, embedder.hidden_size)
        self._embedder = embedder
        self._pad: F32 = embedder.text([spec.text_ids.tts_pad])[0]

    def plan(
        self, text: str, manner: Manner, *, layout: TextLayout | None = None, literal: bool = False
    ) -> PromptPlan:
        """The prompt of a complete text, in symbols; arguments and errors as ``PromptPlanner.plan``."""
        return self._planner.plan(text, manner, layout=layout, literal=literal)

    def build(
        self, text: str, manner: Manner, *, layout: TextLayout | None = None, literal: bool = False
    ) -> Prompt:
        """The prompt of a complete text with all its trailing rows; arguments and errors as ``plan``."""
        plan = self.plan(text, manner, layout=layout, literal=literal)
        rows = self._render(plan.rows, manner.voice)
        return Prompt(rows, self._embedder.text(plan.trailing), self._pad, plan.n_text_ids)

    def start(
        self, text: str, manner: Manner, *, layout: TextLayout | None = None, literal: bool = False
    ) -> LivePrompt:
        """The same prompt as ``build``, without the cost of all trailing rows before the first frame."""
        return self._live(self.plan(text, manner, layout=layout, literal=literal), manner.voice, closed=True)

    def open(self, ids: Sequence[int], manner: Manner) -> LivePrompt:
        """A prompt for text that is still arriving, in the layout "streaming".

        ``ids`` are the first text ids (from an ``IncrementalTokenizer``), at least one; push the others to the
        prompt's ``feed``, then close it. Rows are then those of ``start``.

        Raises:
            TextError: ``ids`` is empty.
            RequestError, VoiceError: as ``plan``; reference codes are refused, because they need the complete text.
        """
        return self._live(self._planner.plan_open(ids, manner), manner.voice, closed=False)

    def _render(self, rows: Sequence[Row], voice: CloneVoice | None) -> F32:
        out = np.zeros((len(rows), self._embedder.hidden_size), np.float32)
        _add_rows(out, [row.text for row in rows], self._embedder.text)
        _add_rows(out, [row.codec for row in rows], self._embedder.codec)
        if voice is not None:
            out[[i for i, row in enumerate(rows) if row.x_vector]] += voice.x_vector
            if voice.ref_codes is not None:
                at = [i for i, row in enumerate(rows) if row.frame is not None]
                out[at] += self._embedder.frames(voice.ref_codes.astype(np.int32))
        return out

    def _live(self, plan: PromptPlan, voice: CloneVoice | None, closed: bool) -> LivePrompt:
        feed = TextFeed(
            self._embedder.text,
            plan.trailing,
            eos=self._text_ids.tts_eos,
            pad=self._pad,
            n_text_ids=plan.n_text_ids,
            closed=closed,
        )
        return LivePrompt(self._render(plan.rows, voice), feed)


def _add_rows(out: F32, ids: Sequence[int | None], embed: Callable[[Sequence[int]], F32]) -> None:
    """Adds the embedding of each id to its row; each distinct id is embedded once."""
    at = [i for i, number in enumerate(ids) if number is not None]
    distinct, which = np.unique([ids[i] for i in at], return_inverse=True)
    out[at] += embed(distinct.tolist())[which]
