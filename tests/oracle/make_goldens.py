"""Writes ``tests/goldens`` (15 minutes, oracle extra): ``python -m tests.oracle.make_goldens [NAME ...]``."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.checkpoints import GENERATOR_VERSION, checkpoint_digest, write_checkpoint
from tests.goldens import FOLDER

from .audio import from_pcm16, reference_pcm16
from .cases import REF_TEXT, cases_of
from .official import Official, Run

WAVEFORM_FRAMES = 10
HIDDEN_STEPS = 4

# Seeds whose greedy runs partly end at the end of speech and partly go on to the limit.
SETS: dict[str, dict[str, Any]] = {
    "tiny-base": {"preset": "tiny", "kind": "base", "seed": 0},
    "tiny-custom_voice": {"preset": "tiny", "kind": "custom_voice", "seed": 1},
    "tiny-voice_design": {"preset": "tiny", "kind": "voice_design", "seed": 2},
    "tiny17-base": {"preset": "tiny17", "kind": "base", "seed": 1},
    "tiny17-custom_voice": {"preset": "tiny17", "kind": "custom_voice", "seed": 1},
    "tiny17-voice_design": {"preset": "tiny17", "kind": "voice_design", "seed": 0},
    "small-base": {"preset": "small", "kind": "base", "seed": 0},
    "small-custom_voice": {"preset": "small", "kind": "custom_voice", "seed": 0},
    "small-voice_design": {"preset": "small", "kind": "voice_design", "seed": 0},
}
FRAMES = {"tiny": 36, "tiny17": 36, "small": 24}
# Rows and hidden states of these cases are stored (tiny presets).
WITH_ROWS = {
    "xvector_auto_streaming",
    "icl_long_streaming",
    "icl_short_full",
    "eric_auto_instruct_full",
    "vivian_newline_streaming",
    "instruct_full",
}
WITH_WAVEFORM = {"xvector_english_streaming", "icl_short_streaming", "ryan_english_full", "plain_full"}
# Few modes are enough where only the codes are stored.
SMALL_CASES = {
    "xvector_english_streaming",
    "xvector_auto_full",
    "icl_long_streaming",
    "eric_auto_instruct_streaming",
    "ryan_english_full",
    "instruct_full",
    "plain_streaming",
}


def _arrays_of(name: str, run: Run) -> dict[str, Any]:
    arrays: dict[str, Any] = {f"{name}.codes": run.codes.astype(np.int16)}
    if name in WITH_ROWS:
        arrays[f"{name}.prompt"] = run.prompt
        arrays[f"{name}.trailing"] = run.trailing
        arrays[f"{name}.hidden"] = np.stack(run.hidden[:HIDDEN_STEPS])
    if name in WITH_WAVEFORM:
        arrays[f"{name}.waveform"] = run.waveform[: WAVEFORM_FRAMES * 1920]
    return arrays


def make(name: str) -> None:
    """Writes one set."""
    arguments = SETS[name]
    preset, kind = arguments["preset"], arguments["kind"]
    clip = from_pcm16(reference_pcm16())
    arrays: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = write_checkpoint(Path(folder) / "checkpoint", **arguments)
        digest = checkpoint_digest(path)
        official = Official(path)
        voice = None
        if kind == "base":
            voice = official.voice(clip, REF_TEXT)
            arrays["xvector"] = official.xvector(clip)
            arrays["ref_codes"] = official.encode(clip).astype(np.int16)
        for case in cases_of(kind, FRAMES[preset]):
            if preset == "small" and case.name not in SMALL_CASES:
                continue
            started = time.perf_counter()
            run = official.generate(case, voice=voice)
            found = _arrays_of(case.name, run)
            if preset == "small":
                found = {key: value for key, value in found.items() if key.endswith(".codes")}
            arrays |= found
            entries.append({"case": case.to_json(), "ended": run.ended})
            print(
                f"{name}/{case.name}: {len(run.codes)} frames, {len(set(run.codes[:, 0].tolist()))} distinct c0, "
                f"{'end of speech' if run.ended else 'limit'}, {time.perf_counter() - started:.0f} s",
                flush=True,
            )
    meta = {
        "generator_version": GENERATOR_VERSION,
        "checkpoint": arguments,
        "checkpoint_sha256": digest,
        "made_with": {p: importlib.metadata.version(p) for p in ("qwen-tts", "transformers", "torch")},
        "cases": entries,
    }
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
    if kind == "base":
        np.savez_compressed(FOLDER / "reference_clip.npz", pcm16=reference_pcm16())


if __name__ == "__main__":
    for requested in sys.argv[1:] or SETS:
        make(requested)
