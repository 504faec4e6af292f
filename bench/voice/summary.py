"""From the records of clips to the figures of a voice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.voice import endings, rates, recipe, sound

ROWS = ("teacher", "codec", "full", "streaming")
WORST = 25


@dataclass(frozen=True, slots=True)
class Judged:
    """One clip with its text and its record."""

    row: str
    line: int
    kind: str
    text: str
    speaker: str
    speaker_id: int
    seed: int
    record: dict[str, Any]
    path: Path = Path()
    """Its sound."""

    def samples(self) -> npt.NDArray[np.float32]:
        """(n,) in [-1, 1]."""
        import soundfile

        samples: npt.NDArray[np.float32] = soundfile.read(self.path, dtype="float32")[0]
        return samples

    @property
    def seconds(self) -> float:
        """Length with the silence at its edges."""
        return float(self.record["spoken"]["frames"]) * endings.FRAME_S

    @property
    def measured(self) -> dict[str, Any]:
        """Levels, pitch, clicks (see ``clips.Studio``)."""
        own: dict[str, Any] = self.record["measured"]
        return own


Count = Callable[[str, str], tuple[int, int]]


def by_row(clips: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Clips of each row that has any, rows in the order of the tables."""
    rows: dict[str, list[Judged]] = {row: [] for row in ROWS}
    for clip in clips:
        rows[clip.row].append(clip)
    return {row: own for row, own in rows.items() if own}


def counts(clips: Iterable[Judged], count: Count) -> list[rates.Count]:
    """(line, errors, words or characters) of each clip that was heard."""
    return [(c.line, *count(c.text, c.record["heard"])) for c in clips if "heard" in c.record]


def error_rates(clips: Sequence[Judged], count: Count) -> dict[str, dict[str, Any]]:
    """Rates of each row: of all clips, by kind, by speaker, by seed (of the model's rows)."""
    out: dict[str, dict[str, Any]] = {}
    for row, own in by_row(clips).items():
        groups: dict[str, list[Judged]] = {"all": own}
        for kind in recipe.KINDS:
            groups[kind] = [clip for clip in own if clip.kind == kind]
        for clip in own:
            groups.setdefault(clip.speaker, []).append(clip)
            if row not in ("teacher", "codec"):
                groups.setdefault(f"seed {clip.seed}", []).append(clip)
        counted = {name: counts(group, count) for name, group in groups.items()}
        if counted["all"]:
            out[row] = {name: _rounded(asdict(rates.rate(rows))) for name, rows in counted.items() if rows}
    return out


def against_teacher(clips: Sequence[Judged], count: Count) -> dict[str, dict[str, Any]]:
    """How much higher the error rate of each row is than the teacher's, on the sentences that both have."""
    rows = by_row(clips)
    base = counts(rows.pop("teacher", []), count)
    if not base:
        return {}
    out = {}
    for row, own in rows.items():
        heard = counts(own, count)
        if not heard:
            continue
        middle, low, high, shared = rates.difference(heard, base)
        out[row] = _rounded({"difference": middle, "low": low, "high": high, "sentences": shared})
    return out


def utterance_ends(clips: Sequence[Judged], teacher_s: Mapping[tuple[int, int], float]) -> dict[str, Any]:
    """Truncated and runaway utterances of the model's rows, and lengths against the expected ones.

    Args:
        clips: of any rows.
        teacher_s: the teacher's seconds of (line, speaker); may be empty.
    """
    rows = by_row(clips)
    out: dict[str, Any] = {}
    for row in ("full", "streaming"):
        own = rows.get(row, [])
        if not own:
            continue
        bad = []
        ratios = []
        for clip in own:
            expected = endings.expected_s(clip.text, clip.line, clip.speaker_id, teacher_s)
            ratios.append(clip.seconds / expected)
            kind = endings.ending(clip.seconds, expected, clip.record["spoken"]["stop"])
            if kind != "good":
                bad.append((kind, clip, expected))
        low, middle, high = np.percentile(ratios, [1, 50, 99])
        out[row] = {
            "clips": len(own),
            "truncated": sum(kind == "truncated" for kind, _, _ in bad),
            "runaway": sum(kind == "runaway" for kind, _, _ in bad),
            "capped": sum(clip.record["spoken"]["stop"] != "eos" for clip in own),
            "share": round(len(bad) / len(own), 5),
            "length_ratio": _rounded({"p1": float(low), "median": float(middle), "p99": float(high)}),
            "cases": [
                {
                    "ending": kind,
                    "text": clip.text,
                    "speaker": clip.speaker,
                    "seed": clip.seed,
                    "seconds": round(clip.seconds, 2),
                    "expected_s": round(expected, 2),
                }
                for kind, clip, expected in bad[:WORST]
            ],
        }
    out["expected"] = "teacher" if teacher_s else "letters"
    return out


def pace_and_pitch(clips: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Words and letters a second between the first and the last sound, and pitch, of each row and speaker."""
    out: dict[str, dict[str, Any]] = {}
    for row, own in by_row(clips).items():
        ordered = sorted(own, key=lambda clip: clip.speaker_id)
        for _, items in groupby(ordered, key=lambda clip: clip.speaker_id):
            group = list(items)
            voiced_s = sum(clip.measured["voiced_s"] for clip in group)
            pitched = [clip.measured for clip in group if clip.measured["pitch_median_hz"] is not None]
            if not voiced_s or not pitched:
                continue
            pitch = {
                name: float(np.mean([measured[f"pitch_{name}"] for measured in pitched]))
                for name in ("median_hz", "low_hz", "high_hz", "spread_semitones", "voiced")
            }
            out.setdefault(row, {})[group[0].speaker] = _rounded(
                {
                    "words_per_s": sum(len(clip.text.split()) for clip in group) / voiced_s,
                    "letters_per_s": sum(endings.letters(clip.text) for clip in group) / voiced_s,
                    **pitch,
                }
            )
    return out


def signal(clips: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    """Levels and faults of each row's clips; DNSMOS and intelligibility where they were measured."""
    out: dict[str, dict[str, Any]] = {}
    for row, own in by_row(clips).items():
        measured = [clip.measured for clip in own]

        def middle(name: str, measured: list[dict[str, Any]] = measured) -> float:
            return float(np.median([m[name] for m in measured]))

        figures: dict[str, Any] = {
            "clips": len(own),
            "speech_db": middle("speech_db"),
            "noise_db": middle("noise_db"),
            "rolloff_hz": middle("rolloff_hz"),
            "largest_offset": max(abs(m["offset"]) for m in measured),
            "clips_with_clipping": sum(m["clipped"] > 0 for m in measured),
            "start_silence_s": middle("start_s"),
            "largest_start_peak": max(m["start_peak"] for m in measured),
            "starts_with_a_click": sum(m["start_peak"] > sound.AUDIBLE for m in measured),
            "largest_end_step": max(m["end_step"] for m in measured),
            "ends_with_a_step": sum(m["end_step"] > sound.AUDIBLE for m in measured),
            "joins": sum(m["joins"] for m in measured),
            "join_clicks": sum(len(m["join_clicks"]) for m in measured),
            "controls": sum(m["controls"] for m in measured),
            "control_clicks": sum(len(m["control_clicks"]) for m in measured),
        }
        for name in ("mel_error_db", "stoi", "estoi"):
            values = [m[name] for m in measured if name in m]
            if values:
                figures[name] = float(np.mean(values))
        scores = [clip.record["mos"] for clip in own if clip.record.get("mos")]
        if scores:
            figures["dnsmos"] = {name: float(np.mean([s[name] for s in scores])) for name in scores[0]}
            figures["dnsmos"]["clips"] = len(scores)
        out[row] = _rounded(figures)
    return out


def worst(clips: Sequence[Judged]) -> list[dict[str, Any]]:
    """The model's clips with the most word errors, the longest texts first among equals."""
    own = [clip for clip in clips if clip.row in ("full", "streaming") and "heard" in clip.record]
    scored = [(recipe.errors(clip.text, clip.record["heard"])[0], clip) for clip in own]
    scored.sort(key=lambda pair: (-pair[0], pair[1].line, pair[1].row, pair[1].seed))
    return [
        {
            "errors": wrong,
            "row": clip.row,
            "speaker": clip.speaker,
            "seed": clip.seed,
            "text": clip.text,
            "heard": clip.record["heard"],
        }
        for wrong, clip in scored[:WORST]
        if wrong
    ]


def summarise(clips: Sequence[Judged], teacher_s: Mapping[tuple[int, int], float]) -> dict[str, Any]:
    """All figures that come from clips; arguments as ``utterance_ends``.

    A clip without a transcript or without measures is left out where those count.
    """
    measured = [clip for clip in clips if "measured" in clip.record]
    kinds = [clip.kind for clip in {clip.line: clip for clip in clips}.values()]
    return {
        "sentences": {kind: kinds.count(kind) for kind in recipe.KINDS if kind in kinds},
        "seeds": sorted({clip.seed for clip in clips if clip.row in ("full", "streaming")}),
        "wer": error_rates(clips, recipe.errors),
        "cer": error_rates(clips, recipe.character_errors),
        "wer_against_teacher": against_teacher(clips, recipe.errors),
        "endings": utterance_ends(clips, teacher_s),
        "pace_and_pitch": pace_and_pitch(measured),
        "signal": signal(measured),
        "worst": worst(clips),
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _rounded(value)
        if isinstance(value, dict)
        else round(value, 5)
        if isinstance(value, float)
        else value
        for key, value in values.items()
    }
