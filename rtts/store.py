"""Where models live on this machine, and how a name becomes a directory that the engine can load.

``RTTS_HOME`` moves everything into one folder; otherwise the platform's user data and cache folders are used:

- ``models/<name>/``: converted models that the user installed (``rtts pull``, ``rtts convert``)
- ``cache/<name>-<key>/``: checkpoints that were converted on first use; safe to delete
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs
from filelock import FileLock

from rtts.errors import ModelError, RttsError, StoreError, UnknownModelError
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import Progress, convert, source_hash
from rtts_engine.files import reason
from rtts_engine.graph.writer import Precision
from rtts_engine.manifest import FORMAT, LOAD_CHECK_BYTES, MANIFEST_FILE, Manifest
from rtts_engine.runtime import ncnn_version

log = logging.getLogger(__name__)

DEFAULT_MODEL = "lark"
"""The voice that ships with the project: its folder in ``models/``. The only place that names it."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""``owner/name`` on the Hugging Face hub."""
_NAME = re.compile(r"[\w-][\w.-]*")
_PACKAGE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One model that ``--model`` accepts by name."""

    name: str
    path: Path
    origin: Literal["shipped", "installed"]
    kind: str
    """``base``, ``custom_voice`` or ``voice_design``."""
    precision: str | None
    """None for a shipped checkpoint, which is converted on first use; see ``precision``."""


def models_dir() -> Path:
    """Folder of the installed models."""
    home = os.environ.get("RTTS_HOME")
    return Path(home) / "models" if home else platformdirs.user_data_path("rtts", appauthor=False) / "models"


def cache_dir() -> Path:
    """Folder of the models that were converted on first use."""
    home = os.environ.get("RTTS_HOME")
    return Path(home) / "cache" if home else platformdirs.user_cache_path("rtts", appauthor=False)


def shipped_dir() -> Path:
    """``models/`` inside the wheel, or of the checkout that this package runs from."""
    inside = _PACKAGE / "_models"
    return inside if inside.is_dir() else _PACKAGE.parent / "models"


def entries() -> list[Entry]:
    """Every model that has a name: the shipped ones, then the installed ones."""
    found = []
    for path in _folders(shipped_dir()):
        if (path / "config.json").is_file():
            kind = str(_json(path / "config.json").get("tts_model_type", "?"))
            found.append(Entry(path.name, path, "shipped", kind, None))
    for path in _folders(models_dir()):
        if (path / MANIFEST_FILE).is_file():
            data = _json(path / MANIFEST_FILE)
            kind, precision = str(data.get("kind", "?")), str(data.get("precision", "?"))
            found.append(Entry(path.name, path, "installed", kind, precision))
    return found


def precision(entry: Entry) -> str | None:
    """Of the weights that a model speaks with; None for a shipped checkpoint that was not used yet."""
    if entry.precision is not None:
        return entry.precision
    try:
        return Manifest.load(conversion(entry.path)).precision
    except RttsError:  # not there, or something is damaged, which using it will tell
        return None


def cached() -> list[Path]:
    """Folders of the conversions on first use."""
    return [path for path in _folders(cache_dir()) if (path / MANIFEST_FILE).is_file()]


def resolve(
    model: str | Path | None = None,
    *,
    progress: Progress | None = None,
    download: Callable[[str], Path] | None = None,
) -> Path:
    """The converted model directory that ``--model`` means.

    Args:
        model: a directory (converted model or checkpoint), the name of an installed model (its precision may be
            left out where one is installed), a hub id, or None for the shipped voice.
        progress: told about a conversion on first use.
        download: called with a hub id that is not installed; returns the model directory. None: an error instead.

    Raises:
        StoreError: there is no such model, or the cache cannot be written.
        CheckpointError: a checkpoint directory is unusable.
    """
    if model is not None and not isinstance(model, (str, Path)):
        raise UnknownModelError(f"model is {type(model).__name__}, expected a folder or a name")
    if model is None:
        shipped = shipped_dir() / DEFAULT_MODEL
        if not shipped.is_dir():
            raise StoreError(f"{shipped}: the shipped voice is missing; reinstall the package")
        return _converted(shipped, progress)
    name = str(model)
    if not name:
        raise UnknownModelError("the model's name is empty; leave it out for the shipped voice")
    path = Path(model)
    try:
        if path.is_dir():
            return _directory(path, progress)
    except (ValueError, OSError):  # a NUL in the name, or too many characters
        raise UnknownModelError(f"{name[:80]!r}: not a model name") from None
    match = _by_name(name)
    if match is not None:
        return match.path if match.origin == "installed" else _converted(match.path, progress)
    if HUB_ID.fullmatch(name) and download is not None:
        return download(name)
    known = ", ".join(entry.name for entry in entries()) or "none"
    advice = (
        f"run 'rtts pull {name}'" if HUB_ID.fullmatch(name) else "give a directory, a hub id or one of those"
    )
    raise UnknownModelError(f"{name}: no such model (installed: {known}); {advice}")


def install_path(name: str, precision: Precision) -> Path:
    """Where a model named ``name`` (a hub id or a folder's name) is installed.

    Raises:
        StoreError: the name cannot be a folder's name.
    """
    folder = name.replace("/", "--")
    if not _NAME.fullmatch(folder):
        raise UnknownModelError(f"{name!r}: not usable as the name of a model; give an output folder with -o")
    return models_dir() / f"{folder}-{precision}"


def _directory(path: Path, progress: Progress | None) -> Path:
    if (path / MANIFEST_FILE).is_file():
        return path
    if (path / "config.json").is_file():
        return _converted(path, progress)
    raise StoreError(
        f"{path}: neither a converted model ({MANIFEST_FILE}) nor a checkpoint (config.json); see 'rtts models'"
    )


def _by_name(name: str) -> Entry | None:
    """The one entry called ``name``, with or without its precision."""
    folder = name.replace("/", "--")
    known = entries()
    for entry in known:
        if entry.name == folder:
            return entry
    close = [entry for entry in known if entry.name == f"{folder}-{entry.precision}"]
    if len(close) > 1:
        names = ", ".join(entry.name for entry in close)
        raise UnknownModelError(f"{name}: installed in several precisions; give one of {names}")
    return close[0] if close else None


def conversion(checkpoint: Path) -> Path:
    """Where the conversion of a checkpoint is kept, once it is made on first use.

    Raises:
        StoreError, CheckpointError: the checkpoint cannot be read.
    """
    try:
        identity = source_hash(Checkpoint.open(checkpoint))
    except OSError as error:
        raise StoreError(f"{error.filename or checkpoint}: cannot be read ({reason(error)})") from None
    parts = (identity, "fp32", ncnn_version(), str(FORMAT))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return cache_dir() / f"{checkpoint.resolve().name}-{key}"


def _converted(checkpoint: Path, progress: Progress | None) -> Path:
    """The fp32 conversion of a checkpoint, made on first use; two first uses at a time convert once."""
    target = conversion(checkpoint)
    if is_whole(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f"{target.name}.lock")):
            if is_whole(target):
                return target
            if target.is_dir():  # somebody deleted files from the cache, or the disk was full
                shutil.rmtree(target)
            for leftover in target.parent.glob(f".{target.name}.*"):  # of a conversion that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            log.info("converting %s to %s", checkpoint, target)
            return convert(checkpoint, target, progress=progress)
    except OSError as error:
        raise StoreError(
            f"{cache_dir()}: cannot keep the converted model ({reason(error)}); free space or set RTTS_HOME to "
            "a folder that can be written"
        ) from None


def is_whole(target: Path) -> bool:
    """Whether a converted model is there that this version can load, with all its files,
    unchanged as far as loading it will look."""
    try:
        Manifest.load(target).verify(target, largest_bytes=LOAD_CHECK_BYTES)
    except ModelError:
        return False
    return True


def _folders(parent: Path) -> Iterator[Path]:
    try:
        yield from sorted(
            path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StoreError(f"{parent}: cannot be listed ({reason(error)})") from None


def _json(path: Path) -> dict[str, object]:
    """The object in a file, or an empty one: a listing shows damaged models too, loading names the damage."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
