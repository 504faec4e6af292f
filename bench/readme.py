"""Tables of figures in README and docs, written from ``bench/results``; a test holds that they are not stale.

python -m bench.readme
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.machine import RESULTS

README = RESULTS.parents[1] / "README.md"
SPEED = RESULTS.parents[1] / "docs" / "performance.md"
_TABLE = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)

Row = tuple[str, str, str]
"""What, the result, the command."""


def parity(result: dict[str, Any]) -> list[Row]:
    runs = result["greedy_runs"]
    equal, frames = sum(run["equal"] for run in runs), sum(run["frames"] for run in runs)
    least = min(run["snr_db"] for run in runs)
    return [
        (
            "greedy codes against the official package (fp32, random weights, every kind of checkpoint)",
            f"{equal} of {len(runs)} runs equal, {frames:,} frames; waveform {least:.0f} dB and more",
            "`python -m pytest -m oracle` ([parity](docs/parity.md))",
        )
    ]


def parity_real(result: dict[str, Any]) -> list[Row]:
    runs = result["greedy_runs"]
    equal, least = sum(run["equal"] for run in runs), min(run["snr_db"] for run in runs)
    return [
        (
            "x-vector and ICL at real 0.6B dimensions",
            f"{equal} of {len(runs)} runs equal; waveform {least:.0f} dB and more",
            "`python -m pytest -m oracle_real`",
        )
    ]


def convert(result: dict[str, Any]) -> list[Row]:
    row = next(row for row in result["rows"] if row["precision"] == "fp32")
    return [
        (
            "converting 0.6B to fp32",
            f"{row['seconds']:.0f} s, {row['peak_mb']:.0f} MB at the peak "
            f"({row['peak_over_largest']:.2f} x the largest tensor)",
            "`python -m bench.convert`",
        )
    ]


def latency(result: dict[str, Any]) -> list[Row]:
    rows = {row["scenario"]: row for row in result["rows"]}
    once, llm, token = (rows[name] for name in ("text at once", "20 tokens/s", "20 tokens/s, token mode"))
    two = rows["two sessions, 20 tokens/s"]
    command = "`python -m bench.latency latency` ([picture](bench/results/lark-latency.png))"
    return [
        (
            "shipped voice, text complete → first sound at a sink that pulls 20 ms at a time",
            f"{once['ttfa_ms']:.0f} ms median, {once['ttfa_p95_ms']:.0f} ms p95; RTF {once['rtf']:.2f}",
            command,
        ),
        (
            "the same, first LLM token → audible sound, at 20 tokens/s",
            f"{llm['audible_ms']:.0f} ms by sentences, {token['audible_ms']:.0f} ms token by token",
            command,
        ),
        (
            "two sessions at once, 20 tokens/s each",
            f"{two['underruns']} underruns in {two['runs']} turns; "
            f"event loop {two['loop_lag_p99_ms']:.1f} ms late at p99",
            command,
        ),
    ]


def barge_in(result: dict[str, Any]) -> list[Row]:
    row = result["row"]
    return [
        (
            "user's voice begins → assistant turned down → committed → silent",
            f"{row['duck_ms']:.0f} → {row['commit_ms']:.0f} → {row['silent_ms']:.0f} ms; "
            f"{row['missed']} of {row['interruptions']} missed",
            "`python -m bench.latency barge-in`",
        )
    ]


def overhead(result: dict[str, Any]) -> list[Row]:
    row = result["rows"][0]
    return [
        (
            f"0.6B dimensions ({result['precision']}): wall time of a streamed run over its engine steps",
            f"{row['overhead'] * 100:+.1f} %; event loop {row['loop_lag_p99_ms']:.1f} ms late at p99",
            "`python -m bench.latency throughput --model M --label 0.6b`",
        )
    ]


def long(result: dict[str, Any]) -> list[Row]:
    rows = {row["scenario"]: row for row in result["rows"]}
    one, together, busy = (
        rows[name]
        for name in (
            "one sentence at a time",
            "as the machine needs",
            "as the machine needs, half a core taken",
        )
    )

    def silence(row: dict[str, Any]) -> str:
        return f"{row['first_sound_ms'] / 1e3 + row['holes_s']:.1f}"

    return [
        (
            f"0.6B dimensions ({result['precision']}), {together['audio_s']:.0f} s of speech in real time: one "
            "sentence at a time → several in a pass, as the machine needs",
            f"RTF {one['rtf']:.2f} → {together['rtf']:.2f} ({busy['rtf']:.2f} beside a process that takes half a "
            f"core); silence before and in it {silence(one)} → {silence(together)} s; first samples after "
            f"{together['first_samples_ms']:.0f} ms; {result['peak_memory_mb'] / 1e3:.1f} GB",
            "`python -m bench.latency long --model M --label 0.6b` ([picture](bench/results/0.6b-long.png))",
        )
    ]


def compare(result: dict[str, Any]) -> list[Row]:
    row = next(row for row in result["rows"] if row["engine"] == "rtts int8")
    faster = row["times_faster"]
    return [
        (
            "0.6B dimensions (int8), one sentence, two threads: speed over the official package's fp32 and bf16",
            f"{faster['torch fp32']:.1f} x, {faster['torch bf16']:.1f} x",
            "`python -m bench.compare CHECKPOINT --precisions int8 --frames 12 --rounds 1`",
        )
    ]


def engine(result: dict[str, Any]) -> list[Row]:
    rows = {(row["precision"], row["network"], row["detail"]): row for row in result["rows"]}

    def ms(precision: str, network: str, detail: str) -> float:
        return float(rows[precision, network, detail]["ms"])

    one, codec = rows["int8", "talker and predictor", "1 streams"], rows["int8", "codec frame", "chunk 1"]
    gains = [
        ms(precision, "talker and predictor", "1 streams")
        / ms(precision, "talker and predictor", "8 streams")
        for precision in ("fp32", "int8")
    ]
    command = "`python -m bench.engine` ([speed](docs/performance.md))"
    return [
        (
            "0.6B dimensions (int8), one AVX2 core each, per frame of 80 ms: talker and predictor, codec",
            f"{one['ms']:.0f} ms (memory alone: {one['bytes_bound_ms']:.0f}), {codec['ms']:.0f} ms",
            command,
        ),
        (
            "8 streams in one pass: frames per second over those of one stream, fp32 and int8",
            f"{gains[0]:.1f} x, {gains[1]:.1f} x",
            command,
        ),
    ]


def voice(result: dict[str, Any]) -> list[Row]:
    wer = result["wer"]
    names = {"full": "full text", "streaming": "streaming text", "teacher": "its teacher"}
    parts = [f"{wer[row]['all']['rate'] * 100:.1f} % {name}" for row, name in names.items() if row in wer]
    return [
        (
            "shipped voice: words that a recogniser misses on held-out sentences",
            ", ".join(parts),
            "`python -m bench.voice` ([all figures](docs/voice.md))",
        )
    ]


SOURCES: dict[str, Callable[[dict[str, Any]], list[Row]]] = {
    "parity": parity,
    "parity_real": parity_real,
    "convert": convert,
    "voice": voice,
    "lark-latency": latency,
    "lark-barge-in": barge_in,
    "0.6b-throughput": overhead,
    "0.6b-long": long,
    "compare": compare,
    "engine": engine,
}


def table(results: Path = RESULTS) -> str:
    """All rows whose figures have been measured, as markdown."""
    lines = ["| what | result | command |", "|---|---|---|"]
    for name, rows in SOURCES.items():
        path = results / f"{name}.json"
        if path.exists():
            lines += [f"| {' | '.join(row)} |" for row in rows(json.loads(path.read_text(encoding="utf-8")))]
    return "\n".join(lines) + "\n"


def exactness(results: Path = RESULTS) -> str:
    """The table of docs/performance.md: how exact each precision is, and the aims."""
    from bench.precision import page

    result = json.loads((results / "precision.json").read_text(encoding="utf-8"))
    return page.table(result) + "\n" + page.aim_table(result)


PAGES: dict[Path, Callable[[], str]] = {README: table, SPEED: exactness}


def updated(text: str, tables: Callable[[], str] = table) -> str:
    """A page's text with the tables of today's results."""
    return _TABLE.sub(lambda found: found[1] + tables() + found[2], text)


if __name__ == "__main__":
    for page, tables in PAGES.items():
        page.write_text(updated(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
