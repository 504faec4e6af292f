"""What the pipeline needs of an engine, and the real engine behind it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rtts.notices import check_instruct
from rtts_engine.codec import CodecDecoder, CodecState
from rtts_engine.generate import FrameStream, next_frames
from rtts_engine.manner import Manner
from rtts_engine.model import Model
from rtts_engine.prompt import LivePrompt
from rtts_engine.request import Settings

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]


class Utterance(Protocol):
    """Frames of one utterance. Everything but ``cancel`` is called by the talker's thread alone."""

    @property
    def needs_text(self) -> bool:
        """Whether the next frame has to wait for ``push_text`` or ``close_text``."""
        ...

    @property
    def expected_frames(self) -> int:
        """A guess at the utterance's length, from its text so far."""
        ...

    @property
    def prefilled_s(self) -> float | None:
        """When its prompt had gone through the talker (``time.monotonic``); None before."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """``eos``, ``length_cap`` or ``cancelled`` once it ended."""
        ...

    def next_frame(self) -> I32 | None:
        """(16,) codes of the next frame; None at the end."""
        ...

    def push_text(self, text: str) -> None:
        """More text, for an utterance that was opened without its whole text."""
        ...

    def close_text(self) -> None:
        """No more text follows."""
        ...

    def cancel(self) -> None:
        """End before the next frame."""
        ...


class Decoder(Protocol):
    """One utterance's way from codes to samples."""

    def decode(self, codes: I32) -> F32:
        """(n, 16) codes to (1920 n,) float32 samples."""
        ...


class SpeechEngine(Protocol):
    """A loaded model, as the pipeline sees it. Calls may come from any thread."""

    sample_rate_hz: int
    languages: Sequence[str]
    """Names that a request may ask for; empty: not known."""
    text_normalization: str | None
    """Language in whose words numbers and signs must be written out before; None: the model reads them itself."""

    max_rows: int
    """The most utterances that ``next_frames`` takes; 1 where there is nothing to gain."""

    def check(self, text: str, manner: Manner) -> None:
        """Raises the ``RttsError`` that speaking ``text`` in this manner would raise."""
        ...

    def warm_up_manner(self) -> Manner | None:
        """A manner that the model can speak in without a voice from outside; None if it has none."""
        ...

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        """An utterance with its whole text, or with text that is still to come (None)."""
        ...

    def next_frames(self, utterances: Sequence[Utterance]) -> list[I32 | Exception | None]:
        """The next frame of each, computed together: what ``next_frame`` of each gives, or raises.

        None of them needs text. Called by the talker's thread alone, with two utterances or more.
        """
        ...

    def decoder(self, manner: Manner) -> Decoder:
        """A decoder for one utterance."""
        ...


def one_by_one(utterances: Sequence[Utterance]) -> list[I32 | Exception | None]:
    """``SpeechEngine.next_frames`` of an engine that gains nothing from company."""
    frames: list[I32 | Exception | None] = []
    for utterance in utterances:
        try:
            frames.append(utterance.next_frame())
        except Exception as error:
            frames.append(error)
    return frames


MAX_ROWS = 8
_VOICES = 8
"""Voices whose codec state is kept."""
FRAMES_PER_TEXT_ID = 4
"""Ordinary speech: 12.5 frames/s at about three ids a second. Used until the model's own pace is known."""
_PACE_MIN_IDS = 4


class ModelEngine:
    """``SpeechEngine`` over a loaded ``Model``."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.sample_rate_hz = model.sample_rate_hz
        self.languages: Sequence[str] = model.manifest.languages
        self.text_normalization: str | None = model.manifest.config.text_normalization
        self.max_rows = MAX_ROWS
        self._pace = _Pace()
        # Speaking behind a reference clip means to decode the clip first: once for a voice, not for every sentence.
        self._start_state = lru_cache(maxsize=_VOICES)(model.codec_state)

    def check(self, text: str, manner: Manner) -> None:
        check_instruct(manner.instruct, self._model.manifest.config)
        self._model.prompts.plan(text, manner)

    def warm_up_manner(self) -> Manner | None:
        manifest = self._model.manifest
        if manifest.kind == "base":
            return None
        return Manner(speaker=manifest.speakers[0] if manifest.speakers else None)

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        if text is None:
            return _OpenUtterance(self._model, manner, settings, self._pace)
        prompt = self._model.prompts.start(text, manner, layout=settings.text_layout)
        return _WholeUtterance(self._model.stream(prompt, settings), prompt.feed.n_text_ids, self._pace)

    def next_frames(self, utterances: Sequence[Utterance]) -> list[I32 | Exception | None]:
        own = [each for each in utterances if isinstance(each, (_WholeUtterance, _OpenUtterance))]
        speaking = [(each, each.stream) for each in own if each.stream is not None]
        made = next_frames([stream for _, stream in speaking])
        found: dict[int, I32 | Exception | None] = {}
        for (each, stream), frame in zip(speaking, made, strict=True):
            each.note(frame)
            found[id(each)] = stream.error if isinstance(stream.error, Exception) else frame
        return [found.get(id(each)) for each in utterances]

    def decoder(self, manner: Manner) -> Decoder:
        return _StatefulDecoder(self._model.codec, self._start_state(manner.voice).copy())


class _Pace:
    """How many frames this model takes for a text id: learnt from what it has spoken. Talker's thread only."""

    def __init__(self) -> None:
        self._frames_per_id = float(FRAMES_PER_TEXT_ID)
        self._known = False

    def frames(self, ids: int) -> int:
        """Likely length of a text of ``ids`` ids."""
        return max(1, round(self._frames_per_id * ids))

    def learn(self, frames: int, ids: int) -> None:
        """Count an utterance that ended by itself. Very short ones say little."""
        if ids >= _PACE_MIN_IDS and frames:
            weight = 0.25 if self._known else 1.0
            self._frames_per_id += weight * (frames / ids - self._frames_per_id)
            self._known = True


class _StatefulDecoder:
    def __init__(self, codec: CodecDecoder, state: CodecState) -> None:
        self._codec = codec
        self._state = state

    def decode(self, codes: I32) -> F32:
        return self._codec.decode(self._state, codes)


class _WholeUtterance:
    """An utterance whose text was complete from the start."""

    def __init__(self, stream: FrameStream, n_text_ids: int, pace: _Pace) -> None:
        self.stream = stream
        self._n_text_ids = n_text_ids
        self._pace = pace
        self.expected_frames = pace.frames(n_text_ids)

    @property
    def needs_text(self) -> bool:
        return False

    @property
    def prefilled_s(self) -> float | None:
        return self.stream.prefilled_s

    @property
    def stop_reason(self) -> str | None:
        return self.stream.stop_reason

    def next_frame(self) -> I32 | None:
        frame = next(self.stream, None)
        self.note(frame)
        return frame

    def note(self, frame: I32 | None) -> None:
        """Learn from an utterance that ended."""
        if frame is None and self.stop_reason == "eos":
            self._pace.learn(self.stream.frames, self._n_text_ids)

    def push_text(self, text: str) -> None:
        raise RuntimeError("this utterance has its whole text")

    def close_text(self) -> None:
        pass  # it was closed from the start

    def cancel(self) -> None:
        self.stream.cancel()


class _OpenUtterance:
    """An utterance whose text arrives while it is spoken: ids go into the running talker, one per frame.

    Only ids that later text cannot change are used, so that the codes are those of the finished text in the streaming
    layout.
    """

    def __init__(self, model: Model, manner: Manner, settings: Settings, pace: _Pace) -> None:
        self._model = model
        self._manner = manner
        self._settings = settings
        self._pace = pace
        self._tokens = model.incremental_text()
        self._prompt: LivePrompt | None = None
        self.stream: FrameStream | None = None
        self._closed = False
        self._cancelled = False

    @property
    def expected_frames(self) -> int:
        return self._pace.frames(self._prompt.feed.n_text_ids if self._prompt else 1)

    @property
    def prefilled_s(self) -> float | None:
        return self.stream.prefilled_s if self.stream is not None else None

    @property
    def stop_reason(self) -> str | None:
        if self.stream is not None:
            return self.stream.stop_reason
        if self._cancelled:
            return "cancelled"
        return "eos" if self._closed else None  # closed without a word: there is nothing to say

    @property
    def needs_text(self) -> bool:
        if self.stream is None:
            return not (self._closed or self._cancelled)
        return self.stream.needs_text

    def next_frame(self) -> I32 | None:
        return next(self.stream, None) if self.stream is not None else None

    def note(self, frame: I32 | None) -> None:
        """An utterance that waits for its text says nothing about the pace."""

    def push_text(self, text: str) -> None:
        self._speak(self._tokens.feed(text))

    def close_text(self) -> None:
        self._speak(self._tokens.close())
        self._closed = True
        if self._prompt is not None:
            self._prompt.feed.close()

    def cancel(self) -> None:
        self._cancelled = True
        if self.stream is not None:
            self.stream.cancel()

    def _speak(self, ids: list[int]) -> None:
        if self._prompt is not None:
            self._prompt.feed.push(ids)
        elif ids:
            self._prompt = self._model.prompts.open(ids, self._manner)
            self.stream = self._model.stream(self._prompt, self._settings)
            if self._cancelled:
                self.stream.cancel()
