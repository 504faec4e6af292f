"""Offline speech: one request in, sound out, in the caller's thread."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts import store
from rtts.audio import SAMPLE_RATE_HZ, Audio
from rtts.errors import RequestError
from rtts.notices import check_instruct, check_reach
from rtts.stream.config import StreamConfig, Verbalise, reads_words
from rtts.stream.dispatch import sentence_seed
from rtts.stream.engine import FRAMES_PER_TEXT_ID
from rtts.text.segment import Segmenter, SegmenterConfig
from rtts.text.verbalise import verbalise as in_words
from rtts_engine.codec import CodecState
from rtts_engine.manner import Manner, TextLayout
from rtts_engine.model import Model, Threads
from rtts_engine.request import MAX_SEED, Settings, SpeechRequest
from rtts_engine.sampling import Sampling
from rtts_engine.tokenizer import check_text
from rtts_engine.voice import Voice

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

AUDIBLE = 0.01
"""-40 dB of full scale: speech below it is taken for silence."""


def load(model: str | Path | None = None, *, threads: Threads | None = None) -> Model:
    """Load a model to speak with more than once.

    Args:
        model: a directory, an installed name or hub id; None is the voice that ships with the project.
        threads: of the autoregressive part and of the codec; None is one each, and more of them for a large model on
            more than two cores where a short measurement says that they pay.

    Raises:
        RuntimeSetupError: this machine or its ncnn wheel cannot run the engine.
        StoreError: there is no such model.
        CheckpointError, ModelError: the model is damaged or of an unsupported kind.
    """
    if threads is not None and not isinstance(threads, Threads):
        raise RequestError(
            f"threads is {threads!r:.60}, expected Threads, for example Threads(ar=1, codec=1)"
        )
    return Model.load(store.resolve(model), threads=threads)


def say(
    text: str,
    *,
    model: Model | str | Path | None = None,
    voice: str | Path | Voice | None = None,
    language: str | None = None,
    instruct: str | None = None,
    text_layout: TextLayout | None = None,
    sampling: Sampling | None = None,
    seed: int | None = None,
    max_frames: int | None = None,
    verbalise: Verbalise = "auto",
) -> Audio:
    """Speak a text and return the sound.

    A text that is likely to be longer than one utterance of the model can be is spoken sentence by sentence, unless
    ``max_frames`` asks for one.

    Every call with a name or None loads the model anew; ``load`` it once to speak often.

    Args:
        text: what to say.
        model: a loaded model, or what ``load`` takes.
        voice: a speaker's name, the path of a saved voice, or a voice; None leaves the choice to
            the model.
        language: a name the model knows or its code ("en"), or "auto".
        instruct: manner of speaking, for models that take one.
        text_layout: "streaming" or "full"; None is the model kind's default.
        sampling: how codes are chosen; None is the model's own default.
        seed: makes the result reproducible; None draws one.
        max_frames: stop after so many frames of 80 ms; None follows from the length of the text.
        verbalise: write numbers, signs and abbreviations out in English words first; "auto" does for models that
            only read words.

    Raises:
        TextError: nothing to say, or text that is not text.
        RequestError, VoiceError: an argument the model cannot follow.
        RttsError: as for ``load``.
    """
    loaded = model if isinstance(model, Model) else load(model)
    settings = Settings(text_layout=text_layout, sampling=sampling, seed=seed, max_frames=max_frames)
    if settings.seed is None:
        settings = replace(settings, seed=secrets.randbelow(MAX_SEED))
    how = manner(voice, language, instruct)
    requests = utterances(loaded, spoken_text(loaded, text, verbalise, how), how, settings)
    spoken = [np.concatenate([np.zeros(0, np.float32), *Speech(loaded, one)]) for one in requests]
    return joined(spoken, loaded.sample_rate_hz)


def joined(utterances: Sequence[F32], rate_hz: int) -> Audio:
    """The sound of a text's utterances, with a pause between two."""
    gap = np.zeros(round(StreamConfig().sentence_gap_s * rate_hz), np.float32)
    pieces = [piece for samples in utterances for piece in (gap, samples)][1:]
    return Audio(np.concatenate([np.zeros(0, np.float32), *pieces]), rate_hz)


def spoken_text(model: Model, text: str, verbalise: Verbalise, how: Manner) -> str:
    """The text as the model gets it: in words where it only reads words. Warns of what the model cannot do.

    Raises:
        TextError: the text is no string.
        RequestError: English words were asked for in another language.
    """
    check_text(text)
    check_reach(text, model.manifest.languages)
    check_instruct(how.instruct, model.manifest.config)
    words = reads_words(model.manifest.config.text_normalization, verbalise, how.language)
    return in_words(text) if words else text


def expected_frames(model: Model, text: str) -> int:
    """A guess at how long a text's speech is; an utterance may have ``max_new_tokens`` frames."""
    return FRAMES_PER_TEXT_ID * len(model.tokenizer.encode_spoken(text))


def utterances(model: Model, text: str, how: Manner, settings: Settings) -> list[SpeechRequest]:
    """A request for the text, or one a sentence when it is longer than one utterance of this model can be.

    ``settings`` has a seed, from which each sentence gets its own, and its ``max_frames`` asks for one utterance.
    """
    assert settings.seed is not None
    parts = [text]
    most = model.manifest.config.generation.max_new_tokens
    if settings.max_frames is None and expected_frames(model, text) >= most:
        segmenter = Segmenter(SegmenterConfig(first_min_words=None))
        segments = [*segmenter.feed(text, 0.0), *segmenter.close()]
        parts = [segment.text for segment in segments if any(c.isalnum() for c in segment.text)] or parts
    seeds = (sentence_seed(settings.seed, index) for index in range(len(parts)))
    return [
        SpeechRequest(part, how, replace(settings, seed=seed))
        for part, seed in zip(parts, seeds, strict=True)
    ]


def manner(
    voice: str | Path | Voice | None, language: str | None = None, instruct: str | None = None
) -> Manner:
    """How to speak, where ``voice`` is a speaker's name, a voice, or the file that holds one.

    Raises:
        VoiceError: the file is missing or damaged.
    """
    if isinstance(voice, Path) or (isinstance(voice, str) and voice.endswith(".safetensors")):
        voice = Voice.load(Path(voice))
    if isinstance(voice, Voice):
        return Manner(language=language, voice=voice.prompt, instruct=instruct)
    return Manner(language=language, speaker=voice, instruct=instruct)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What one utterance took. Times count from the call, the model being loaded."""

    stop_reason: str
    """Why generation ended: ``eos``, ``length_cap`` or ``cancelled``."""
    frames: int
    audio_s: float
    wall_s: float
    """Until the last chunk existed."""
    rtf: float | None
    """Processing time (without what the consumer did with the chunks) / audio time; None without audio."""
    ttfa_ms: float | None
    """Until the first samples existed."""
    audible_ms: float | None
    """Until a listener who plays from the first samples on hears more than -40 dB."""
    ms_per_frame: float | None
    underruns: int
    """How often that listener would have run out of samples."""


class Speech:
    """One utterance: iterate once over its chunks of sound, then ask for codes and metrics."""

    def __init__(
        self, model: Model, request: SpeechRequest, *, first_chunk_frames: int = 1, chunk_frames: int = 12
    ) -> None:
        """Nothing is computed before the first chunk is asked for.

        Args:
            model: the loaded model.
            request: what to say and how.
            first_chunk_frames: frames of 80 ms in the first chunk.
            chunk_frames: frames in every later one.

        Raises:
            RequestError: a chunk would have no frame.
        """
        if first_chunk_frames < 1 or chunk_frames < 1:
            raise RequestError(
                f"chunks of {first_chunk_frames} and {chunk_frames} frames; expected at least 1"
            )
        self._model = model
        self._request = request
        self._first_chunk_frames = first_chunk_frames
        self._chunk_frames = chunk_frames
        self._frames: list[I32] = []
        self._chunks: list[tuple[float, int]] = []
        self._first_audible: int | None = None
        self._start_s: float | None = None
        self._end_s: float | None = None
        self._outside_s = 0.0
        self._stop_reason = "cancelled"

    def __iter__(self) -> Iterator[F32]:
        """Chunks of (n,) float32 at 24 kHz, as soon as each exists.

        Raises:
            RequestError: it was iterated before; ModelError and others as ``Model.frames``.
        """
        if self._start_s is not None:
            raise RequestError("this utterance was spoken already; make a new Speech to speak it again")
        self._start_s = time.perf_counter()
        stream = self._model.frames(self._request)
        state = self._model.codec_state(self._request.manner.voice)
        wanted = self._first_chunk_frames
        waiting: list[I32] = []
        try:
            for frame in stream:
                waiting.append(frame)
                if len(waiting) == wanted:
                    yield from self._chunk(state, waiting)
                    waiting, wanted = [], self._chunk_frames
            self._stop_reason = stream.stop_reason or "cancelled"
            if waiting:
                yield from self._chunk(state, waiting)
        finally:
            stream.cancel()
            self._end_s = time.perf_counter()

    def _chunk(self, state: CodecState, frames: list[I32]) -> Iterator[F32]:
        """The samples of ``frames``; what the consumer does with them is not our time."""
        samples = self._model.codec.decode(state, np.stack(frames))
        if self._first_audible is None:
            loud = np.flatnonzero(np.abs(samples) >= AUDIBLE)
            if loud.size:
                self._first_audible = sum(count for _, count in self._chunks) + int(loud[0])
        self._frames += frames
        made_s = time.perf_counter()
        self._chunks.append((made_s, len(samples)))
        try:
            yield samples
        finally:
            self._outside_s += time.perf_counter() - made_s

    @property
    def frames(self) -> int:
        """Number of frames so far."""
        return len(self._frames)

    @property
    def codes(self) -> I32:
        """(T, 16) int32 of the frames so far."""
        return np.stack(self._frames).astype(np.int32) if self._frames else np.zeros((0, 16), np.int32)

    def metrics(self) -> Metrics:
        """Figures of the utterance; before its chunks are exhausted, of what there is so far."""
        end_s = time.perf_counter() if self._end_s is None else self._end_s
        start_s = end_s if self._start_s is None else self._start_s
        last_s = self._chunks[-1][0] if self._chunks else end_s
        samples = sum(count for _, count in self._chunks)
        audio_s = samples / SAMPLE_RATE_HZ
        work_s = end_s - start_s - self._outside_s
        ttfa_ms = (self._chunks[0][0] - start_s) * 1e3 if self._chunks else None
        audible_ms = None
        if ttfa_ms is not None and self._first_audible is not None:
            audible_ms = ttfa_ms + self._first_audible / SAMPLE_RATE_HZ * 1e3
        return Metrics(
            stop_reason=self._stop_reason,
            frames=len(self._frames),
            audio_s=audio_s,
            wall_s=last_s - start_s,
            rtf=work_s / audio_s if audio_s else None,
            ttfa_ms=ttfa_ms,
            audible_ms=audible_ms,
            ms_per_frame=work_s * 1e3 / len(self._frames) if self._frames else None,
            underruns=count_underruns(self._chunks),
        )


def count_underruns(chunks: list[tuple[float, int]]) -> int:
    """Chunks that came after everything before them had been played.

    Args:
        chunks: time of arrival in seconds and number of samples of each; playing starts with the first.
    """
    underruns = 0
    dry_s = 0.0
    for index, (arrival_s, samples) in enumerate(chunks):
        if index and arrival_s > dry_s:
            underruns += 1
        dry_s = max(dry_s, arrival_s) + samples / SAMPLE_RATE_HZ
    return underruns
