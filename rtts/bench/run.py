"""One benchmark by name, on a model that is loaded for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rtts import speech
from rtts.bench import barge_in, codec, latency, long, plots, throughput
from rtts.bench.rig import LONG
from rtts.errors import RequestError
from rtts.stream.engine import ModelEngine
from rtts.stream.tts import Tts
from rtts_engine.model import Model

Name: TypeAlias = Literal["latency", "throughput", "long", "codec", "barge-in"]
PLOTS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "latency": plots.latency,
    "throughput": plots.throughput,
    "long": plots.long,
    "codec": plots.codec,
    "barge-in": plots.barge_in,
}


def run(
    name: Name,
    model: Model,
    *,
    text: str | None = None,
    quick: bool = False,
    tell: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Measure. Returns figures as plain values, the model's name and precision among them.

    Args:
        name: which benchmark.
        model: loaded; all but codec need one that speaks without a voice from outside.
        text: what ``throughput`` and ``long`` speak instead of their own.
        quick: a few runs only.
        tell: is given a line for people as soon as it is known.

    Raises:
        RequestError: the model cannot speak without a voice.
    """
    about = {
        "model": model.manifest.name,
        "precision": model.manifest.precision,
        "load_s": None if model.load_s is None else round(model.load_s, 2),
    }
    if name == "codec":
        return about | codec.measure(model, quick=quick, tell=tell)
    if model.manifest.kind == "base":
        raise RequestError(
            f"{model.manifest.name} speaks only with a cloned voice; measure its codec instead"
        )
    return about | asyncio.run(_streamed(name, model, text, quick, tell))


async def _streamed(
    name: Name, model: Model, text: str | None, quick: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    user = None
    if name == "barge-in":
        speakers = model.manifest.speakers
        user = speech.say(
            barge_in.USER, model=model, voice=speakers[-1] if speakers else None, seed=2
        ).samples
    engine = long.OrdinaryLength(model) if name == "long" else ModelEngine(model)
    async with Tts(engine) as tts:
        await tts.warm_up()
        assert tts.warm_up_s is not None  # no Base model comes here
        about = {"warm_up_s": round(tts.warm_up_s, 2)}
        if user is not None:
            return about | await barge_in.measure(tts, user, interruptions=5 if quick else 30, tell=tell)
        if name == "long":
            return about | await long.measure(tts, text=text or long.TEXT, quick=quick, tell=tell)
        if name == "throughput":
            return about | await throughput.measure(tts, text=text or LONG, quick=quick, tell=tell)
        return about | await latency.measure(tts, quick=quick, tell=tell)
