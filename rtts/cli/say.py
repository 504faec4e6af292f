"""``rtts say``: one text to a file, a pipe or the sound device."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rtts.cli.options import Debug, Model
from rtts.errors import AudioError, RequestError, TextError

if TYPE_CHECKING:
    from rtts.cli.sinks import Sink
    from rtts.speech import I32, Metrics
    from rtts_engine import model as engine_model
    from rtts_engine.sampling import Sampling

log = logging.getLogger(__name__)

FRAMES_PER_SECOND = 12.5
MAX_THREADS = 256
DIGITS = {"audio_s": 3, "wall_s": 3, "rtf": 4, "ttfa_ms": 1, "audible_ms": 1, "ms_per_frame": 2}
"""Decimals of the figures that ``--json`` rounds."""


def _threads(value: str | None) -> str | None:
    if value is not None:
        parts = value.split(",")
        if len(parts) != 2 or not all(part.isdecimal() and 1 <= int(part) <= MAX_THREADS for part in parts):
            raise typer.BadParameter(f"{value!r} is not two numbers from 1 to {MAX_THREADS}, for example 1,1")
    return value


def _device(value: str) -> str:
    kind, _, index = value.partition(":")
    if kind not in ("auto", "cpu", "vulkan") or (
        ":" in value and not (kind == "vulkan" and index.isdecimal())
    ):
        raise typer.BadParameter(f"{value!r} is none of auto, cpu, vulkan and vulkan:N")
    return value


def _positive(value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise typer.BadParameter(f"{value:g} is not above 0")
    return value


def say(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads standard input.")],
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="WAV, FLAC or Ogg file; - is raw s16le on stdout."
        ),
    ] = None,
    play: Annotated[bool, typer.Option("--play", help="Play on the default sound device.")] = False,
    model: Model = None,
    voice: Annotated[
        str | None, typer.Option("--voice", metavar="V", help="A speaker's name, or VOICE.safetensors.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="L", help="A language the model knows, or auto.")
    ] = None,
    instruct: Annotated[
        str | None, typer.Option("--instruct", metavar="T", help="How to say it, for models that follow it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Makes the result reproducible.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest code: no sampling.")] = False,
    temperature: Annotated[
        float | None, typer.Option("--temperature", callback=_positive, help="Above 0.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", min=0, help="Likeliest codes kept; 0 keeps all.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", min=0.0, max=1.0, help="Probability mass kept; 1 keeps all.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option("--repetition-penalty", callback=_positive, help="1 is none.")
    ] = None,
    text_layout: Annotated[
        Literal["streaming", "full"] | None,
        typer.Option(
            "--text-layout", help="Text beside the frames, or all of it first. Default: by model kind."
        ),
    ] = None,
    max_frames: Annotated[
        int | None, typer.Option("--max-frames", min=1, help="Stop after so many frames of 80 ms.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", callback=_positive, help="Stop after so much sound.")
    ] = None,
    codes: Annotated[
        Path | None, typer.Option("--codes", metavar="FILE.npy", help="Also write the (T, 16) int32 codes.")
    ] = None,
    device: Annotated[
        str,
        typer.Option("--device", callback=_device, metavar="auto|cpu|vulkan[:N]", help="Where to compute."),
    ] = "auto",
    threads: Annotated[
        str | None,
        typer.Option("--threads", callback=_threads, metavar="AR,CODEC", help="Threads of the two stages."),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Write every chunk as soon as it exists.")] = False,
    first_chunk_frames: Annotated[
        int, typer.Option("--first-chunk-frames", min=1, max=4096, help="Frames in the first chunk.")
    ] = 1,
    chunk_frames: Annotated[
        int, typer.Option("--chunk-frames", min=1, max=4096, help="Frames in every later chunk.")
    ] = 12,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON object of figures on stdout.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Speak TEXT to a file, a pipe or the sound device."""
    if json_ and output == "-":
        raise RequestError("stdout cannot carry both --json and the sound of -o -")
    if greedy and not (temperature is top_k is top_p is None):
        raise RequestError("--greedy does not sample; leave out --temperature, --top-k and --top-p")
    if device.startswith("vulkan"):
        raise RequestError(f"--device {device}: this version computes on the CPU only; use --device cpu")
    limit = _frame_limit(max_frames, max_seconds)
    sinks = _sinks(output, play, stream)
    _check_codes(codes)
    if text == "-":
        text = _stdin()

    from rtts.cli.display import progress
    from rtts.cli.loading import load
    from rtts.speech import Speech, manner
    from rtts_engine.request import Settings, SpeechRequest

    loaded = load(model, threads)
    settings = Settings(
        text_layout=text_layout,
        sampling=_sampling(loaded, greedy, temperature, top_k, top_p, repetition_penalty),
        seed=secrets.randbits(32) if seed is None else seed,
        max_frames=limit,
    )
    request = SpeechRequest(text, manner(voice, language, instruct), settings)
    speech = Speech(loaded, request, first_chunk_frames=first_chunk_frames, chunk_frames=chunk_frames)
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(progress("speaking"))
        writes = [stack.enter_context(sink) for sink in sinks]
        for chunk in speech:
            for write in writes:
                write(chunk)
            report(f"{speech.frames / FRAMES_PER_SECOND:.1f} s", 0.0)
    metrics = speech.metrics()
    if metrics.stop_reason == "length_cap" and limit is None:
        log.warning("stopped after %.1f s, the limit for this text; is it all there?", metrics.audio_s)
    if codes is not None:
        _write_codes(codes, speech.codes)
    if json_:
        print(json.dumps(_figures(loaded, metrics, settings.seed, live=stream or play)))


def _sinks(output: str | None, play: bool, stream: bool) -> list[Sink]:
    """The places to write to, checked as far as that goes without writing."""
    from rtts.audio import FORMATS
    from rtts.cli import sinks

    found: list[Sink] = []
    if output == "-":
        found.append(sinks.raw_stdout())
    elif output is not None:
        path = Path(output)
        suffixes = (".wav",) if stream else tuple(FORMATS)
        if path.suffix.lower() not in suffixes:
            raise RequestError(f"-o {output}: the file's name must end with {' or '.join(suffixes)}")
        if not path.parent.is_dir():
            raise AudioError(f"{path.parent}: no such folder; make it first")
        found.append(sinks.growing_file(path) if stream else sinks.whole_file(path))
    if play or (output is None and sinks.has_device()):
        sinks.load_sounddevice()
        found.append(sinks.device())
    if not found:
        raise RequestError("there is no sound device here; write a file with -o out.wav")
    return found


def _check_codes(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise AudioError(f"{path.parent}: no such folder; make it first")


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"standard input is not UTF-8 text (byte {error.start}); convert it first") from None


def _frame_limit(max_frames: int | None, max_seconds: float | None) -> int | None:
    limits = [
        limit for limit in (max_frames, max_seconds and math.floor(max_seconds * FRAMES_PER_SECOND)) if limit
    ]
    if max_seconds is not None and max_seconds * FRAMES_PER_SECOND < 1:
        raise RequestError(f"--max-seconds {max_seconds:g} is less than one frame (0.08 s)")
    return min(limits) if limits else None


def _sampling(
    loaded: engine_model.Model,
    greedy: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    repetition_penalty: float | None,
) -> Sampling:
    """The model's own rules with what the command line changes; the code predictor's stay, but for ``--greedy``."""
    from rtts_engine.sampling import Sampling

    rules = Sampling.from_defaults(loaded.manifest.config.generation).with_talker(
        temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=repetition_penalty
    )
    return rules.greedy() if greedy else rules


def _write_codes(path: Path, codes: I32) -> None:
    import numpy as np

    from rtts_engine.files import atomic_path, reason

    try:
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, codes)
    except OSError as error:
        raise AudioError(f"{path}: cannot be written ({reason(error)})") from None


def _figures(
    loaded: engine_model.Model, metrics: Metrics, seed: int | None, *, live: bool
) -> dict[str, object]:
    """The object that ``--json`` prints. Nobody listens while a file is written offline: no underruns then."""
    from rtts_engine.runtime import ncnn_version

    figures = asdict(metrics)
    if not live:
        figures["underruns"] = 0
    for name, digits in DIGITS.items():
        if figures[name] is not None:
            figures[name] = round(figures[name], digits)
    return figures | {
        "seed": seed,
        "sample_rate": loaded.sample_rate_hz,
        "model": loaded.manifest.name,
        "engine": f"ncnn {ncnn_version()}",
        "precision": loaded.manifest.precision,
        "threads": {"ar": loaded.threads.ar, "codec": loaded.threads.codec},
    }
