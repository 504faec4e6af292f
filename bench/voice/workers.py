"""Making, measuring and hearing many clips in several processes, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from bench.voice.clips import CODEC, TEACHER, Clip, Part, Record, References, Studio

MOS_EVERY = 9
EARLY = 3
Job = tuple[Clip, Path, tuple[Part, ...]]
"""A clip, where its sound is kept, and the parts that its record lacks."""

_studio: Studio | None = None


def _open_studio(model: Path, references: Path | None) -> None:
    global _studio
    _studio = Studio(model, references)


def _work(job: Job) -> tuple[Clip, Record]:
    assert _studio is not None
    return job[0], _studio.work(*job)


class Archive:
    """Sounds and records of clips in one folder: FLAC files, and JSON lines of which each adds parts to a record."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.records: dict[str, Record] = {}
        log = folder / "records.jsonl"
        if log.exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.records.setdefault(entry["name"], {}).update(entry["record"])

    def sound(self, clip: Clip) -> Path:
        """Where the clip's samples are, or will be."""
        return self._folder / f"{clip.name}.flac"

    def add(self, clip: Clip, record: Record) -> None:
        """Keep parts of a record at once."""
        self.records.setdefault(clip.name, {}).update(record)
        with (self._folder / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": clip.name, "record": record}) + "\n")


class Archives:
    """The teacher's clips in one archive, whatever the model; its resynthesis and the model's own in others."""

    def __init__(self, folder: Path, model: str, references: References | None) -> None:
        teacher, codes = (
            (references.fingerprint("teacher"), references.fingerprint("codes"))
            if references
            else ("none", "none")
        )
        self._teacher = Archive(folder / f"teacher-{teacher}")
        self._codec = Archive(folder / f"{model}-codec-{codes}")
        self._model = Archive(folder / model)

    def of(self, clip: Clip) -> Archive:
        """Where a clip belongs."""
        return {TEACHER: self._teacher, CODEC: self._codec}.get(clip.row, self._model)

    def record(self, clip: Clip) -> Record:
        """What is known of a clip."""
        return self.of(clip).records.get(clip.name, {})


def wants_mos(clip: Clip, speakers: int) -> bool:
    """Opinion scores are slow: some lines, seed 0, and of the references the speaker that the model's clip has."""
    return clip.line % MOS_EVERY == 0 and clip.seed == 0 and clip.speaker == clip.line % speakers


def rounds(wanted: Sequence[Clip], seeds: Sequence[int]) -> list[list[Clip]]:
    """The references, then as many rounds as there are seeds.

    A round has every line once in each layout, with the seeds taking turns: a run that is cut short has all lines and
    all seeds alike.
    """
    out: list[list[Clip]] = [[] for _ in range(len(seeds) + 1)]
    for clip in wanted:
        turn = (
            0 if clip.row in (TEACHER, CODEC) else 1 + (clip.line // 2 + seeds.index(clip.seed)) % len(seeds)
        )
        out[turn].append(clip)
    return out


def in_order(turns: Sequence[Sequence[Clip]], archives: Archives, speakers: int, **how: bool) -> list[Job]:
    """Jobs of all rounds; the first ``EARLY`` ones are made before anything is heard, for lengths say much already."""
    return [
        *needed([clip for turn in turns[: EARLY + 1] for clip in turn], archives, speakers, **how),
        *(job for turn in turns[EARLY + 1 :] for job in needed(turn, archives, speakers, **how)),
    ]


def needed(
    wanted: Sequence[Clip], archives: Archives, speakers: int, *, mos: bool, measure_again: bool
) -> list[Job]:
    """What is missing, in the order of ``wanted``: first everything but the transcripts, then those."""
    makes: list[Job] = []
    hears: list[Job] = []
    for clip in wanted:
        archive = archives.of(clip)
        path = archive.sound(clip)
        known = archive.records.get(clip.name, {}) if path.exists() else {}
        parts: list[Part] = []
        if "spoken" not in known:
            parts.append("spoken")
        if "measured" not in known or measure_again:
            parts.append("measured")
        if mos and wants_mos(clip, speakers) and "mos" not in known:
            parts.append("mos")
        if parts:
            makes.append((clip, path, tuple(parts)))
        if "heard" not in known:
            hears.append((clip, path, ("heard",)))
    return makes + hears


def make(
    jobs: Sequence[Job],
    archives: Archives,
    model: Path,
    references: Path | None,
    processes: int,
    limit_s: float,
) -> int:
    """Do the jobs in their order and keep each result at once; returns how many were left when time was up."""
    if not jobs:
        return 0
    print(f"{sum(job[2] != ('heard',) for job in jobs)} clips to make, {len(jobs)} steps in all", flush=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start_s = time.monotonic()
    waiting = iter(jobs)
    done = 0
    with ProcessPoolExecutor(processes, get_context("spawn"), _open_studio, (model, references)) as pool:
        running = {pool.submit(_work, job) for _, job in zip(range(2 * processes), waiting, strict=False)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                clip, record = future.result()
                archives.of(clip).add(clip, record)
                done += 1
                spent_s = time.monotonic() - start_s
                if done % 100 == 0 or done == len(jobs):
                    print(f"{done} of {len(jobs)}, {spent_s:.0f} s, {spent_s / done:.2f} s each", flush=True)
                job = next(waiting, None) if spent_s < limit_s else None
                if job is not None:
                    running.add(pool.submit(_work, job))
    return len(jobs) - done
