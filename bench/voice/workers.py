"""Making, measuring and hearing many clips in several processes, so that an interrupted run goes on where it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from bench.voice.clips import CODEC, LAYOUTS, TEACHER, Clip, Part, Record, References, Studio

MOS_EVERY = 9
TALK_CLIPS = 100
"""Clips whose codes are one job."""


@dataclass(frozen=True, slots=True)
class Job:
    """Parts of one clip's record, with the place of its sound; or the codes of several, with their folder."""

    clips: tuple[Clip, ...]
    path: Path
    parts: tuple[Part, ...] = ()


_studio: Studio | None = None


def _open_studio(model: Path, references: Path | None) -> None:
    global _studio
    _studio = Studio(model, references)


def _work(job: Job) -> list[tuple[Clip, Record]]:
    assert _studio is not None
    if not job.parts:
        return _studio.talk(job.clips, job.path)
    return [(job.clips[0], _studio.work(job.clips[0], job.path, job.parts))]


class Archive:
    """Sounds and records of clips in one folder: FLAC files, and JSON lines of which each adds parts to a record."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.records: dict[str, Record] = {}
        log = folder / "records.jsonl"
        if log.exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self.records.setdefault(entry["name"], {}).update(entry["record"])

    def sound(self, clip: Clip) -> Path:
        """Where the clip's samples are, or will be."""
        return self.folder / f"{clip.name}.flac"

    def add(self, clip: Clip, record: Record) -> None:
        """Keep parts of a record at once."""
        self.records.setdefault(clip.name, {}).update(record)
        with (self.folder / "records.jsonl").open("a", encoding="utf-8") as file:
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
    """The teacher, then as many rounds as there are seeds; the codec comes behind the first one.

    A round has every line once in each layout, with the seeds taking turns: a run that is cut short has all lines and
    all seeds alike.
    """
    teacher = [clip for clip in wanted if clip.row == TEACHER]
    codec = [clip for clip in wanted if clip.row == CODEC]
    own: list[list[Clip]] = [[] for _ in seeds]
    for clip in wanted:
        if clip.row in LAYOUTS:
            own[(clip.line // 2 + seeds.index(clip.seed)) % len(seeds)].append(clip)
    return [teacher, own[0], codec, *own[1:]]


def whole_rounds(turns: Sequence[Sequence[Clip]], archives: Archives) -> list[Clip]:
    """The model's clips whose transcripts count: of the rounds that were heard to their end, or all without any.

    Half a round would give its first lines more weight than the others.
    """
    own = [[clip for clip in turn if clip.row in LAYOUTS] for turn in turns]
    whole = [turn for turn in own if turn and all("heard" in archives.record(clip) for clip in turn)]
    return [clip for turn in whole or own for clip in turn]


def talks(wanted: Sequence[Clip], archives: Archives) -> list[Job]:
    """Jobs for the codes of the model's clips that have none."""
    missing = [clip for clip in wanted if clip.row in LAYOUTS and "spoken" not in archives.record(clip)]
    return [
        Job(tuple(missing[start : start + TALK_CLIPS]), archives.of(missing[start]).folder)
        for start in range(0, len(missing), TALK_CLIPS)
    ]


def needed(
    wanted: Sequence[Clip], archives: Archives, speakers: int, *, mos: bool, measure_again: bool
) -> list[Job]:
    """What else is missing, in the order of ``wanted``: first everything but the transcripts, then those."""
    makes: list[Job] = []
    hears: list[Job] = []
    for clip in wanted:
        path = archives.of(clip).sound(clip)
        known = archives.record(clip) if path.exists() else {}
        parts: list[Part] = []
        if "spoken" not in known:
            parts.append("spoken")
        if "measured" not in known or measure_again:
            parts.append("measured")
        if mos and wants_mos(clip, speakers) and "mos" not in known:
            parts.append("mos")
        if parts:
            makes.append(Job((clip,), path, tuple(parts)))
        if "heard" not in known:
            hears.append(Job((clip,), path, ("heard",)))
    return makes + hears


def in_order(turns: Sequence[Sequence[Clip]], archives: Archives, speakers: int, **how: bool) -> list[Job]:
    """All jobs: the codes of every round, because lengths say much already, then round after round."""
    jobs = [job for turn in turns for job in talks(turn, archives)]
    return [*jobs, *(job for turn in turns for job in needed(turn, archives, speakers, **how))]


def make(
    jobs: Sequence[Job],
    archives: Archives,
    model: Path,
    references: Path | None,
    processes: int,
    limit_s: float,
) -> int:
    """Do the jobs in their order and keep each result at once; returns how many were left when time was up."""
    if not jobs or limit_s <= 0:
        return len(jobs)
    print(f"{len(jobs)} steps", flush=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start_s = time.monotonic()
    waiting = iter(jobs)
    done = 0
    with ProcessPoolExecutor(processes, get_context("spawn"), _open_studio, (model, references)) as pool:
        running = {pool.submit(_work, job) for _, job in zip(range(2 * processes), waiting, strict=False)}
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                for clip, record in future.result():
                    archives.of(clip).add(clip, record)
                done += 1
                spent_s = time.monotonic() - start_s
                if done % 100 == 0 or done == len(jobs):
                    print(f"{done} of {len(jobs)}, {spent_s:.0f} s, {spent_s / done:.2f} s each", flush=True)
                job = next(waiting, None) if spent_s < limit_s else None
                if job is not None:
                    running.add(pool.submit(_work, job))
    return len(jobs) - done
