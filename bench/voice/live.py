"""What needs a running session or a clock: that streams give the judged samples, joins of sentences, speed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

import rtts
from bench.voice import recipe, sound
from rtts.stream.config import TextMode
from rtts.stream.dispatch import sentence_seed
from rtts.stream.tts import Tts
from rtts_engine.manner import Manner, TextLayout
from rtts_engine.model import Model, Threads
from rtts_engine.request import Settings, SpeechRequest

I16 = npt.NDArray[np.int16]
F32 = npt.NDArray[np.float32]

PIECE = 5
"""Characters that are fed at a time."""
GAP = round(rtts.StreamConfig().sentence_gap_s * 24000)
ROUNDING = 1.5 / 32767
"""Sessions hand out 16-bit samples."""
LOADS = 7


@dataclass(frozen=True, slots=True)
class Turn:
    """Text for a session, and the requests whose sounds it should give."""

    text: str
    speaker: str
    seed: int
    token_mode: bool

    @property
    def sentences(self) -> list[str]:
        """What is spoken as one utterance each."""
        return [self.text] if self.token_mode else self.text.split("\n")


def turns(speakers: list[str], count: int) -> Iterator[Turn]:
    """Single sentences in token mode, and texts of three sentences in sentence mode, ``count`` of each."""
    plain = [text for kind, text in recipe.sentences() if kind in ("plain", "question")]
    every = [text for _, text in recipe.sentences()]
    for index in range(count):
        speaker = speakers[index % len(speakers)]
        yield Turn(every[index * len(every) // count], speaker, index, token_mode=True)
        yield Turn("\n".join(plain[3 * index : 3 * index + 3]), speaker, index, token_mode=False)


def engine_sound(model: Model, text: str, speaker: str, seed: int, layout: TextLayout) -> F32:
    """The samples of one utterance as the evaluation makes them."""
    request = SpeechRequest(text, Manner(speaker=speaker), Settings(text_layout=layout, seed=seed))
    codes = np.array(list(model.frames(request)), np.int32).reshape(-1, 16)
    return model.codec.decode(model.codec_state(), codes) if len(codes) else np.zeros(0, np.float32)


async def session_sound(tts: Tts, turn: Turn) -> tuple[I16, float | None]:
    """The samples of a turn fed in pieces, and its RTF: time of the slower stage over the length of the sound."""
    mode: TextMode = "token" if turn.token_mode else "sentence"
    config = rtts.StreamConfig(text_mode=mode, max_buffered_s=3600.0, verbalise=False)
    async with tts.session(turn.speaker, seed=turn.seed, config=config) as session:
        for start in range(0, len(turn.text), PIECE):
            session.feed(turn.text[start : start + PIECE])
            await asyncio.sleep(0)
        session.end()
        chunks = [chunk.samples async for chunk in session]
        assert session.done is not None
        return np.concatenate([np.zeros(0, np.int16), *chunks]), session.done.metrics.rtf


async def compare(model: Model, count: int) -> dict[str, Any]:
    """Sessions against the engine path, and clicks where sentences are joined."""
    equal = {"token": 0, "sentence": 0}
    largest = 0.0
    joins = 0
    clicks: list[str] = []
    rtfs: list[float] = []
    async with rtts.open(model) as tts:
        for turn in turns(list(model.manifest.speakers), count):
            got, rtf = await session_sound(tts, turn)
            if rtf is not None:
                rtfs.append(rtf)
            layout: TextLayout = "streaming" if turn.token_mode else "full"
            parts = [
                engine_sound(model, text, turn.speaker, sentence_seed(turn.seed, index), layout)
                for index, text in enumerate(turn.sentences)
            ]
            pieces = [parts[0]]
            for part in parts[1:]:
                pieces += [np.zeros(GAP, np.float32), part]
            want = np.concatenate(pieces)
            if len(got) == len(want):
                off = float(np.abs(got / 32767 - np.clip(want, -1, 1)).max(initial=0.0))
                largest = max(largest, off)
                equal["token" if turn.token_mode else "sentence"] += off <= ROUNDING
            borders = np.cumsum([len(piece) for piece in pieces])[:-1].tolist()
            joins += len(borders)
            for position in sound.clicks(got.astype(np.float32) / np.float32(32767), borders):
                clicks.append(f"{turn.text[:40]!r} at {position}")
    return {
        "turns_each": count,
        "equal": equal,
        "largest_difference": largest,
        "sentence_joins": joins,
        "sentence_join_clicks": clicks,
        "session_rtf": round(median(rtfs), 4) if rtfs else None,
    }


def speed(path: Path) -> dict[str, Any]:
    """Load time, and RTF of both stages one after the other and of the slower one, fp32 with one thread each.

    CPU seconds are given beside wall seconds: a busy machine stretches the wall only.
    """
    loads: list[tuple[float, float]] = []
    model: Model | None = None
    for _ in range(LOADS):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        model = Model.load(path, threads=Threads(ar=1, codec=1))
        loads.append((time.perf_counter() - wall_s, time.process_time() - cpu_s))
    assert model is not None
    speaker = model.manifest.speakers[0]
    texts = [text for kind, text in recipe.sentences() if kind != "word"][::15]
    rows: list[tuple[float, float, float, float, float]] = []
    for text in texts:
        request = SpeechRequest(text, Manner(speaker=speaker), Settings(seed=0))
        start_wall_s, start_cpu_s = time.perf_counter(), time.process_time()
        codes = np.array(list(model.frames(request)), np.int32).reshape(-1, 16)
        middle_wall_s, middle_cpu_s = time.perf_counter(), time.process_time()
        samples = model.codec.decode(model.codec_state(), codes)
        audio_s = len(samples) / 24000
        rows.append(
            (
                (middle_wall_s - start_wall_s) / audio_s,
                (time.perf_counter() - middle_wall_s) / audio_s,
                (middle_cpu_s - start_cpu_s) / audio_s,
                (time.process_time() - middle_cpu_s) / audio_s,
                (time.perf_counter() - start_wall_s) / audio_s,
            )
        )
    names = ("talker_wall", "codec_wall", "talker_cpu", "codec_cpu", "one_after_the_other_wall")
    return {
        "precision": model.manifest.precision,
        "threads_per_stage": 1,
        "utterances": len(rows),
        "rtf": {name: round(median(row[i] for row in rows), 4) for i, name in enumerate(names)},
        "load_wall_s": round(median(wall for wall, _ in loads), 3),
        "load_cpu_s": round(median(cpu for _, cpu in loads), 3),
        "first_load_wall_s": round(loads[0][0], 3),
    }
