"""Which clips an evaluation makes, and in which order; and that what was made is not made again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bench.voice.clips import Clip, plan
from bench.voice.workers import Archives, Job, in_order, rounds, whole_rounds

LINES, SEEDS = list(range(200)), [0, 1, 2, 3, 4]


def test_speakers_share_all_lines_and_seeds() -> None:
    clips = list(plan(LINES, SEEDS, 2, every_speaker=False))
    assert len(clips) == len({clip.name for clip in clips}) == 2000
    assert Counter((clip.speaker, clip.row) for clip in clips) == dict.fromkeys(
        [(0, "full"), (0, "streaming"), (1, "full"), (1, "streaming")], 500
    )
    assert {(clip.line, clip.speaker) for clip in clips} == {(line, s) for line in LINES for s in (0, 1)}
    assert len(list(plan(LINES, [0], 2, every_speaker=True))) == 800


def test_every_round_has_all_lines_and_all_seeds_alike() -> None:
    references = [Clip("teacher", 3, 0), Clip("codec", 3, 0)]
    teacher, first, codec, *others = rounds([*references, *plan(LINES, SEEDS, 2, every_speaker=False)], SEEDS)
    assert [*teacher, *codec] == references
    turns = [first, *others]
    assert sum(map(len, turns)) == 2000
    for turn in turns:
        assert Counter(clip.line for clip in turn) == dict.fromkeys(LINES, 2)
        assert Counter(clip.seed for clip in turn) == dict.fromkeys(SEEDS, 80)


def test_only_missing_parts_are_jobs(tmp_path: Path) -> None:
    clip = Clip("full", 0, 0, 1)
    archives = Archives(tmp_path, "model", None)

    def jobs() -> list[Job]:
        return in_order([[clip]], Archives(tmp_path, "model", None), 2, mos=True, measure_again=False)

    path = archives.of(clip).sound(clip)
    assert [job.parts for job in jobs()] == [(), ("spoken", "measured"), ("heard",)]
    archives.of(clip).add(clip, {"spoken": {"frames": 3, "stop": "eos"}})
    assert [job.parts for job in jobs()] == [("spoken", "measured"), ("heard",)]
    path.write_bytes(b"sound")
    archives.of(clip).add(clip, {"measured": {}})
    assert [job.parts for job in jobs()] == [("heard",)]
    archives.of(clip).add(clip, {"heard": "hello"})
    assert jobs() == []
    path.unlink()
    assert [job.parts for job in jobs()] == [("spoken", "measured"), ("heard",)]


def test_half_a_round_does_not_count(tmp_path: Path) -> None:
    clips = list(plan([0, 1], [0, 1], 2, every_speaker=False))
    turns = rounds(clips, [0, 1])
    archives = Archives(tmp_path, "model", None)
    for clip in turns[1]:
        assert set(whole_rounds(turns, archives)) == set(clips)  # nothing whole yet: what there is
        archives.of(clip).add(clip, {"heard": "a"})
    assert whole_rounds(turns, archives) == turns[1]
    archives.of(turns[3][0]).add(turns[3][0], {"heard": "a"})
    assert whole_rounds(turns, archives) == turns[1]
