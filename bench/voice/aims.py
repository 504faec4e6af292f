"""What the voice should reach, against what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim. ``met`` is None where it was not measured."""

    what: str
    aim: str
    measured: str
    met: bool | None


def check(result: dict[str, Any]) -> list[Aim]:
    """Every aim, from the figures of one evaluation."""
    aims: list[Aim] = []

    def add(what: str, aim: str, value: float | None, limit: float, shown: str) -> None:
        met = None if value is None else value <= limit
        aims.append(Aim(what, aim, "not measured" if value is None else shown.format(value), met))

    gaps = result["wer_against_teacher"]
    for row, name, points in (
        ("full", "WER, full text", 0.05),
        ("streaming", "WER, streaming text", 0.08),
        ("codec", "WER, codec resynthesis", 0.01),
    ):
        gap = gaps.get(row, {}).get("difference")
        shown = "{:+.1f} points" if gap is None else f"{gap * 100:+.1f} points"
        add(name, f"within {points * 100:.0f} points of the teacher", gap, points, shown)
    ends = [result["endings"][row] for row in ("full", "streaming") if row in result["endings"]]
    bad = sum(row["truncated"] + row["runaway"] for row in ends)
    total = sum(row["clips"] for row in ends)
    share = bad / total if total else None
    add("truncated or runaway", "under 0.5 %", share, 0.005, f"{(share or 0) * 100:.2f} % ({bad} of {total})")
    signal = result["signal"]
    own = [signal[row] for row in ("full", "streaming") if row in signal]
    joins = sum(row["joins"] for row in own)
    clicks = sum(row["join_clicks"] for row in own)
    add("clicks at joins of chunks", "none", float(clicks) if own else None, 0, f"{clicks} in {joins}")
    live = result.get("sessions")
    found = len(live["sentence_join_clicks"]) if live else 0
    add(
        "clicks at joins of sentences",
        "none",
        float(found) if live else None,
        0,
        f"{found} in {live['sentence_joins']}" if live else "",
    )
    starts = sum(row["starts_with_a_click"] for row in own) + signal.get("codec", {}).get(
        "starts_with_a_click", 0
    )
    peak = max((row["largest_start_peak"] for row in own), default=0.0)
    add(
        "clicks in the first 4 ms",
        "none",
        float(starts) if own else None,
        0,
        f"{starts}; largest sample {peak:.4f}",
    )
    mel = signal.get("codec", {}).get("mel_error_db")
    add("log-mel error of the codec", "at most 2.5 dB", mel, 2.5, "{:.2f} dB")
    speed = result.get("speed")
    rtf = max(speed["rtf"]["talker_cpu"], speed["rtf"]["codec_cpu"]) if speed else None
    add("RTF of the slower stage, fp32, one thread, CPU time", "under 0.25", rtf, 0.25, "{:.3f}")
    both = speed["rtf"]["talker_cpu"] + speed["rtf"]["codec_cpu"] if speed else None
    add("RTF of both stages together, CPU time", "under 0.25", both, 0.25, "{:.3f}")
    load = speed["load_wall_s"] if speed else None
    add("loading", "under 0.5 s", load, 0.5, "{:.2f} s")
    return aims
