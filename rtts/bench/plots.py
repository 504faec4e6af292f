"""Pictures of the figures, for people. Needs matplotlib (extra ``bench``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rtts.errors import RuntimeSetupError
from rtts_engine.files import atomic_path

FORMATS = (".png", ".svg", ".pdf")
STEPS = ("sentence_ms", "prefill_ms", "frame_ms", "pcm_ms", "chunk_ms", "sink_ms")
LABELS = ("first sentence", "prompt read", "first frame", "first samples", "handed out", "at the sink")


def pyplot() -> Any:
    """matplotlib's, without a screen.

    Raises:
        RuntimeSetupError: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise RuntimeSetupError("pictures need matplotlib: pip install 'rtts[bench]'") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def latency(result: dict[str, Any], path: Path) -> None:
    """A waterfall of the way to the first sound of every scenario, and a timeline of one turn."""
    plt = pyplot()
    rows = [row for row in result["rows"] if row["sink_ms"] is not None]
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(10, 4 + 0.3 * len(rows)), height_ratios=(len(rows), 9)
    )
    for y, row in enumerate(rows):
        steps = {**row["timeline_ms"], "sink_ms": row["sink_ms"]}
        left = 0.0
        for index, (step, label) in enumerate(zip(STEPS, LABELS, strict=True)):
            width = max(0.0, (steps[step] or left) - left)
            top.barh(y, width, left=left, color=f"C{index}", label=label if y == 0 else None)
            left += width
        top.plot([row["audible_ms"]], [y], "k|", label="audible" if y == 0 else None)
        told = f"{row['ttfa_ms']:.0f} ms after the text" if row["ttfa_ms"] else "before the text ends"
        top.text(max(left, row["audible_ms"] or 0.0) + 8, y, told, va="center", fontsize=6)
    top.set_yticks(range(len(rows)), [row["scenario"] for row in rows], fontsize=7)
    top.invert_yaxis()
    top.margins(x=0.15)
    top.set_xlim(left=0)
    top.set_xlabel("ms from the first text (medians)")
    top.legend(fontsize=7, ncols=4)
    name = next((name for name in result["examples"] if name.startswith("20 tokens")), None)
    if name is not None:
        _timeline(bottom, name, result["examples"][name])
    _save(plt, figure, path)


def _timeline(axes: Any, name: str, run: dict[str, Any]) -> None:
    for at_ms, start_s, seconds in run["chunks"]:
        axes.plot([at_ms / 1e3] * 2, [start_s, start_s + seconds], color="C0", linewidth=2)
    play_s = (run["sink_ms"] or 0.0) / 1e3
    total_s = sum(seconds for _, _, seconds in run["chunks"])
    axes.plot([play_s, play_s + total_s], [0, total_s], color="C1", label="played")
    text_s = (run["timeline_ms"]["text_end_ms"] or 0.0) / 1e3
    axes.axvline(text_s, color="C7", linestyle=":", label="text complete")
    axes.set_xlabel("s from the first text")
    axes.set_ylabel("position in the sound, s")
    axes.set_title(f"{name}: chunks handed out (bars) and played (line)", fontsize=9)
    axes.legend(fontsize=8)


def throughput(result: dict[str, Any], path: Path) -> None:
    """Frames a second for each number of sessions."""
    rows = result["rows"]
    _bars(
        path,
        [str(row["sessions"]) for row in rows],
        [row["frames_per_s"] for row in rows],
        "sessions at once",
        "frames/s of all (12.5 is real time for one)",
        12.5,
    )


def long(result: dict[str, Any], path: Path) -> None:
    """When each piece of sound was there, and when it was played had nothing been missing, for every scenario."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 5))
    for index, (name, run) in enumerate(result["examples"].items()):
        times = [at_ms / 1e3 for at_ms, _, _ in run["chunks"]]
        ends = [start_s + seconds for _, start_s, seconds in run["chunks"]]
        axes.step(times, ends, where="post", color=f"C{index}", label=name)
    total_s = max(ends[-1:], default=0.0)
    axes.plot([0, total_s], [0, total_s], "k:", label="real time")
    axes.set_xlabel("s from the first text")
    axes.set_ylabel("sound handed out, s")
    axes.legend(fontsize=8)
    _save(plt, figure, path)


def codec(result: dict[str, Any], path: Path) -> None:
    """Milliseconds a frame for each chunk size."""
    rows = result["rows"]
    _bars(
        path,
        [str(row["frames_at_once"]) for row in rows],
        [row["ms_per_frame"] for row in rows],
        "frames at once",
        "ms a frame",
        None,
    )


def barge_in(result: dict[str, Any], path: Path) -> None:
    """When each stage of an interruption is reached."""
    runs = result["runs"]
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 3.5))
    stages = ("first_voice_ms", "duck_ms", "commit_ms", "interrupted_ms", "silent_ms")
    for y, stage in enumerate(stages):
        axes.plot([run[stage] for run in runs], [y] * len(runs), "o", alpha=0.4)
    names = (
        "first frame with voice",
        "turned down",
        "committed",
        "session interrupted",
        "last audible sample",
    )
    axes.set_yticks(range(len(stages)), names)
    axes.invert_yaxis()
    axes.set_xlabel("ms from the onset of the user's voice")
    _save(plt, figure, path)


def _bars(
    path: Path, names: list[str], values: list[float], x_label: str, y_label: str, bar: float | None
) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.5))
    axes.bar(names, values)
    if bar is not None:
        axes.axhline(bar, color="C1", linestyle=":")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    _save(plt, figure, path)


def _save(plt: Any, figure: Any, path: Path) -> None:
    """Complete or not at all."""
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=110, format=path.suffix[1:].lower())
    plt.close(figure)
