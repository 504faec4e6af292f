"""Download of a Qwen3-TTS checkpoint from the Hugging Face hub: resumable, verified, then converted."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import HfApi, constants, errors, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

from rtts.errors import DownloadError, RttsError, UnknownModelError
from rtts.store import HUB_ID, install_path, is_whole
from rtts_engine.convert import Progress, convert
from rtts_engine.files import reason
from rtts_engine.graph.writer import Precision

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

log = logging.getLogger(__name__)

_WANTED = re.compile(r"(speech_tokenizer/)?([\w.-]+\.(json|safetensors)|merges\.txt)")
"""What a conversion reads; no pickles, no demo media."""
_READ_BYTES = 1 << 20


def pull(
    repo_id: str,
    precision: Precision = "fp32",
    *,
    progress: Progress | None = None,
) -> Path:
    """Download a checkpoint and convert it into the store; a whole model that is there already is returned as it is.

    An interrupted download goes on where it stopped. Every file is checked against the hub's checksum.

    Args:
        repo_id: ``owner/name`` on the hub (``HF_ENDPOINT``, ``HF_TOKEN`` and ``HF_HOME`` are honoured).
        precision: of the converted weights.
        progress: told about the steps.

    Returns:
        The converted model's directory.

    Raises:
        UnknownModelError: ``repo_id`` is no hub id.
        DownloadError: no such repository, no network, no space, or a damaged file.
        CheckpointError: the repository is not a Qwen3-TTS 12 Hz checkpoint.
        ModelError: the converted model cannot be written.
    """
    if not HUB_ID.fullmatch(repo_id):
        raise UnknownModelError(f"{repo_id!r}: not a hub id; expected owner/name")
    target = install_path(repo_id, precision)
    if is_whole(target):
        return target
    snapshot = download(repo_id, progress=progress)
    return convert(snapshot, target, precision, progress, repo_id)


def download(repo_id: str, *, progress: Progress | None = None) -> Path:
    """The checkpoint's files in the hub's own cache, complete and verified.

    Raises:
        DownloadError: as for ``pull``.
    """
    report = progress or (lambda _step, _fraction: None)
    endpoint = os.environ.get("HF_ENDPOINT")  # the client reads it at import only
    report("look up", 0.0)
    try:
        info = HfApi(endpoint=endpoint).model_info(repo_id, files_metadata=True, timeout=30)
        siblings = [s for s in info.siblings or () if _WANTED.fullmatch(s.rfilename)]
        if not any(sibling.rfilename == "config.json" for sibling in siblings):
            raise DownloadError(
                f"{repo_id}: no config.json in this repository; is it a Qwen3-TTS checkpoint?"
            )
        report("download", 0.0)
        snapshot = Path(
            snapshot_download(
                repo_id, revision=info.sha, allow_patterns=[s.rfilename for s in siblings], endpoint=endpoint
            )
        )
    except RttsError:
        raise
    except Exception as error:  # the client raises its HTTP library's own errors, which differ by version
        raise _explained(repo_id, error) from error
    for done, sibling in enumerate(siblings):
        report("verify", done / len(siblings))
        _verify(snapshot / sibling.rfilename, sibling)
    report("verify", 1.0)
    return snapshot


def quiet(hide: bool) -> None:
    """Hide or show the hub client's own progress bars (for the whole process)."""
    (disable_progress_bars if hide else enable_progress_bars)()


def _verify(path: Path, sibling: RepoSibling) -> None:
    """Compare a file with the hub's checksum; a damaged one is deleted, so that the next attempt fetches it."""
    try:
        size = path.stat().st_size
        if sibling.lfs is not None:
            digest, expected = hashlib.sha256(), sibling.lfs.sha256
        elif sibling.blob_id is not None:
            digest, expected = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False), sibling.blob_id
        else:
            raise DownloadError(
                f"{sibling.rfilename}: the hub gives no checksum for this file; try again later"
            )
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise DownloadError(f"{path}: cannot be read ({reason(error)}); pull again") from None
    if digest.hexdigest() != expected:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise DownloadError(
            f"{sibling.rfilename}: wrong checksum ({digest.hexdigest()[:12]}, the hub says {expected[:12]}); "
            "the file was deleted, pull again"
        )


def _explained(repo_id: str, error: Exception) -> DownloadError:
    """One line for what the hub's client raised."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for cause in causes:
        full = isinstance(cause, OSError) and cause.errno == errno.ENOSPC
        if full or "No space left" in str(cause):
            return DownloadError(
                f"{repo_id}: no space left for the download ({_free()}); free some or set HF_HOME"
            )
        if isinstance(cause, errors.GatedRepoError):
            return DownloadError(
                f"{repo_id}: access needs your consent on the hub; accept there and set HF_TOKEN"
            )
        if isinstance(cause, errors.RepositoryNotFoundError):
            return DownloadError(f"{repo_id}: no such repository on the hub (or it is private: set HF_TOKEN)")
    for cause in causes:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(status, int):
            return DownloadError(f"{repo_id}: the hub answered {status}; try again later")
    if isinstance(causes[-1], OSError) and isinstance(causes[-1], PermissionError):
        return DownloadError(f"{repo_id}: {causes[-1].filename}: cannot be written; set HF_HOME")
    detail = " ".join(str(error).split())[:160] or type(error).__name__
    return DownloadError(
        f"{repo_id}: download failed; check the network and pull again, it goes on where it stopped ({detail})"
    )


def _free() -> str:
    folder = Path(constants.HF_HUB_CACHE)
    while not folder.exists():
        folder = folder.parent
    return f"{shutil.disk_usage(folder).free / 1e9:.1f} GB free in {folder}"
