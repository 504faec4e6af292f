"""Figures of an evaluation, and spectrograms of one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.voice import endings, spectra
from bench.voice.recipe import KINDS
from bench.voice.summary import Judged, by_row

F32 = npt.NDArray[np.float32]


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def figures(
    result: Mapping[str, Any], clips: Sequence[Judged], teacher_s: Mapping[tuple[int, int], float], path: Path
) -> None:
    """Word error rates by kind with intervals, lengths against the teacher's, pitch by speaker."""
    plt = _pyplot()
    figure, (top, middle, bottom) = plt.subplots(3, 1, figsize=(9, 10))
    groups = ["all", *(kind for kind in KINDS if kind in result["sentences"])]
    rows = list(result["wer"])
    width = 0.8 / len(rows)
    for index, row in enumerate(rows):
        own = [result["wer"][row][group] for group in groups]
        rate = np.array([100 * each["rate"] for each in own])
        low, high = (np.array([100 * each[end] for each in own]) for end in ("low", "high"))
        at = np.arange(len(groups)) + (index - (len(rows) - 1) / 2) * width
        error = np.maximum([rate - low, high - rate], 0)
        top.bar(at, rate, width, yerr=error, label=row, error_kw={"elinewidth": 0.8}, color=f"C{index}")
    top.set_xticks(range(len(groups)), groups)
    highest = max(100 * own[group]["rate"] for own in result["wer"].values() for group in groups)
    top.set_ylim(0, 1.15 * highest + 1)
    top.set_ylabel("WER, %, with 95 % interval")
    top.legend(fontsize=8)
    kept = by_row(clips)
    edges = np.linspace(0.3, 2.0, 69)
    for row in ("full", "streaming"):
        ratios = [
            clip.seconds / endings.expected_s(clip.text, clip.line, clip.speaker_id, teacher_s)
            for clip in kept.get(row, [])
        ]
        shown = np.clip(ratios, edges[0], edges[-1])
        middle.hist(shown, edges, alpha=0.55, label=row, color=f"C{rows.index(row)}" if row in rows else None)
    for limit in (endings.SHORT, endings.LONG):
        middle.axvline(limit, color="black", linewidth=0.8, linestyle="--")
    middle.set_yscale("symlog", linthresh=1)
    middle.set_xlabel("length / expected length (beyond the dashed lines: truncated, runaway)")
    middle.set_ylabel("utterances")
    middle.legend(fontsize=8)
    speakers = sorted({clip.speaker for clip in clips})
    data, names = [], []
    for speaker in speakers:
        for row in kept:
            medians = [
                clip.measured["pitch_median_hz"]
                for clip in kept[row]
                if clip.speaker == speaker and clip.record.get("measured", {}).get("pitch_median_hz")
            ]
            if medians:
                data.append(medians)
                names.append(f"{speaker}\n{row}")
    if data:
        bottom.boxplot(data, tick_labels=names, whis=(5, 95), showfliers=False)
    bottom.set_ylabel("median pitch of a clip, Hz")
    bottom.tick_params(axis="x", labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)


def spectrograms(panels: Sequence[tuple[str, F32]], path: Path) -> None:
    """Log-mel spectrograms, one below the other, on one time axis."""
    plt = _pyplot()
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 1.7 * len(panels)), sharex=True, squeeze=False)
    for axis, (title, samples) in zip(axes[:, 0], panels, strict=True):
        image = spectra.log_mel(samples)
        seconds = len(samples) / spectra.RATE_HZ
        axis.imshow(
            image, origin="lower", aspect="auto", extent=(0, seconds, 0, spectra.BANDS), vmin=-50, vmax=40
        )
        axis.set_title(title, fontsize=8)
        axis.set_ylabel("mel band", fontsize=7)
        axis.tick_params(labelsize=7)
    longest = max(len(samples) for _, samples in panels) / spectra.RATE_HZ
    axes[-1, 0].set_xlim(0, longest)
    axes[-1, 0].set_xlabel("s", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)
