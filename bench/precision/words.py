"""Words that an independent recogniser misses, with the same sentences, speakers and seeds in every precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.voice import rates, recipe
from rtts_engine.manner import Manner
from rtts_engine.model import Model
from rtts_engine.request import Settings, SpeechRequest

STREAMS = 16


def texts(count: int) -> dict[int, str]:
    """So many of the held-out sentences, spread over all kinds, by line."""
    lines = recipe.sentences()
    every = len(lines) / count
    return {line: lines[line][1] for line in (int(i * every) for i in range(count))}


def count_errors(model: Model, sentences: Mapping[int, str]) -> list[rates.Count]:
    """(line, errors, words) of each sentence, spoken in the model's own way of sampling with its line as the seed."""
    speakers = model.manifest.speakers
    lines = list(sentences)
    requests = (
        SpeechRequest(sentences[line], Manner(speaker=speakers[line % len(speakers)]), Settings(seed=line))
        for line in lines
    )
    frames: dict[int, list[Any]] = {row: [] for row in range(len(lines))}
    for event in model.batch(requests, STREAMS):
        if event.error is not None:
            raise event.error
        if event.codes is not None:
            frames[event.row].append(event.codes)
    recogniser = recipe.Recogniser(threads=1)
    counts = []
    for row, line in enumerate(lines):
        samples = model.codec.decode(model.codec_state(), np.array(frames[row], np.int32).reshape(-1, 16))
        counts.append((line, *recipe.errors(sentences[line], recogniser.hear(samples))))
        if (row + 1) % 20 == 0:
            print(f"  {row + 1} clips", flush=True)
    return counts


def measure(models: Mapping[str, Path], sentences: Mapping[int, str]) -> dict[str, Any]:
    """Rates of every precision, and their differences from fp32 over the same sentences."""
    counts = {}
    for precision, path in models.items():
        print(f"words: {precision}", flush=True)
        counts[precision] = count_errors(Model.load(path), sentences)
    out: dict[str, Any] = {}
    for precision, own in counts.items():
        middle, low, high, _ = rates.difference(own, counts["fp32"])
        out[precision] = asdict(rates.rate(own)) | {
            "against_fp32": {"difference": round(middle, 5), "low": round(low, 5), "high": round(high, 5)}
        }
    return out
