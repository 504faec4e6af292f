"""The table of ``docs/performance.md`` and the aims, from ``bench/results/precision.json``."""

from __future__ import annotations

from typing import Any

from bench.voice.aims import Aim

COSINE = 0.9995
EQUAL = 0.95
POINTS = 0.01


def check(result: dict[str, Any]) -> list[Aim]:
    """Every aim whose figures are there."""
    aims = []
    rows = {name: model["precisions"] for name, model in result["models"].items()}
    if "int8" in rows.get("0.6b", {}):
        for network in ("talker", "predictor"):
            value = min(rows["0.6b"]["int8"][f"{network}_cosine"])
            what = f"int8, 0.6B dimensions, {network}: cosine of every layer"
            aims.append(Aim(what, f"at least {COSINE}", f"{value:.5f}", value >= COSINE))
    if "fp16" in rows.get("lark", {}):
        value = rows["lark"]["fp16"]["equal_frames"]
        what = "fp16, lark: frames with the same greedy codes"
        aims.append(Aim(what, f"at least {EQUAL * 100:.0f} %", f"{value * 100:.1f} %", value >= EQUAL))
    if "int8" in result.get("wer", {}):
        value = result["wer"]["int8"]["against_fp32"]["difference"]
        aims.append(
            Aim(
                "int8, lark: words missed",
                "at most 1 point more than fp32",
                f"{value * 100:+.1f} points",
                value <= POINTS,
            )
        )
    return aims


def table(result: dict[str, Any]) -> str:
    """One row for each model and precision."""
    lines = [
        "| | cosine, talker / predictor | KL, talker / predictor | frames with equal greedy codes, given fp32's / free "
        "| codec against fp32 | words missed |",
        "|---|---|---|---|---|---|",
    ]
    wer = result.get("wer", {})
    for name, model in result["models"].items():
        if name == wer.get("model") and "fp32" in wer:
            lines.append(f"| {name} fp32 | | | | | {_words(wer, 'fp32')} |")
        for precision, row in model["precisions"].items():
            heads = row["predictor_kl"]
            heard = _words(wer, precision) if name == wer.get("model") and precision in wer else ""
            lines.append(
                f"| {name} {precision} | {min(row['talker_cosine']):.5f} / {min(row['predictor_cosine']):.5f} "
                f"| {row['talker_kl']:.4f} / {sum(heads) / len(heads):.4f} "
                f"| {row['equal_frames'] * 100:.0f} / {row['free_running_equal_frames'] * 100:.0f} % "
                f"| {row['codec_snr_db']:.0f} dB | {heard} |"
            )
    return "\n".join(lines) + "\n"


def _words(wer: dict[str, Any], precision: str) -> str:
    rate = wer[precision]
    return f"{rate['rate'] * 100:.1f} % ({rate['errors']} of {rate['total']})"


def aim_table(result: dict[str, Any]) -> str:
    """Aims, and whether they are met."""
    lines = ["| aim | | measured | |", "|---|---|---|---|"]
    lines += [
        f"| {aim['what']} | {aim['aim']} | {aim['measured']} | {'met' if aim['met'] else '**missed**'} |"
        for aim in result["aims"]
    ]
    return "\n".join(lines) + "\n"
