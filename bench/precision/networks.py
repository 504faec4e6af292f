"""Every network of a model in one precision, fed with what fp32 said: hidden states, logits, codes, sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.precision import figures
from rtts_engine.config import TransformerConfig
from rtts_engine.manner import Manner
from rtts_engine.model import Model
from rtts_engine.positions import causal_mask, rope_frequencies, rope_tables
from rtts_engine.request import Settings, SpeechRequest
from rtts_engine.runtime import EMPTY
from rtts_engine.sampling import FirstCode, Sampling
from rtts_engine.stack import Stack

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Script:
    """One sentence: how it is asked for, and the frames that fp32 spoke."""

    text: str
    speaker: str
    codes: I32
    """(n, groups), greedy."""


@dataclass
class Seen:
    """What a model said of all scripts, with fp32's codes given to it."""

    talker_layers: list[F32] = field(default_factory=list)
    """Rows after each layer, prompts included; the last are final-normed."""
    talker_logits: F32 = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(frames, vocab): of each frame's first code."""
    talker_hidden: F32 = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """(frames, D): what the code predictor is given."""
    predictor_layers: list[F32] = field(default_factory=list)
    """As the talker's, with the hidden states of fp32 given."""
    predictor_logits: F32 = field(default_factory=lambda: np.zeros((0, 0, 0), np.float32))
    """(groups - 1, frames, C), likewise."""
    choices: I32 = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    """(frames, groups): the greedy codes, each given those before it, with the model's own hidden states."""
    free: list[I32] = field(default_factory=list)
    """Greedy codes of each script when nothing is given."""
    samples: list[F32] = field(default_factory=list)
    """Sound of each script's codes."""


def greedy(model: Model) -> Sampling:
    """The largest score, without a memory: what a network says, not what the rules around it make of it."""
    return replace(Sampling.from_defaults(model.manifest.config.generation).greedy(), repetition_penalty=1.0)


def speak(model: Model, text: str, speaker: str, frames: int) -> I32:
    """Greedy codes (n, groups) of a sentence, at most ``frames``."""
    settings = Settings(sampling=greedy(model), seed=0, max_frames=frames)
    stream = model.frames(SpeechRequest(text, Manner(speaker=speaker), settings))
    return np.array(list(stream), np.int32).reshape(-1, model.manifest.config.talker.num_code_groups)


def whole(
    stack: Stack, config: TransformerConfig, rows: F32, outputs: Sequence[str]
) -> tuple[list[F32], list[F32]]:
    """Rows (n, width) from position 0 in one pass: the rows after each layer, and ``outputs`` of all rows."""
    cos, sin = rope_tables(np.arange(len(rows)), rope_frequencies(config.head_dim, config.rope_theta))
    past = [f"p{kind}{i}" for i in range(config.num_layers) for kind in "kv"]
    run = stack._net.start()
    run.feed(
        {
            "x": rows,
            "mask": causal_mask(len(rows), 0),
            "cos": cos,
            "sin": sin,
            "pick": np.eye(len(rows), dtype=np.float32),
        }
    )
    run.feed(dict.fromkeys(past, EMPTY))
    names = [f"h{i}" for i in range(config.num_layers - 1)] + ["top"]
    return [run.array(name) for name in names], [run.array(name) for name in outputs]


def look(model: Model, scripts: Sequence[Script], exact: Seen | None, frames: int) -> Seen:
    """Everything that is compared. ``exact``: what fp32 said; None for fp32 itself."""
    config, seen = model.manifest.config.talker, Seen()
    layers: list[list[F32]] = [[] for _ in range(config.stack.num_layers)]
    logits, hidden = [], []
    for script in scripts:
        count = len(script.codes)
        prompt = model.prompts.build(script.text, Manner(speaker=script.speaker))
        text = np.concatenate([prompt.trailing, np.repeat(prompt.pad[None], count, axis=0)])[: count - 1]
        rows = np.concatenate([prompt.rows, model.tables.frames(script.codes[:-1]) + text])
        states, (last, scores) = whole(model.talker._stack, config.stack, rows, ["hidden", "logits"])
        for layer, values in zip(layers, [*states[:-1], last], strict=True):
            layer.append(values)
        logits.append(scores[-count:])
        hidden.append(last[-count:])
    seen.talker_layers = [np.concatenate(layer) for layer in layers]
    seen.talker_logits, seen.talker_hidden = np.concatenate(logits), np.concatenate(hidden)
    codes = np.concatenate([script.codes for script in scripts])
    given = seen.talker_hidden if exact is None else exact.talker_hidden
    seen.predictor_layers, seen.predictor_logits = predict(model, given, codes)
    own = seen.predictor_logits if exact is None else predict(model, seen.talker_hidden, codes)[1]
    rules, starts = FirstCode(config, greedy(model)), [len(script.codes) for script in scripts]
    places = np.concatenate([np.arange(count) for count in starts])
    firsts = [
        int(rules.process(row, at).argmax()) for row, at in zip(seen.talker_logits, places, strict=True)
    ]
    seen.choices = np.stack([np.array(firsts), *own.argmax(axis=2)], axis=1).astype(np.int32)
    seen.free = [speak(model, script.text, script.speaker, frames) for script in scripts]
    seen.samples = [model.codec.decode(model.codec_state(), script.codes) for script in scripts]
    return seen


def predict(model: Model, hidden: F32, codes: I32) -> tuple[list[F32], F32]:
    """The code predictor's rows after each layer, and its logits (groups - 1, frames, C), frame by frame."""
    config = model.manifest.config.talker
    groups = config.num_code_groups
    layers: list[list[F32]] = [[] for _ in range(config.predictor.stack.num_layers)]
    logits = []
    for state, frame in zip(hidden, codes, strict=True):
        rows = np.empty((groups, len(state)), np.float32)
        rows[0], rows[1] = state, model.tables.codec(frame[:1])[0]
        for s in range(groups - 2):
            model.tables.write_acoustic(s, frame[s + 1 : s + 2], rows[s + 2 : s + 3])
        names = [f"logits{s}" for s in range(groups - 1)]
        states, scores = whole(model.predictor._stack, config.predictor.stack, rows, names)
        for layer, values in zip(layers, states, strict=True):
            layer.append(values)
        logits.append([scores[s][s + 1] for s in range(groups - 1)])
    return [np.concatenate(layer) for layer in layers], np.array(logits, np.float32).transpose(1, 0, 2)


def compare(exact: Seen, other: Seen, scripts: Sequence[Script]) -> dict[str, Any]:
    """The figures of one precision."""
    codes = [script.codes for script in scripts]
    spoken = sum(max(len(a), len(b)) for a, b in zip(exact.free, other.free, strict=True))
    free = sum(figures.equal_frames(a, b) for a, b in zip(exact.free, other.free, strict=True))
    talker = [figures.cosines(a, b) for a, b in zip(exact.talker_layers, other.talker_layers, strict=True)]
    predictor = [
        figures.cosines(a, b) for a, b in zip(exact.predictor_layers, other.predictor_layers, strict=True)
    ]
    kl = figures.divergences(exact.talker_logits, other.talker_logits)
    heads = [
        float(figures.divergences(a, b).mean())
        for a, b in zip(exact.predictor_logits, other.predictor_logits, strict=True)
    ]
    return {
        "talker_cosine": [round(float(layer.mean()), 7) for layer in talker],
        "talker_cosine_least": round(float(min(layer.min() for layer in talker)), 6),
        "talker_kl": round(float(kl.mean()), 6),
        "talker_kl_p99": round(float(np.percentile(kl, 99)), 6),
        "predictor_cosine": [round(float(layer.mean()), 7) for layer in predictor],
        "predictor_cosine_least": round(float(min(layer.min() for layer in predictor)), 6),
        "predictor_kl": [round(value, 6) for value in heads],
        "equal_frames": round(figures.equal_frames(exact.choices, other.choices) / len(exact.choices), 4),
        "equal_codes": round(float((exact.choices == other.choices).mean()), 4),
        "equal_first_codes": round(float((exact.choices[:, 0] == other.choices[:, 0]).mean()), 4),
        "free_running_equal_frames": round(free / max(spoken, 1), 4),
        "free_running_frames_until_different": [
            figures.first_difference(a, b) for a, b in zip(exact.free, other.free, strict=True)
        ],
        "codec_snr_db": round(
            figures.snr_db(np.concatenate(exact.samples), np.concatenate(other.samples)), 2
        ),
        "frames": sum(map(len, codes)),
    }
