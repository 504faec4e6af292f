"""``rtts batch``: every line of a file to its own sound file, several generated together."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rtts.cli.options import Debug, Model, Threads
from rtts.errors import AudioError, RttsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rtts.batch import Spoken
    from rtts.stream.config import Verbalise

log = logging.getLogger(__name__)

MANIFEST = "manifest.jsonl"
LOCK = ".batch.lock"
FAILED = 1


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    """From 1."""
    text: str
    key: str
    """Of everything that decides how the line sounds: what has the same key need not be spoken again."""


def batch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="UTF-8 text, one sentence per line.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for 0001.wav and so on.")
    ],
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, max=64, metavar="N", help="Lines generated together.")
    ] = 8,
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
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Of every line. Default: one each.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest code: no sampling.")] = False,
    max_frames: Annotated[
        int | None, typer.Option("--max-frames", min=1, help="Stop each line after so many frames of 80 ms.")
    ] = None,
    threads: Threads = None,
    verbalise: Annotated[
        bool | None,
        typer.Option(
            "--verbalise/--no-verbalise",
            help="Numbers and signs in English words. Default: for models that only read words.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Speak every line of FILE to DIR/0001.wav and so on; what is there already is kept."""
    raw = _read(file)
    _check_folder(output)

    from rtts.batch import speak_all
    from rtts.cli.display import progress
    from rtts.cli.loading import load
    from rtts.speech import manner
    from rtts.stream.config import reads_words
    from rtts_engine.request import Settings
    from rtts_engine.sampling import Sampling

    loaded = load(model, threads)
    how = manner(voice, language, instruct)
    sampling = Sampling.from_defaults(loaded.manifest.config.generation)
    settings = Settings(sampling=sampling.greedy() if greedy else sampling, seed=seed, max_frames=max_frames)
    manifest = loaded.manifest
    speaker = _contents(Path(voice)) if voice is not None and voice.endswith(".safetensors") else voice
    words: Verbalise = "auto" if verbalise is None else verbalise
    # What no line can be spoken with is refused here: an earlier run's work is not given up for it.
    reads_words(manifest.config.text_normalization, words, how.language)
    loaded.prompts.plan("a", how)
    alike = [
        words,
        manifest.source_sha256,
        manifest.precision,
        speaker,
        language,
        instruct,
        seed,
        greedy,
        max_frames,
    ]
    _make(output)
    with _alone(output):
        done = _Manifest(output / MANIFEST)
        lines = list(_lines(raw, alike, done))
        todo = [line for line in lines if not done.has(line)]
        name_width = max(4, len(str(raw.count(b"\n") + 1)))
        with progress("speaking") as report:
            for count, spoken in enumerate(
                speak_all(
                    loaded,
                    [line.text for line in todo],
                    how,
                    settings,
                    batch_size=batch_size,
                    verbalise=words,
                ),
                start=1,
            ):
                line = todo[spoken.index]
                done.add(_entry(line, spoken, output / f"{line.number:0{name_width}}.wav"))
                report(f"{count} of {len(todo)} lines", count / len(todo))
        done.finish()
    print(done.path)
    if done.failed:
        raise typer.Exit(FAILED)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise RttsError(f"{file}: cannot be read ({error.strerror}); give a text file") from None


def _check_folder(output: Path) -> None:
    """Refuse what can be known to be no place for the sounds before a model is loaded."""
    folder = output if output.exists() else output.absolute().parent
    if not folder.is_dir():
        why = os.strerror(errno.ENOTDIR if folder.exists() else errno.ENOENT)
    elif not os.access(folder, os.W_OK):
        why = os.strerror(errno.EACCES)
    else:
        return
    raise AudioError(f"{output}: no folder for the sounds ({why}); give one that can be made or written")


def _make(output: Path) -> None:
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise AudioError(f"{output}: no folder for the sounds can be made here ({error.strerror})") from None


@contextlib.contextmanager
def _alone(output: Path) -> Iterator[None]:
    """Two runs at a time would write over each other's sounds."""
    from filelock import FileLock, Timeout

    path = output / LOCK
    try:
        lock = FileLock(path, timeout=0)
        lock.acquire()
    except Timeout:
        raise AudioError(
            f"{output}: another 'rtts batch' is writing here; wait for it or give another folder"
        ) from None
    except OSError as error:
        raise AudioError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _contents(voice: Path) -> str:
    return hashlib.sha256(voice.read_bytes()).hexdigest()


def _lines(raw: bytes, alike: list[Any], done: _Manifest) -> Iterator[_Line]:
    """The lines with text; one that is not UTF-8 is reported at once."""
    for number, piece in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = piece.decode("utf-8").strip()
        except UnicodeDecodeError:
            done.add({"line": number, "error": "not UTF-8 text; save the file as UTF-8"})
            continue
        if text:
            key = hashlib.sha256(json.dumps([text, *alike]).encode()).hexdigest()[:16]
            yield _Line(number, text, key)


def _entry(line: _Line, spoken: Spoken, path: Path) -> dict[str, Any]:
    """What the manifest says about a line, its sound being written first."""
    entry: dict[str, Any] = {"line": line.number, "text": line.text}
    if spoken.audio is None:
        error = spoken.error
        known = isinstance(error, RttsError)
        return entry | {"error": str(error) if known else f"unexpected {type(error).__name__}: {error}"}
    spoken.audio.write(path)
    return entry | {
        "file": path.name,
        "stop_reason": spoken.stop_reason,
        "frames": spoken.frames,
        "audio_s": round(spoken.audio.duration_s, 3),
        "seed": spoken.seed,
        "key": line.key,
    }


class _Manifest:
    """One JSON object a line, appended as soon as it is true, and put in order at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._old = self._load()
        self._entries: dict[int, dict[str, Any]] = {}

    def _load(self) -> dict[int, dict[str, Any]]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise AudioError(f"{self.path}: cannot be read ({error.strerror})") from None
        entries = {}
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                entries[int(entry["line"])] = entry
            except (ValueError, KeyError, TypeError):
                continue  # an interrupted write
        return entries

    def has(self, line: _Line) -> bool:
        """Whether an earlier run has spoken the line as it would be now."""
        entry = self._old.get(line.number, {})
        found = entry.get("key") == line.key and (self.path.parent / str(entry.get("file"))).is_file()
        if found:
            self._entries[line.number] = entry
        return found

    def add(self, entry: dict[str, Any]) -> None:
        if "error" in entry:
            log.warning("line %d: %s", entry["line"], entry["error"])
        self._entries[entry["line"]] = entry
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{_json(entry)}\n")
        except OSError as error:
            raise AudioError(f"{self.path}: cannot be written ({error.strerror})") from None

    def finish(self) -> None:
        """Leave the lines of this run, in their order."""
        from rtts_engine.files import atomic_path, reason

        try:
            with atomic_path(self.path) as temporary:
                text = "".join(f"{_json(self._entries[number])}\n" for number in sorted(self._entries))
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise AudioError(f"{self.path}: cannot be written ({reason(error)})") from None

    @property
    def failed(self) -> bool:
        return any("error" in entry for entry in self._entries.values())


def _json(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False)
