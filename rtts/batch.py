"""Many texts to sound, several of them generated at a time."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rtts.audio import Audio
from rtts.speech import joined, spoken_text, utterances
from rtts.stream.config import Verbalise
from rtts_engine.batch import BatchStream, RowEvent
from rtts_engine.manner import Manner
from rtts_engine.model import Model
from rtts_engine.request import MAX_SEED, Settings, SpeechRequest

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

CHUNK_FRAMES = 12


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """What became of one text."""

    index: int
    """Its number, from 0."""
    seed: int
    audio: Audio | None
    """None: it could not be spoken."""
    frames: int
    stop_reason: str
    """``eos``, ``length_cap`` or ``error``."""
    error: BaseException | None


def speak_all(
    model: Model,
    texts: Iterable[str],
    how: Manner,
    settings: Settings,
    *,
    batch_size: int = 8,
    verbalise: Verbalise = "auto",
) -> Iterator[Spoken]:
    """Speak every text as ``rtts.say`` would, ``batch_size`` utterances at a time.

    The talker reads its weights once for all of them, while another thread decodes what is complete. Texts are taken as
    rows become free, and results come as they are complete, not in order.

    Args:
        model: the loaded model.
        texts: what to say; one that cannot be spoken is a result with its error, and does not stop the rest.
        how: the voice and its manner, for all.
        settings: for all; without a seed, every text draws its own.
        batch_size: the most utterances generated together.
        verbalise: as of ``rtts.say``.

    Raises:
        RequestError: ``batch_size`` is out of range.
    """
    source = _Source(model, texts, how, settings, verbalise)
    return _results(model, how, source, model.batch(source.requests(), batch_size), 2 * batch_size)


@dataclass(slots=True)
class _Text:
    """A text on its way: its utterances' codes, then their samples."""

    index: int
    seed: int
    open_parts: int = 0
    frames: int = 0
    stop_reason: str = "eos"
    error: BaseException | None = None
    samples: dict[int, Future[F32]] = field(default_factory=dict)

    def result(self, rate_hz: int) -> Spoken:
        """Waits for the samples."""
        audio = None
        if self.error is None:
            try:
                audio = joined([self.samples[part].result() for part in sorted(self.samples)], rate_hz)
            except Exception as error:
                self.error = error
        reason = self.stop_reason if self.error is None else "error"
        return Spoken(self.index, self.seed, audio, self.frames, reason, self.error)


@dataclass(slots=True)
class _Row:
    text: _Text
    part: int
    codes: list[I32] = field(default_factory=list)


class _Source:
    """Turns texts into requests when they are asked for, and remembers which row is whose."""

    def __init__(
        self, model: Model, texts: Iterable[str], how: Manner, settings: Settings, verbalise: Verbalise
    ) -> None:
        self._model = model
        self._texts = texts
        self._how = how
        self._settings = settings
        self._verbalise = verbalise
        self.rows: list[_Row] = []
        self.unfit: deque[_Text] = deque()

    def requests(self) -> Iterator[SpeechRequest]:
        for index, text in enumerate(self._texts):
            seed = self._settings.seed
            spoken = _Text(index, secrets.randbelow(MAX_SEED) if seed is None else seed)
            try:
                own = replace(self._settings, seed=spoken.seed)
                words = spoken_text(self._model, text, self._verbalise, self._how)
                parts = utterances(self._model, words, self._how, own)
            except Exception as error:
                spoken.error = error
                self.unfit.append(spoken)
                continue
            spoken.open_parts = len(parts)
            for part, request in enumerate(parts):
                self.rows.append(_Row(spoken, part))
                yield request


def _results(
    model: Model, how: Manner, source: _Source, events: BatchStream, most_waiting: int
) -> Iterator[Spoken]:
    waiting: deque[_Text] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="rtts-batch-codec")

    def decode(codes: list[I32]) -> F32:
        state = model.codec_state(how.voice)
        chunks = [codes[start : start + CHUNK_FRAMES] for start in range(0, len(codes), CHUNK_FRAMES)]
        pieces = [model.codec.decode(state, np.stack(chunk)) for chunk in chunks]
        return np.concatenate([np.zeros(0, np.float32), *pieces])

    def ended(row: _Row, event: RowEvent) -> None:
        text = row.text
        text.open_parts -= 1
        if event.error is not None:
            text.error = event.error
        else:
            text.samples[row.part] = pool.submit(decode, row.codes)
            if event.stop_reason is not None and event.stop_reason != "eos":
                text.stop_reason = event.stop_reason
        row.codes = []
        if not text.open_parts:
            waiting.append(text)

    def complete(text: _Text) -> bool:
        return all(future.done() for future in text.samples.values())

    try:
        for event in events:
            row = source.rows[event.row]
            if event.codes is not None:
                row.codes.append(event.codes)
                row.text.frames += 1
                continue
            ended(row, event)
            # Decoding may lag, but not without bound.
            while waiting and (complete(waiting[0]) or len(waiting) > most_waiting):
                yield waiting.popleft().result(model.sample_rate_hz)
            while source.unfit:
                yield source.unfit.popleft().result(model.sample_rate_hz)
        for text in (*waiting, *source.unfit):
            yield text.result(model.sample_rate_hz)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
