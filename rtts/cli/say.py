"""``rtts say``: one text to a file, a pipe or the sound device."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import secrets
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from rtts.cli.options import Debug, Model, Threads, check_target, require_stdout
from rtts.errors import AudioError, RequestError
from rtts_engine.config import FRAME_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rtts.cli.sinks import Sink, Write
    from rtts.speech import I32, Metrics
    from rtts.stream.config import StreamConfig, Verbalise
    from rtts.stream.session import Session
    from rtts.stream.tts import Tts
    from rtts_engine import model as engine_model
    from rtts_engine.convert import Progress as Report
    from rtts_engine.request import SpeechRequest
    from rtts_engine.sampling import Sampling

    Open = Callable[[Tts, StreamConfig], Session]

log = logging.getLogger(__name__)

CHUNK_FRAMES = 12
MAX_SECONDS = 1e6
"""More than any model speaks at a time."""
DIGITS = {"audio_s": 3, "wall_s": 3, "rtf": 4, "ttfa_ms": 1, "audible_ms": 1, "ms_per_frame": 2}
"""Decimals of the figures that ``--json`` rounds."""


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
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to say; - speaks standard input as it arrives.")
    ],
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
        str | None,
        typer.Option("--language", metavar="L", help="A language the model knows, its code, or auto."),
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
    threads: Threads = None,
    stream: Annotated[bool, typer.Option("--stream", help="Write every chunk as soon as it exists.")] = False,
    first_chunk_frames: Annotated[
        int, typer.Option("--first-chunk-frames", min=1, max=300, help="Frames in the first chunk.")
    ] = 1,
    chunk_frames: Annotated[
        int | None,
        typer.Option(
            "--chunk-frames", min=1, max=300, help="Frames in every later chunk. Default: 12; 1 to play."
        ),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON object of figures on stdout.")
    ] = False,
    verbalise: Annotated[
        bool | None,
        typer.Option(
            "--verbalise/--no-verbalise",
            help="Write numbers, signs and abbreviations out in English words. Default: where the model needs it.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Speak TEXT to a file, a pipe or the sound device."""
    if json_ and output == "-":
        raise RequestError("stdout cannot carry both --json and the sound of -o -")
    if greedy and not (temperature is top_k is top_p is None):
        raise RequestError("--greedy does not sample; leave out --temperature, --top-k and --top-p")
    if device.startswith("vulkan"):
        raise RequestError(f"--device {device}: this version computes on the CPU only; use --device cpu")
    if json_:
        require_stdout()
    limit = _frame_limit(max_frames, max_seconds)
    sinks, plays = _sinks(output, play, stream)
    if codes is not None:
        check_target(codes)
        if output is not None and codes.absolute() == Path(output).absolute():
            raise RequestError(f"-o and --codes both name {codes}; give two files")

    from rtts.cli.loading import load
    from rtts.speech import manner, spoken_text
    from rtts_engine.request import Settings, SpeechRequest

    loaded = load(model, threads)
    settings = Settings(
        text_layout=text_layout,
        sampling=_sampling(loaded, greedy, temperature, top_k, top_p, repetition_penalty),
        seed=secrets.randbits(32) if seed is None else seed,
        max_frames=limit,
    )
    words: Verbalise = "auto" if verbalise is None else verbalise
    chunks = _Chunks(first_chunk_frames, chunk_frames, plays, words)
    live = text == "-"
    how = manner(voice, language, instruct)
    request = SpeechRequest(text if live else spoken_text(loaded, text, words, how), how, settings)
    if live or _is_long(loaded, request):
        request = replace(request, text=text)

        def open_session(tts: Tts, config: StreamConfig) -> Session:
            return tts.session(
                voice,
                language,
                settings.seed,
                config,
                instruct=instruct,
                text_layout=text_layout,
                sampling=settings.sampling,
            )

        metrics, spoken = _speak_live(loaded, request, chunks, sinks, open_session, live=live)
    else:
        metrics, spoken = _speak_at_once(loaded, request, chunks, sinks)
    if metrics.stop_reason == "length_cap" and limit is None:
        log.warning("stopped after %.1f s, the limit for this text; is it all there?", metrics.audio_s)
    elif metrics.stop_reason == "silence":
        log.warning("a sentence went silent or repeated itself and was cut; another --seed may speak it")
    if codes is not None:
        _write_codes(codes, spoken)
    if json_:
        print(json.dumps(_figures(loaded, metrics, settings.seed, live=stream or play)))


class _Chunks(NamedTuple):
    first_frames: int
    frames: int | None
    plays: bool
    verbalise: Verbalise


def _speak_at_once(
    loaded: engine_model.Model, request: SpeechRequest, chunks: _Chunks, sinks: list[Sink]
) -> tuple[Metrics, I32]:
    """One utterance, as the official package would speak it. Returns its figures and codes."""
    from rtts.speech import Speech

    # A device that has got one frame needs the next one before that is over.
    frames = chunks.frames or (1 if chunks.plays else CHUNK_FRAMES)
    speech = Speech(loaded, request, first_chunk_frames=chunks.first_frames, chunk_frames=frames)
    with _opened(sinks) as (writes, report):
        for chunk in speech:
            for write in writes:
                write(chunk)
            report(f"{speech.frames * FRAME_S:.1f} s", 0.0)
    return speech.metrics(), speech.codes


def _speak_live(
    loaded: engine_model.Model,
    request: SpeechRequest,
    chunks: _Chunks,
    sinks: list[Sink],
    open_session: Open,
    *,
    live: bool,
) -> tuple[Metrics, I32]:
    """Sentence by sentence, generated while it is written. ``live``: the text comes from standard input."""
    import asyncio

    import numpy as np

    from rtts.cli.ledger import Ledger, LedgerEngine
    from rtts.cli.live import live_config, pieces_of, speak, standard_input
    from rtts.stream.engine import ModelEngine
    from rtts.stream.tts import Tts

    settings = request.settings
    ledger = Ledger(settings.max_frames)

    async def run() -> Metrics:
        # What was typed as an argument is spoken as it is; what another program writes may be markdown.
        config = live_config(
            chunks.first_frames, chunks.frames or CHUNK_FRAMES, clean_text=live, verbalise=chunks.verbalise
        )
        text = standard_input() if live else pieces_of(request.text)
        async with (
            Tts(LedgerEngine(ModelEngine(loaded), ledger), max_sessions=1) as tts,
            open_session(tts, config) as session,
        ):
            with _opened(sinks) as (writes, report):
                return await speak(session, text, writes, ledger, report)

    metrics = asyncio.run(run())
    return metrics, np.stack(ledger.codes).astype(np.int32)


def _is_long(loaded: engine_model.Model, request: SpeechRequest) -> bool:
    """Whether the speech of the text is likely to be longer than one utterance of this model can be."""
    from rtts.speech import expected_frames

    most = loaded.manifest.config.generation.max_new_tokens
    n_ids = len(loaded.tokenizer.encode_spoken(request.text))
    frames = expected_frames(loaded, request.text)
    if request.settings.max_frames is not None:
        frames = min(frames, request.settings.max_frames)
    return frames >= most or n_ids > most


@contextlib.contextmanager
def _opened(sinks: list[Sink]) -> Iterator[tuple[list[Write], Report]]:
    from rtts.cli.display import progress

    with contextlib.ExitStack() as stack:
        report = stack.enter_context(progress("speaking"))
        yield [stack.enter_context(sink) for sink in sinks], report


def _sinks(output: str | None, play: bool, stream: bool) -> tuple[list[Sink], bool]:
    """The places to write to, checked as far as that goes without writing, and whether a sound device is among them."""
    from rtts.audio import FORMATS
    from rtts.cli import sinks
    from rtts.local import load_sounddevice

    found: list[Sink] = []
    if output == "-":
        require_stdout("give a file with -o")
        found.append(sinks.raw_stdout())
    elif output is not None:
        path = Path(output)
        suffixes = (".wav",) if stream else tuple(FORMATS)
        if path.suffix.lower() not in suffixes:
            raise RequestError(f"-o {output}: the file's name must end with {' or '.join(suffixes)}")
        check_target(path)
        found.append(sinks.growing_file(path) if stream else sinks.whole_file(path))
    missing = None if play or output is not None else sinks.missing_device()
    plays = play or (output is None and missing is None)
    if plays:
        load_sounddevice()
        found.append(sinks.device())
    if not found:
        raise RequestError(f"{missing}; or write a file with -o out.wav")
    return found, plays


def _frame_limit(max_frames: int | None, max_seconds: float | None) -> int | None:
    if max_seconds is None:
        return max_frames
    if max_seconds < FRAME_S:
        raise RequestError(f"--max-seconds {max_seconds:g} is less than one frame (0.08 s)")
    frames = math.floor(min(max_seconds, MAX_SECONDS) / FRAME_S + 1e-6)  # 4.56 / 0.08 is a little below 57
    return frames if max_frames is None else min(frames, max_frames)


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
        "load_s": None if loaded.load_s is None else round(loaded.load_s, 2),
    }
