"""``docs/voice.md``, the model card's block, from ``bench/results/voice.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import readme
from bench.voice import endings, tables
from bench.voice.sound import AROUND, SMALLEST, TIMES
from bench.voice.tables import BEGIN, END, PAGE, RESULT, ROOT

SHOWN_WORST = 12


def load() -> dict[str, Any]:
    """The committed result."""
    result: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return result


def card_path(result: dict[str, Any]) -> Path:
    """The model card of the voice that was measured."""
    return ROOT / "models" / str(result["model"]["name"]) / "README.md"


def page(result: dict[str, Any]) -> str:
    """The whole of ``docs/voice.md``."""
    machine, model = result["machine"], result["model"]
    return "\n\n".join(
        [
            "# How well the shipped voice speaks",
            "Written by `python -m bench.voice --tables` from "
            "[`bench/results/voice.json`](../bench/results/voice.json); measured with "
            f"`{result['command']}` on {machine['measured_at'][:10]} ({machine['cpu']}, {machine['cores']} cores, load "
            f"average {machine['load_average_1min']:.1f} at the end; clips are kept from run to run). Voice: "
            f"[{model['name']}](../models/{model['name']}/README.md), {model['precision']}, source "
            f"`{model['source_sha256'][:12]}`.",
            "## Aims",
            tables.aim_table(result),
            "## Word errors",
            tables.heard(result),
            tables.error_table(result),
            tables.seed_table(result),
            _against_teacher(result),
            "Characters instead of words:",
            tables.error_table(result, "cer"),
            "![Word error rates by kind, and lengths](../bench/results/voice/figures.png)",
            "What was heard most wrongly:",
            _worst(result),
            "## Endings",
            tables.ending_table(result),
            _ending_cases(result),
            _lead(result),
            "## Pace and pitch",
            tables.pace_table(result),
            "## Signal",
            tables.signal_table(result),
            _codec(result),
            _sessions(result),
            "![Spectrograms of one sentence](../bench/results/voice/spectrograms.png)",
            "## Speed",
            _speed(result),
            "## Samples",
            _samples(result),
            "## How it is measured",
            _method(result),
        ]
    ) + "\n"  # fmt: skip


def _against_teacher(result: dict[str, Any]) -> str:
    gaps = result["wer_against_teacher"]
    if not gaps:
        return "The teacher was not at hand: its column is absent."
    parts = [
        f"{tables.NAMES[row].strip('*')} {gap['difference'] * 100:+.1f} points ({gap['low'] * 100:+.1f} to "
        f"{gap['high'] * 100:+.1f})"
        for row, gap in gaps.items()
    ]
    shared = max(gap["sentences"] for gap in gaps.values())
    return f"Against the teacher, on the {shared} sentences that both spoke: {', '.join(parts)}."


def _worst(result: dict[str, Any]) -> str:
    rows = [
        [
            case["errors"],
            f"{case['row']}, {case['speaker']}, seed {case['seed']}",
            case["text"],
            case["heard"],
        ]
        for case in result["worst"][:SHOWN_WORST]
    ]
    return tables.table(["errors", "", "text", "heard"], rows)


def _ending_cases(result: dict[str, Any]) -> str:
    cases = [
        [row, case["ending"], case["text"], f"{case['speaker']}, seed {case['seed']}",
         f"{case['seconds']:.1f} s for {case['expected_s']:.1f} s"]
        for row in ("full", "streaming")
        for case in result["endings"].get(row, {}).get("cases", [])
    ]  # fmt: skip
    if not cases:
        return "No utterance was truncated or ran away."
    return tables.table(["layout", "", "text", "speaker, seed", "length"], cases)


def _lead(result: dict[str, Any]) -> str:
    rows = result["signal"].items()
    parts = [f"{tables.NAMES[row].strip('*')} {own['start_silence_s'] * 1000:.0f} ms" for row, own in rows]
    return f"Silence before the first sound, which counts as length (median): {', '.join(parts)}."


def _codec(result: dict[str, Any]) -> str:
    own = result["signal"].get("codec", {})
    if "mel_error_db" not in own:
        return "The codec was not measured: no references."
    text = f"Codec resynthesis against the teacher's clip: log-mel error {own['mel_error_db']:.2f} dB"
    if "stoi" in own:
        text += f", STOI {own['stoi']:.3f}, ESTOI {own['estoi']:.3f}"
    spectra = result.get("long_term_spectrum_db", {})
    if spectra:
        parts = [
            f"{row} {speaker} {value:.1f} dB" for row, by in spectra.items() for speaker, value in by.items()
        ]
        text += f". Long-term spectrum against the teacher's, level aside: {', '.join(parts)}"
    return text + "."


def _sessions(result: dict[str, Any]) -> str:
    live = result.get("sessions")
    if not live:
        return "Sessions were not compared."
    count, equal = live["turns_each"], live["equal"]
    return (
        "Sessions (text fed in pieces of five characters, `verbalise` off) gave the samples of the judged path in "
        f"{equal['token']} of {count} turns in token mode, which is the streaming layout, and in {equal['sentence']} "
        f"of {count} turns of three sentences, each in the full layout (largest difference "
        f"{live['largest_difference']:.1e} of full scale: 16-bit rounding). Clicks where sentences are joined: "
        f"{len(live['sentence_join_clicks'])} in {live['sentence_joins']} borders."
    )


def _speed(result: dict[str, Any]) -> str:
    speed = result.get("speed")
    if not speed:
        return "Not measured."
    rtf = speed["rtf"]
    rows = [
        ["talker and code predictor", f"{rtf['talker_cpu']:.3f}", f"{rtf['talker_wall']:.3f}"],
        ["codec", f"{rtf['codec_cpu']:.3f}", f"{rtf['codec_wall']:.3f}"],
    ]
    return "\n\n".join(
        [
            tables.table(["RTF", "CPU time", "wall"], rows),
            f"{speed['precision']}, one thread a stage, median of {speed['utterances']} utterances; the stages run "
            "side by side in a session. "
            f"Loading: {speed['load_wall_s']:.2f} s ({speed['load_cpu_s']:.2f} s of CPU; the first time "
            f"{speed['first_load_wall_s']:.2f} s). Load average then: {speed['load_average_1min']:.1f}.",
        ]
    )


def _samples(result: dict[str, Any]) -> str:
    rows = []
    for sample in result.get("samples", []):
        link = f"[{sample['file']}](../bench/results/voice/{sample['file']})"
        rows.append([sample["row"], sample["speaker"], sample["text"], link, sample["heard"]])
    return tables.table(["", "speaker", "text", "file", "heard"], rows) if rows else "None were kept."


def _method(result: dict[str, Any]) -> str:
    voices = (
        "every speaker speaks every line"
        if result["every_speaker"]
        else "speakers take turns by line and seed, so that each speaks every line with some of the seeds"
    )
    by_letters = f"{endings.BASE_S:.2f} s + {endings.LETTER_S * 1000:.0f} ms a letter"
    return f"""- **Sentences:** `models/recipe/heldout.tsv`; {voices}. Teacher and
  codec have the speakers of seed 0. Default sampling of the model, no language tag,
  text as it is written there.
- **Recogniser:** {result["recogniser"]}, beam 5, no context. Words are compared in lower case with numbers spelled
  out (`models/recipe/tinyvoice/wer.py`); words that are only divided differently are no error.
- **Intervals:** 4,000 draws of sentences with replacement; all clips of a sentence are drawn together.
- **Expected length:** the teacher's clip of the same line and speaker; without references {by_letters}
  (the line that fits the teacher's clips). Truncated: below {endings.SHORT} of it. Runaway: above {endings.LONG} of it,
  or ended by the cap.
- **Pace:** over the time between the first and the last sample of -40 dB, pauses included.
- **Pitch:** YIN every 10 ms, 60 to 450 Hz, frames above -45 dB; means over clips of median, 5 % and 95 %.
- **Clicks:** a second difference within two samples of a border that is more than {TIMES:.0f} times the largest one in
  the {AROUND / 24:.0f} ms on both sides, and more than {SMALLEST}. Every border of frames counts, so any chunk size is
  covered. The middles of the frames, where nothing is joined, tell how often that happens by chance.
- **DNSMOS** (`speechmos`) is a network's guess at listeners' opinions (1 to 5), on every ninth line with seed 0.
- **Not measured:** opinions of listeners, other recognisers, text beside the held-out sentences."""


def write(result: dict[str, Any]) -> list[Path]:
    """Write the page, the card's block and the README's table; returns what was written."""
    PAGE.write_text(page(result), encoding="utf-8")
    card = card_path(result)
    block = tables.put_into(card.read_text(encoding="utf-8"), tables.card(result))
    card.write_text(block, encoding="utf-8")
    text = readme.updated(readme.README.read_text(encoding="utf-8"))
    readme.README.write_text(text, encoding="utf-8")
    return [PAGE, card, readme.README]


__all__ = ["BEGIN", "END", "card_path", "load", "page", "write"]
