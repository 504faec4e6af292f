"""What the official package computed for generated checkpoints, so that the ordinary tests need no torch.

    golden = load("tiny-base")
    checkpoint = golden.write_checkpoint(tmp_path)      # fails clearly when the goldens are stale
    for case in golden.cases: ...

Each set is ``NAME.npz`` + ``NAME.json``; ``reference_clip.npz`` is the clip all Base voices are cloned from. Renew them
with ``python -m tests.oracle.make_goldens`` (oracle extra).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.checkpoints import GENERATOR_VERSION, checkpoint_digest, write_checkpoint
from tests.oracle.audio import from_pcm16
from tests.oracle.cases import Case

FloatArray = NDArray[np.float32]

FOLDER = Path(__file__).parent
NAMES: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
_RENEW = "run `python -m tests.oracle.make_goldens` with the oracle extra installed"


class StaleGoldenError(AssertionError):
    """The checkpoint generator no longer writes what the goldens were made from."""


@dataclass(frozen=True)
class GoldenCase:
    """One utterance and the official greedy fp32 result for it."""

    case: Case
    codes: NDArray[np.int16]
    """(T, 16)"""
    ended: bool
    """True: the model chose the end of speech; False: stopped at ``case.frames``."""
    prompt: FloatArray | None
    """(L, D) rows handed to the talker; some cases only."""
    trailing: FloatArray | None
    """(N, D) text rows added to the frames; some cases only."""
    hidden: FloatArray | None
    """(4, D) the talker's final-normed state before the first four choices; some cases only."""
    waveform: FloatArray | None
    """Samples of the first frames (ICL: after the reference); some cases only."""


@dataclass(frozen=True)
class GoldenSet:
    """All goldens of one checkpoint."""

    name: str
    checkpoint: dict[str, Any]
    """Arguments of ``write_checkpoint``."""
    generator_version: int
    checkpoint_sha256: str
    cases: tuple[GoldenCase, ...]
    xvector: FloatArray | None
    """(D,) of the reference clip; Base only."""
    ref_codes: NDArray[np.int16] | None
    """(R, 16) of the reference clip; Base only."""

    def write_checkpoint(self, folder: Path) -> Path:
        """Generates the checkpoint the goldens belong to in ``folder``.

        Raises:
            StaleGoldenError: the generator changed since.
        """
        if self.generator_version != GENERATOR_VERSION:
            raise StaleGoldenError(
                f"goldens {self.name!r} are of generator version {self.generator_version}, "
                f"this is version {GENERATOR_VERSION}: {_RENEW}"
            )
        path = write_checkpoint(folder, **self.checkpoint)
        if checkpoint_digest(path) != self.checkpoint_sha256:
            raise StaleGoldenError(
                f"goldens {self.name!r} belong to other weights than write_checkpoint(**{self.checkpoint}) makes now: "
                f"raise GENERATOR_VERSION and {_RENEW}"
            )
        return path


def reference_clip() -> FloatArray:
    """24 kHz mono, 2.13 s, deliberately not a whole number of frames."""
    with np.load(FOLDER / "reference_clip.npz") as arrays:
        return from_pcm16(arrays["pcm16"])


def load(name: str) -> GoldenSet:
    """The goldens ``name``, one of ``NAMES``."""
    meta: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays: dict[str, Any] = dict(file)
    cases = tuple(
        GoldenCase(
            case=Case(**entry["case"]),
            codes=arrays[f"{entry['case']['name']}.codes"],
            ended=entry["ended"],
            **{
                part: arrays.get(f"{entry['case']['name']}.{part}")
                for part in ("prompt", "trailing", "hidden", "waveform")
            },
        )
        for entry in meta["cases"]
    )
    return GoldenSet(
        name=name,
        checkpoint=meta["checkpoint"],
        generator_version=meta["generator_version"],
        checkpoint_sha256=meta["checkpoint_sha256"],
        cases=cases,
        xvector=arrays.get("xvector"),
        ref_codes=arrays.get("ref_codes"),
    )
