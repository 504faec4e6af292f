"""Evaluation of a voice: 200 held-out sentences, both text layouts, several seeds, an independent recogniser.

    python -m bench.voice [--model M] [--quick] [--seeds 0-4] [--references FILE]
                          [--json FILE] [--plots DIR] [--samples DIR] [--publish] [--tables]

Needs ``pip install '.[judge]'`` and, for the columns of teacher and codec, the file that the recipe's stage
``references`` makes. Clips and transcripts are kept under ``build/``: an interrupted run goes on where it was. The
tables are printed; ``--publish`` puts figures, plots, samples and pages where the repository keeps them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.voice import live, page, plots, spectra, tables
from bench.voice.clips import LAYOUTS, TEACHER, Clip, References, plan
from bench.voice.recipe import RECIPE, sentences
from bench.voice.summary import ROWS, Judged, summarise
from bench.voice.workers import MOS_EVERY, Archives, in_order, make, rounds, whole_rounds
from rtts import store
from rtts_engine.manifest import Manifest
from rtts_engine.model import Model, Threads

BUILD = tables.ROOT / "build" / "bench-voice"
REFERENCES = RECIPE.parents[1] / "build" / "voice" / "out" / "references.npz"
RECOGNISER = "whisper tiny.en (int8, faster-whisper)"
QUICK_EVERY = 9
SHOWN_LINES = (10, 85, 145)
"""Sentences that are kept as samples; the first one is drawn."""


def seeds_of(text: str) -> list[int]:
    """``0-4`` or ``0,2,5`` as a list."""
    if "-" in text:
        first, last = (int(part) for part in text.split("-"))
        return list(range(first, last + 1))
    return [int(part) for part in text.split(",")]


def judged(
    wanted: list[Clip], archives: Archives, speakers: tuple[str, ...], counted: set[Clip]
) -> Iterator[Judged]:
    """The clips of which there are codes at least, with their texts; transcripts of ``counted`` ones only."""
    texts = sentences()
    for clip in wanted:
        record = archives.record(clip)
        if clip.row in LAYOUTS and clip not in counted:
            record = {part: value for part, value in record.items() if part != "heard"}
        if "spoken" in record:
            kind, text = texts[clip.line]
            path = archives.of(clip).sound(clip)
            yield Judged(
                clip.row, clip.line, kind, text, speakers[clip.speaker], clip.speaker, clip.seed, record, path
            )


def long_term_spectra(made: list[Judged]) -> dict[str, dict[str, float]]:
    """Distance of each row's long-term spectrum from the teacher's, by speaker; seed 0, every ninth line."""
    sums: dict[tuple[str, str], Any] = {}
    for clip in made:
        if clip.line % MOS_EVERY == 0 and clip.seed == 0 and clip.path.exists():
            samples = clip.samples()
            if len(samples) > spectra.FFT:
                key = (clip.row, clip.speaker)
                sums[key] = sums.get(key, 0) + spectra.long_term(samples)
    out: dict[str, dict[str, float]] = {}
    for (row, speaker), own in sums.items():
        teacher = sums.get((TEACHER, speaker))
        if row != TEACHER and teacher is not None:
            out.setdefault(row, {})[speaker] = round(spectra.long_term_distance_db(own, teacher), 2)
    return out


def keep_samples(made: list[Judged], out: Path) -> list[dict[str, Any]]:
    """Copy a few clips of the first two seeds, so that every speaker is among them; returns what they are."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.flac"):
        old.unlink()
    kept = []
    for clip in made:
        if clip.line in SHOWN_LINES and clip.row in LAYOUTS and clip.seed in (0, 1) and clip.path.exists():
            name = f"{clip.line}-{clip.row}-{clip.speaker}.flac"
            shutil.copyfile(clip.path, out / name)
            keys = {"row": clip.row, "speaker": clip.speaker, "seed": clip.seed, "text": clip.text}
            kept.append({**keys, "heard": clip.record.get("heard", ""), "file": name})
    return sorted(kept, key=lambda sample: str(sample["file"]))


def draw(
    result: dict[str, Any], made: list[Judged], teacher_s: dict[tuple[int, int], float], out: Path
) -> None:
    """``figures.png`` and ``spectrograms.png``."""
    out.mkdir(parents=True, exist_ok=True)
    plots.figures(result, made, teacher_s, out / "figures.png")
    shown = [
        clip for clip in made if clip.line == SHOWN_LINES[0] and clip.seed in (0, 1) and clip.path.exists()
    ]
    shown.sort(key=lambda clip: (clip.speaker_id, ROWS.index(clip.row)))
    panels = [(f"{clip.speaker}, {clip.row}: {clip.text}", clip.samples()) for clip in shown]
    if panels:
        plots.spectrograms(panels[:8], out / "spectrograms.png")


def evaluate(a: argparse.Namespace) -> dict[str, Any]:
    """Everything, and the tables on the screen."""
    path = store.resolve(a.model)
    manifest = Manifest.load(path)
    speakers = tuple(manifest.speakers)
    lines = list(range(0, len(sentences()), QUICK_EVERY if a.quick else a.every))
    wanted = list(plan(lines, a.seeds, len(speakers), a.every_speaker))
    teacher_s: dict[tuple[int, int], float] = {}
    references = References(a.references) if a.references else None
    if references:
        teacher_s = references.lengths_s()
        wanted = [*references.clips(lines, a.every_speaker), *wanted]
    own = f"{manifest.name}-{manifest.source_sha256[:12]}-{manifest.precision}"
    archives = Archives(BUILD, own, references)
    turns = rounds(wanted, a.seeds)
    jobs = in_order(turns, archives, len(speakers), mos=not a.quick, measure_again=a.measure_again)
    left = make(jobs, archives, path, a.references, a.jobs, a.minutes * 60)
    counted = set(whole_rounds(turns, archives))
    made = list(judged(wanted, archives, speakers, counted))
    result: dict[str, Any] = {
        "model": {
            "name": a.model or store.DEFAULT_MODEL,
            "speakers": list(speakers),
            "precision": manifest.precision,
            "source_sha256": manifest.source_sha256,
        },
        "recogniser": RECOGNISER,
        "every_speaker": a.every_speaker,
        "steps_left_when_time_was_up": left,
        **summarise(made, teacher_s),
        "long_term_spectrum_db": long_term_spectra(made),
    }
    print("speed and sessions", flush=True)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    result["speed"] = {**live.speed(path), "load_average_1min": round(load, 2)}
    model = Model.load(path, threads=Threads(ar=1, codec=1))
    result["sessions"] = asyncio.run(live.compare(model, 3 if a.quick else a.turns))
    if a.samples:
        result["samples"] = keep_samples(made, a.samples)
    if a.plots:
        draw(result, made, teacher_s, a.plots)
    from bench.voice.aims import check

    result["aims"] = [asdict(aim) for aim in check(result)]
    return result


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.voice", description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="what rtts say takes; default: the voice that ships with the project")
    parser.add_argument(
        "--quick", action="store_true", help="every ninth sentence, seed 0, no opinion scores"
    )
    parser.add_argument("--seeds", type=seeds_of, help="such as 0-4 (the default) or 0,3")
    parser.add_argument("--every", type=int, default=1, help="take every n-th sentence")
    parser.add_argument("--every-speaker", action="store_true", help="all speakers, not in turn")
    parser.add_argument(
        "--references", type=Path, help="teacher and codes (default: the recipe's, if it is there)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=600, help="judge what there is after so long")
    parser.add_argument(
        "--turns", type=int, default=12, help="turns of each kind that sessions are compared in"
    )
    parser.add_argument("--measure-again", action="store_true", help="measure kept clips anew")
    parser.add_argument("--json", type=Path, help="write the figures")
    parser.add_argument("--plots", type=Path, help="folder for plots")
    parser.add_argument("--samples", type=Path, help="folder for a few clips")
    parser.add_argument(
        "--publish", action="store_true", help="results, plots, samples and pages of the repository"
    )
    parser.add_argument(
        "--tables", action="store_true", help="only write the pages from the published result"
    )
    a = parser.parse_args()
    a.seeds = a.seeds or ([0] if a.quick else list(range(5)))
    if a.references is None and REFERENCES.exists():
        a.references = REFERENCES
    if a.publish:
        home = machine.RESULTS / "voice"
        a.json, a.plots, a.samples = a.json or tables.RESULT, a.plots or home, a.samples or home
    return a


def main() -> None:
    """Evaluate, or rewrite the pages."""
    a = arguments()
    if a.tables:
        print("\n".join(str(path) for path in page.write(page.load())))
        return
    result = evaluate(a)
    for part in (tables.aim_table, tables.error_table, tables.seed_table, tables.ending_table, tables.pace_table,
                 tables.signal_table):  # fmt: skip
        print(part(result), end="\n\n")
    if a.json:
        command = machine.invocation("bench.voice")
        print(machine.write("voice", command, result, a.json))
    if a.publish:
        print("\n".join(str(path) for path in page.write(page.load())))


if __name__ == "__main__":
    main()
