"""An engine that keeps the codes of all utterances of one command, and ends them at one limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rtts.stream.engine import I32, Decoder, SpeechEngine, Utterance
from rtts_engine.manner import Manner
from rtts_engine.request import Settings


@dataclass(eq=False)
class Ledger:
    """What the utterances of one command have in common: one limit, and all codes."""

    limit: int | None
    """Frames that all utterances may have together."""
    utterances: list[list[I32]] = field(default_factory=list)
    """(16,) codes of every frame, by utterance."""

    @property
    def frames(self) -> int:
        """Of all utterances."""
        return sum(map(len, self.utterances))

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.frames >= self.limit

    @property
    def codes(self) -> list[I32]:
        """Of all utterances, in the order of the text."""
        return [codes for utterance in self.utterances for codes in utterance]


class LedgerEngine:
    """``SpeechEngine`` that speaks by a ledger."""

    def __init__(self, engine: SpeechEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self.sample_rate_hz = engine.sample_rate_hz
        self.languages = engine.languages
        self.text_normalization = engine.text_normalization
        # Under a limit the first utterance has its frames before the next one gets any.
        self.max_rows = engine.max_rows if ledger.limit is None else 1

    def check(self, text: str, manner: Manner) -> None:
        self._engine.check(text, manner)

    def warm_up_manner(self) -> Manner | None:
        return self._engine.warm_up_manner()

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        return _LedgerUtterance(self._engine, self._ledger, text, manner, settings)

    def next_frames(self, utterances: Sequence[Utterance]) -> list[I32 | Exception | None]:
        own = [each for each in utterances if isinstance(each, _LedgerUtterance)]
        frames = self._engine.next_frames([each.inner for each in own if each.inner is not None])
        for each, frame in zip(own, frames, strict=True):
            each.note(frame)
        return frames

    def decoder(self, manner: Manner) -> Decoder:
        return self._engine.decoder(manner)


class _LedgerUtterance:
    """Not even opened when the limit is reached."""

    def __init__(
        self, engine: SpeechEngine, ledger: Ledger, text: str | None, manner: Manner, settings: Settings
    ) -> None:
        self._ledger = ledger
        self._codes: list[I32] = []
        ledger.utterances.append(self._codes)
        self.inner = None if ledger.full else engine.utterance(text, manner, settings)
        self._capped = False

    @property
    def needs_text(self) -> bool:
        return self.inner is not None and not self._ledger.full and self.inner.needs_text

    @property
    def expected_frames(self) -> int:
        return self.inner.expected_frames if self.inner is not None else 0

    @property
    def prefilled_s(self) -> float | None:
        return self.inner.prefilled_s if self.inner is not None else None

    @property
    def stop_reason(self) -> str | None:
        if self._capped or self.inner is None:
            return "length_cap"
        return self.inner.stop_reason

    def next_frame(self) -> I32 | None:
        if self.inner is None or self._ledger.full:
            self._capped = True
            return None
        frame = self.inner.next_frame()
        self.note(frame)
        return frame

    def note(self, frame: I32 | Exception | None) -> None:
        """Keep a frame's codes."""
        if frame is not None and not isinstance(frame, Exception):
            self._codes.append(frame)

    def push_text(self, text: str) -> None:
        if self.inner is not None:
            self.inner.push_text(text)

    def close_text(self) -> None:
        if self.inner is not None:
            self.inner.close_text()

    def cancel(self) -> None:
        if self.inner is not None:
            self.inner.cancel()
