"""Curves of a talker run, from its `talker.json`."""

import json
from pathlib import Path

LOSSES = ("c0", "c1", "c2", "c3", "c4-15", "phones", "attention")


def curves(histories: dict[str, Path], out: Path) -> None:
    """One panel per validation loss (nats), one line per run; `histories` maps a label to a `talker.json`."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 4, figsize=(14, 6), constrained_layout=True)
    for label, path in histories.items():
        history = json.loads(path.read_text())
        steps = [h["step"] for h in history]
        for panel, loss in zip(panels.flat, LOSSES, strict=False):
            panel.plot(steps, [h[loss] for h in history], label=label)
            panel.set_title(f"{loss}, validation")
        panels.flat[7].plot(steps, [h["train_c0"] for h in history], label=label)
        panels.flat[7].set_title("c0, training (with noise)")
    for panel in panels.flat:
        panel.set_xlabel("step")
        panel.set_ylim(0, panel.get_ylim()[1])
        panel.grid(alpha=0.3)
    panels.flat[0].legend()
    figure.savefig(out, dpi=80)
