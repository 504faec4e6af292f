"""For your own tests: an engine that needs no model, is deterministic, and runs at the speed you choose."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rtts.errors import TextError, UnfitVoiceError
from rtts.stream.engine import Decoder, Utterance, one_by_one
from rtts_engine.config import FRAME_SAMPLES, SAMPLE_RATE_HZ
from rtts_engine.frame_cap import BASE_FRAMES
from rtts_engine.manner import Manner
from rtts_engine.request import Settings

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]


class FakeEngine:
    """Speaks a tone per character: ``frames_per_char`` frames each, pitch by character and seed.

    Pass it to ``rtts.Tts`` in place of a model::

        async with rtts.Tts(FakeEngine(ar_ms=5)) as tts: ...
    """

    sample_rate_hz = SAMPLE_RATE_HZ
    max_rows = 4
    languages: Sequence[str] = ()
    text_normalization: str | None = None

    def __init__(
        self,
        *,
        ar_ms: float = 0.0,
        row_ms: float | None = None,
        codec_ms: float = 0.0,
        frames_per_char: int = 1,
        fail_at_frame: int | None = None,
        fail_in: str = "talker",
        voices: tuple[str, ...] = ("alice", "bob"),
    ) -> None:
        """
        Args:
            ar_ms: time that the talker takes for a frame, slept.
            row_ms: time that a further utterance adds to a pass over several; None: as much as one alone.
            codec_ms: time that the codec takes for a frame, slept.
            frames_per_char: how long the speech of a character is, in frames of 80 ms. A character is a text id, and
                the cap of the real models holds (``rtts_engine.frame_cap``).
            fail_at_frame: raise ``RuntimeError`` at this frame of every utterance.
            fail_in: "talker" or "codec".
            voices: speakers that exist.
        """
        self.ar_ms = ar_ms
        self.row_ms = row_ms
        self.codec_ms = codec_ms
        self.frames_per_char = frames_per_char
        self.fail_at_frame = fail_at_frame
        self.fail_in = fail_in
        self.voices = voices
        self.spoken: list[str] = []
        """Text of every utterance that was asked for."""

    def check(self, text: str, manner: Manner) -> None:
        if not text.strip():
            raise TextError("there is no text to speak; give at least one word")
        if manner.speaker and manner.speaker not in self.voices:
            raise UnfitVoiceError(
                f"speaker {manner.speaker!r} is unknown; this model has {', '.join(self.voices)}"
            )

    def warm_up_manner(self) -> Manner | None:
        return None

    def utterance(self, text: str | None, manner: Manner, settings: Settings) -> Utterance:
        return _FakeUtterance(self, text, manner, settings)

    def next_frames(self, utterances: Sequence[Utterance]) -> list[I32 | Exception | None]:
        if self.row_ms is None:
            return one_by_one(utterances)
        alone_ms, self.ar_ms = self.ar_ms, 0.0
        try:
            _sleep(alone_ms + self.row_ms * (len(utterances) - 1))
            return one_by_one(utterances)
        finally:
            self.ar_ms = alone_ms

    def decoder(self, manner: Manner) -> Decoder:
        return _FakeDecoder(self)

    def offline(self, text: str, manner: Manner, settings: Settings) -> F32:
        """The samples that ``text`` sounds like, in one go."""
        fast = FakeEngine(frames_per_char=self.frames_per_char)
        utterance, decoder = fast.utterance(text, manner, settings), fast.decoder(manner)
        pieces = []
        while (frame := utterance.next_frame()) is not None:
            pieces.append(decoder.decode(frame[None]))
        return np.concatenate([np.zeros(0, np.float32), *pieces])


class _FakeUtterance:
    def __init__(self, engine: FakeEngine, text: str | None, manner: Manner, settings: Settings) -> None:
        self._engine = engine
        self._closed = text is not None
        self._text = text or ""
        self._key = f"{manner.speaker}|{settings.seed}|"
        self._settings = settings
        self._frames = 0
        self._cancelled = False
        self.stop_reason: str | None = None
        self.prefilled_s: float | None = None
        if text is not None:
            engine.spoken.append(text)

    @property
    def expected_frames(self) -> int:
        return len(self._text) * self._engine.frames_per_char

    @property
    def max_frames(self) -> int:
        cap = BASE_FRAMES + self._settings.frames_per_text_id * len(self._text)
        return cap if self._settings.max_frames is None else self._settings.max_frames

    @property
    def needs_text(self) -> bool:
        return not (self._closed or self._cancelled) and self._frames >= self.expected_frames

    def next_frame(self) -> I32 | None:
        if self._cancelled:
            self.stop_reason = "cancelled"
            return None
        if self._frames >= self.expected_frames:
            self.stop_reason = "eos"
            return None
        if self._frames >= self.max_frames:
            self.stop_reason = "length_cap"
            return None
        if self._engine.fail_in == "talker" and self._frames == self._engine.fail_at_frame:
            raise RuntimeError("the fake talker was told to fail")
        self.prefilled_s = self.prefilled_s or time.monotonic()
        _sleep(self._engine.ar_ms)
        character = self._text[self._frames // self._engine.frames_per_char]
        digest = hashlib.sha256(f"{self._key}{self._frames}|{character}".encode()).digest()
        self._frames += 1
        return np.frombuffer(digest[:16], np.uint8).astype(np.int32)

    def push_text(self, text: str) -> None:
        self._text += text

    def close_text(self) -> None:
        self._closed = True
        self._engine.spoken.append(self._text)

    def cancel(self) -> None:
        self._cancelled = True


class _FakeDecoder:
    """A tone whose phase goes on from frame to frame, so that order and joins can be heard and compared."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._phase = 0.0
        self._frames = 0

    def decode(self, codes: I32) -> F32:
        pieces = []
        for row in codes:
            if self._engine.fail_in == "codec" and self._frames == self._engine.fail_at_frame:
                raise RuntimeError("the fake codec was told to fail")
            _sleep(self._engine.codec_ms)
            step = 2 * np.pi * (200.0 + 4.0 * float(row[0])) / SAMPLE_RATE_HZ
            phase = self._phase + step * np.arange(1, FRAME_SAMPLES + 1)
            self._phase = float(phase[-1] % (2 * np.pi))
            self._frames += 1
            pieces.append((0.3 * np.sin(phase)).astype(np.float32))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def _sleep(milliseconds: float) -> None:
    if milliseconds > 0:
        time.sleep(milliseconds / 1000)
