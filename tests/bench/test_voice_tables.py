"""The evaluation's summary, its tables and its aims."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from bench.voice import page, pitch, sound, tables
from bench.voice.aims import Aim, check
from bench.voice.summary import Judged, summarise

TEXTS = ["One two three four.", "Five six seven eight.", "Nine ten eleven twelve."]


def clip(row: str, line: int, speaker: int, seed: int, heard: str | None, **changes: Any) -> Judged:
    """A clip of two seconds; ``changes`` are measures, or ``frames`` and ``stop``."""
    tone = np.sin(np.arange(48000) / 24000 * 2 * np.pi * 150).astype(np.float32) * np.float32(0.1)
    measured = {
        **asdict(sound.levels(tone)),
        **{f"pitch_{key}": value for key, value in asdict(pitch.Pitch(150.0, 120.0, 190.0, 2.0, 0.9)).items()},
        "rolloff_hz": 3000.0, "start_peak": 0.0, "end_step": 0.0, "joins": 24, "join_clicks": [], "controls": 25,
        "control_clicks": [],
    }  # fmt: skip
    spoken = {"frames": changes.pop("frames", 25), "stop": changes.pop("stop", "eos"), "cpu_s": 0.1}
    record = {"spoken": spoken, "measured": measured | changes}
    if heard is not None:
        record["heard"] = heard
    return Judged(row, line, "plain", TEXTS[line], ("ann", "bob")[speaker], speaker, seed, record)


@pytest.fixture
def clips() -> list[Judged]:
    """A teacher and a codec without a fault, and a model that says one word of twelve wrongly."""
    made = [clip("teacher", line, speaker, 0, TEXTS[line]) for line in range(3) for speaker in range(2)]
    made += [
        clip("codec", line, speaker, 0, TEXTS[line], mel_error_db=2.0, stoi=0.95, estoi=0.9)
        for line in range(3)
        for speaker in range(2)
    ]
    for seed in range(2):
        for line in range(3):
            heard = TEXTS[line].replace("seven", "heaven")
            made += [clip(row, line, (line + seed) % 2, seed, heard) for row in ("full", "streaming")]
    return made


def result_of(clips: list[Judged]) -> dict[str, Any]:
    speed = {
        "precision": "fp32", "utterances": 3, "load_wall_s": 0.2, "load_cpu_s": 0.1, "first_load_wall_s": 0.3,
        "load_average_1min": 0.5,
        "rtf": {"talker_cpu": 0.1, "codec_cpu": 0.1, "talker_wall": 0.1, "codec_wall": 0.1},
    }  # fmt: skip
    sessions = {
        "turns_each": 2, "equal": {"token": 2, "sentence": 2}, "largest_difference": 1e-5, "sentence_joins": 8,
        "sentence_join_clicks": [], "session_rtf": 0.1,
    }  # fmt: skip
    return {
        "command": "python -m bench.voice",
        "machine": {"measured_at": "2026-01-01T00:00:00", "cpu": "X", "cores": 2, "load_average_1min": 0.5},
        "model": {"name": "lark", "speakers": ["ann", "bob"], "precision": "fp32", "source_sha256": "0" * 64},
        "recogniser": "a recogniser", "every_speaker": False, "speed": speed, "sessions": sessions,
        **summarise(clips, {(c.line, c.speaker_id): c.seconds for c in clips if c.row == "teacher"}),
    }  # fmt: skip


def aim(result: dict[str, Any], what: str) -> Aim:
    return next(each for each in check(result) if each.what == what)


def test_rates_of_the_summary(clips: list[Judged]) -> None:
    result = result_of(clips)
    assert result["wer"]["teacher"]["all"]["rate"] == 0.0
    full = result["wer"]["full"]
    assert (full["all"]["errors"], full["all"]["total"], full["all"]["clips"]) == (2, 24, 6)
    assert (full["ann"]["errors"], full["bob"]["errors"]) == (1, 1)
    assert full["seed 1"]["rate"] == pytest.approx(1 / 12, abs=1e-5)
    assert result["wer_against_teacher"]["full"]["difference"] == pytest.approx(1 / 12, abs=1e-5)
    assert result["cer"]["full"]["all"]["rate"] < full["all"]["rate"]
    assert result["worst"][0]["heard"] == "Five six heaven eight."
    assert result["pace_and_pitch"]["full"]["ann"]["words_per_s"] == pytest.approx(2.0, abs=0.02)
    assert result["signal"]["codec"]["mel_error_db"] == 2.0


def test_aims_are_met_and_missed(clips: list[Judged]) -> None:
    met = {each.what: each.met for each in check(result_of(clips))}
    assert not met["WER, full text"]
    assert not met["WER, streaming text"]
    assert all(value for what, value in met.items() if "text" not in what)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"frames": 10}, "truncated or runaway"),
        ({"frames": 50}, "truncated or runaway"),
        ({"stop": "length_cap"}, "truncated or runaway"),
        ({"join_clicks": [1920]}, "clicks at joins of chunks"),
        ({"start_peak": 0.02}, "clicks in the first 4 ms"),
    ],
)
def test_one_fault_misses_its_aim(clips: list[Judged], changes: dict[str, Any], what: str) -> None:
    assert aim(result_of(clips), what).met
    assert not aim(result_of([*clips, clip("full", 0, 0, 2, TEXTS[0], **changes)]), what).met


def test_what_was_not_measured_is_absent(clips: list[Judged]) -> None:
    own = [each for each in clips if each.row in ("full", "streaming")]
    result = result_of(own)
    del result["speed"], result["sessions"]
    assert set(result["wer"]) == {"full", "streaming"}
    assert result["wer_against_teacher"] == {}
    assert result["endings"]["expected"] == "letters"
    for what in ("WER, full text", "log-mel error of the codec", "loading", "clicks at joins of sentences"):
        assert aim(result, what).met is None
        assert aim(result, what).measured == "not measured"
    assert "teacher |" not in tables.error_table(result)
    assert "absent" in page.page(result)


def test_a_clip_that_was_not_heard_has_no_errors(clips: list[Judged]) -> None:
    more = [*clips, clip("full", 1, 0, 3, None)]
    result = result_of(more)
    assert result["wer"]["full"]["all"]["clips"] == 6
    assert result["endings"]["full"]["clips"] == 7


def test_tables_have_a_cell_for_each_head(clips: list[Judged]) -> None:
    result = result_of(clips)
    for text in (
        tables.error_table(result), tables.seed_table(result), tables.aim_table(result), tables.ending_table(result),
        tables.pace_table(result), tables.signal_table(result),
    ):  # fmt: skip
        lines = text.splitlines()
        assert len(lines) > 2
        assert len({line.count("|") for line in lines}) == 1


def test_a_block_is_replaced_between_its_marks() -> None:
    text = f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n"
    once = tables.put_into(text, "new")
    assert once == f"before\n{tables.BEGIN}\nnew\n{tables.END}\nafter\n"
    assert tables.put_into(once, "new") == once
    with pytest.raises(ValueError, match="no line"):
        tables.put_into("nothing", "new")
