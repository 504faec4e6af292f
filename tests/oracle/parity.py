"""Comparing our engine with the official package: how a case is run on ours, and how far two results are apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtts_engine.generate import FrameStream
from rtts_engine.model import Model
from rtts_engine.prompt import CloneVoice, LivePrompt, Manner
from rtts_engine.request import Settings
from rtts_engine.sampling import Draw, Sampling

from .cases import Case

FloatArray = NDArray[np.float32]

GREEDY = Sampling(Draw(do_sample=False), Draw(do_sample=False))


def clone_voice(case: Case, xvector: FloatArray, ref_codes: NDArray[Any]) -> CloneVoice:
    """The voice a Base case speaks with."""
    if case.clone == "icl":
        return CloneVoice(xvector, ref_codes.astype(np.int32), case.ref_text)
    return CloneVoice(xvector)


def live_prompt(model: Model, case: Case, voice: CloneVoice | None) -> LivePrompt:
    """The case's prompt, tokenised as the official package does."""
    manner = Manner(language=case.language, speaker=case.speaker, voice=voice, instruct=case.instruct)
    return model.prompts.start(case.text, manner, layout=case.layout, literal=True)


def prompt_rows(model: Model, case: Case, voice: CloneVoice | None) -> tuple[FloatArray, FloatArray]:
    """(L, D) prompt and (N, D) trailing rows."""
    manner = Manner(language=case.language, speaker=case.speaker, voice=voice, instruct=case.instruct)
    prompt = model.prompts.build(case.text, manner, layout=case.layout, literal=True)
    return prompt.rows, prompt.trailing


def greedy_stream(model: Model, case: Case, voice: CloneVoice | None) -> FrameStream:
    """The case's frames, greedy, up to its limit."""
    settings = Settings(sampling=GREEDY, max_frames=case.frames)
    return model.stream(live_prompt(model, case, voice), settings)


def greedy_codes(model: Model, case: Case, voice: CloneVoice | None) -> tuple[NDArray[np.int32], bool]:
    """(T, 16) codes, and whether the model ended them before the limit."""
    stream = greedy_stream(model, case, voice)
    frames = list(stream)
    codes = np.stack(frames) if frames else np.zeros((0, 16), np.int32)
    return codes, len(codes) < case.frames


def decode_after_reference(
    model: Model, case: Case, voice: CloneVoice | None, codes: NDArray[Any]
) -> FloatArray:
    """The waveform of generated codes; behind the reference frames in the ICL mode (semantics 4.5)."""
    state = model.codec.init_state()
    if case.clone == "icl" and voice is not None and voice.ref_codes is not None:
        model.codec.prime(state, voice.ref_codes)
    return model.codec.decode(state, codes.astype(np.int32))


def snr_db(reference: FloatArray, ours: FloatArray) -> float:
    """Signal-to-noise ratio of ``ours`` over the common length, in dB (inf when equal)."""
    length = min(len(reference), len(ours))
    signal, noise = (
        reference[:length].astype(np.float64),
        (reference[:length] - ours[:length]).astype(np.float64),
    )
    power = float(np.sum(noise**2))
    return float("inf") if power == 0 else 10 * float(np.log10(np.sum(signal**2) / power))


def cosine_similarity(reference: FloatArray, ours: FloatArray) -> float:
    """Of two vectors, in float64."""
    a, b = reference.astype(np.float64), ours.astype(np.float64)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def relative_error(reference: FloatArray, ours: FloatArray) -> float:
    """Largest absolute difference over the largest absolute value of the reference."""
    return float(np.max(np.abs(reference - ours)) / max(float(np.max(np.abs(reference))), 1e-30))


def first_divergence(
    official: NDArray[Any], ours: NDArray[Any], logits: list[FloatArray], predictor_logits: list[FloatArray]
) -> str:
    """Where two code matrices part, and by how much the official model preferred its own choice there."""
    length = min(len(official), len(ours))
    different = np.argwhere(official[:length] != ours[:length])
    if not len(different):
        return f"equal for {length} frames, then {len(official)} official and {len(ours)} of ours"
    frame, group = (int(i) for i in different[0])
    scores = logits[frame] if group == 0 else predictor_logits[15 * frame + group - 1]
    theirs, mine = int(official[frame, group]), int(ours[frame, group])
    return (
        f"frame {frame} code {group}: official {theirs}, ours {mine}; official raw logits "
        f"{scores[theirs]:.6f} and {scores[mine]:.6f}, gap {scores[theirs] - scores[mine]:.2e}"
    )


@dataclass
class Report:
    """What an oracle run found, for the committed parity page."""

    modules: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """(preset, module, length) -> relative error."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """One entry per greedy run."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Single figures by name."""

    def to_json(self, versions: dict[str, str]) -> dict[str, Any]:
        rows = [
            {"preset": preset, "module": module, "length": length, "relative_error": error}
            for (preset, module, length), error in self.modules.items()
        ]
        return {"versions": versions, "greedy_runs": self.runs, "figures": self.facts, "modules": rows}


def parity_page(results: list[dict[str, Any]]) -> str:
    """docs/parity.md from the results of the oracle runs, each a ``Report.to_json``."""
    lines = ["# Parity with the official package", ""]
    lines += [
        "Written by `pytest -m oracle` and `pytest -m oracle_real` (tests/oracle) on checkpoints with random"
    ]
    lines += [
        "weights, fp32, CPU. SNR and errors are of our engine against the official package's own output."
    ]
    for result in results:
        presets = sorted({run["preset"] for run in result["greedy_runs"]})
        lines += ["", f"## {', '.join(presets)}", ""]
        lines += [", ".join(f"{name} {version}" for name, version in result["versions"].items()) + "."]
        lines += ["", *_run_lines(result["greedy_runs"])]
        if result["figures"]:
            lines += ["", "| figure | value |", "|---|---|"]
            lines += [f"| {name} | {value} |" for name, value in result["figures"].items()]
        if result["modules"]:
            lines += ["", "Largest difference over largest value, per module:", ""]
            lines += ["| preset | module | length | relative error |", "|---|---|---|---|"]
            lines += [
                f"| {row['preset']} | {row['module']} | {row['length']} | {row['relative_error']:.1e} |"
                for row in result["modules"]
            ]
    return "\n".join(lines) + "\n"


def _run_lines(runs: list[dict[str, Any]]) -> list[str]:
    """Greedy runs summed up per preset and kind."""
    lines = ["| preset | kind | greedy runs | equal | frames | ended by themselves | lowest SNR |"]
    lines += ["|---|---|---|---|---|---|---|"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["preset"], run["kind"]), []).append(run)
    groups[("all", "")] = runs
    for (preset, kind), group in groups.items():
        equal, frames, ended = (sum(run[key] for run in group) for key in ("equal", "frames", "ended"))
        worst = min(run["snr_db"] for run in group)
        lines += [f"| {preset} | {kind} | {len(group)} | {equal} | {frames} | {ended} | {worst:.0f} dB |"]
    return lines
