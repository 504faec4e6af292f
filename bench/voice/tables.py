"""The figures as markdown, and the files that hold them: written from the JSON, so that they cannot go stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.voice.aims import check
from bench.voice.recipe import KINDS

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "bench" / "results" / "voice.json"
PAGE = ROOT / "docs" / "voice.md"
BEGIN, END = "<!-- python -m bench.voice --tables: begin -->", "<!-- end -->"
NAMES = {
    "teacher": "teacher",
    "codec": "codec resynthesis",
    "full": "**full text**",
    "streaming": "**streaming text**",
}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(value: float) -> str:
    """0.0341 -> 3.4 %."""
    return f"{value * 100:.1f} %"


def interval(rate: dict[str, Any]) -> str:
    """3.4 % (2.9 to 4.0)."""
    return f"{percent(rate['rate'])} ({rate['low'] * 100:.1f} to {rate['high'] * 100:.1f})"


def error_table(result: dict[str, Any], measure: str = "wer") -> str:
    """Error rates by kind and speaker, a row for each way of speaking."""
    rates = result[measure]
    speakers = result["model"]["speakers"]
    kinds = [kind for kind in KINDS if kind in result["sentences"]]
    groups = [*kinds, *speakers]
    rows = [
        [
            NAMES[row],
            own["all"]["clips"],
            interval(own["all"]),
            *(percent(own[g]["rate"]) if g in own else "" for g in groups),
        ]
        for row, own in rates.items()
    ]
    return table(["", "clips", "all (95 %)", *groups], rows)


def seed_table(result: dict[str, Any]) -> str:
    """Word error rates by seed."""
    seeds = [f"seed {seed}" for seed in result["seeds"]]
    rows = [
        [NAMES[row], *(interval(result["wer"][row][seed]) for seed in seeds)]
        for row in ("full", "streaming")
        if row in result["wer"]
    ]
    return table(["WER", *seeds], rows)


def aim_table(result: dict[str, Any]) -> str:
    """Aims, and whether they are met."""
    words = {True: "yes", False: "**no**", None: ""}
    return table(
        ["", "aim", "measured", "met"],
        [[aim.what, aim.aim, aim.measured, words[aim.met]] for aim in check(result)],
    )


def ending_table(result: dict[str, Any]) -> str:
    """Truncated and runaway utterances."""
    rows = []
    for row in ("full", "streaming"):
        own = result["endings"].get(row)
        if own:
            ratio = own["length_ratio"]
            lengths = f"{ratio['median']:.2f} ({ratio['p1']:.2f} to {ratio['p99']:.2f})"
            rows.append([NAMES[row], own["clips"], own["truncated"], own["runaway"], own["capped"], lengths])
    head = [
        "",
        "utterances",
        "truncated",
        "runaway",
        "of these at the cap",
        "length / expected (1 % to 99 %)",
    ]
    return table(head, rows)


def pace_table(result: dict[str, Any]) -> str:
    """Speaking rate and pitch."""
    rows = []
    for row, speakers in result["pace_and_pitch"].items():
        for speaker, own in speakers.items():
            rows.append(
                [
                    NAMES[row],
                    speaker,
                    f"{own['words_per_s']:.2f}",
                    f"{own['letters_per_s']:.1f}",
                    f"{own['median_hz']:.0f} Hz",
                    f"{own['low_hz']:.0f} to {own['high_hz']:.0f} Hz",
                    f"{own['spread_semitones']:.1f}",
                    percent(own["voiced"]),
                ]
            )
    head = ["", "speaker", "words/s", "letters/s", "pitch", "5 % to 95 %", "spread, semitones", "voiced"]
    return table(head, rows)


def signal_table(result: dict[str, Any]) -> str:
    """Levels and clicks; DNSMOS where it was measured."""
    scored = any("dnsmos" in own for own in result["signal"].values())
    rows = []
    for row, own in result["signal"].items():
        cells = [
            NAMES[row],
            f"{own['speech_db']:.1f} dB",
            f"{own['noise_db']:.1f} dB",
            f"{own['rolloff_hz']:.0f} Hz",
            own["clips_with_clipping"],
            f"{own['largest_offset']:.4f}",
            f"{own['largest_start_peak']:.4f}",
            f"{own['largest_end_step']:.4f}",
            f"{own['join_clicks']} / {own['joins']}",
            f"{own['control_clicks']} / {own['controls']}",
        ]
        if scored:
            mos = own.get("dnsmos")
            names = ("overall", "signal", "background", "p808")
            cells.append(" / ".join(f"{mos[name]:.2f}" for name in names) if mos else "")
        rows.append(cells)
    head = ["", "speech", "quietest 10 %", "95 % of energy below", "clips with clipping", "largest offset",
            "largest sample in 4 ms", "largest last sample", "clicks / frame borders",
            "clicks / middles of frames"]  # fmt: skip
    if scored:
        head.append("DNSMOS overall / signal / background / P.808")
    return table(head, rows)


def heard(result: dict[str, Any]) -> str:
    """How many of the utterances have a transcript."""
    rows = [row for row in ("full", "streaming") if row in result["wer"] and row in result["endings"]]
    count = sum(result["wer"][row]["all"]["clips"] for row in rows)
    spoken = sum(result["endings"][row]["clips"] for row in rows)
    if count == spoken:
        return f"All {spoken} utterances of the model were transcribed."
    return (
        f"{count} of the model's {spoken} utterances were transcribed: whole rounds, in each of which every line is "
        "spoken once in both layouts and the seeds take turns."
    )


def card(result: dict[str, Any]) -> str:
    """The block of the model card."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in result["sentences"].items())
    seeds = result["seeds"]
    voices = "every speaker" if result["every_speaker"] else "the speakers in turn"
    ends = [result["endings"][row] for row in ("full", "streaming") if row in result["endings"]]
    spoken = sum(row["clips"] for row in ends)
    bad = sum(row["truncated"] + row["runaway"] for row in ends)
    lines = [
        f"Word error rate of {result['recogniser']} on {sum(result['sentences'].values())} held-out sentences "
        f"({kinds}), default sampling, seeds {seeds[0]} to {seeds[-1]}, {voices}; in brackets the interval that holds "
        "95 % of a bootstrap over sentences:",
        error_table(result),
        heard(result),
        f"{bad} of {spoken} utterances ended much too early or too late. Everything else that was measured, and how: "
        "[the evaluation](../../docs/voice.md).",
    ]
    return "\n\n".join(lines)


def put_into(text: str, block: str) -> str:
    """``text`` with ``block`` between its two marks. Raises ValueError if it has none."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"no line {BEGIN!r} with {END!r} behind it")
    return text[: begin + len(BEGIN)] + "\n" + block + "\n" + text[end:]
