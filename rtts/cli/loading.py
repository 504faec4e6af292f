"""Finding and loading a model for a command, with its conversion or download on display."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from rtts import store
from rtts.cli.display import progress
from rtts_engine.model import Model, Threads

log = logging.getLogger(__name__)


def find(model: str | None) -> Path:
    """The directory of the model that ``--model`` names; downloaded and converted where that is needed."""
    with progress("preparing the model") as report:

        def download(repo_id: str) -> Path:
            from rtts import hub  # the hub's client takes a while to import

            hub.quiet(not sys.stderr.isatty())
            return hub.pull(repo_id, progress=report)

        return store.resolve(model, progress=report, download=download)


def load(model: str | None, threads: str | None = None) -> Model:
    """The loaded model, with the threads of ``--threads``: "AR,CODEC", or "auto"."""
    if threads is None or threads == "auto":
        return Model.load(find(model))
    ar, codec = (int(part) for part in threads.split(","))
    cores = os.cpu_count() or 1
    if ar + codec > max(2, cores):
        log.warning(
            "%d threads on %d cores wait for each other and are slower than one for each", ar + codec, cores
        )
    return Model.load(find(model), threads=Threads(ar=ar, codec=codec))
