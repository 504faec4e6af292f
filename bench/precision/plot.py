"""The picture of ``bench/results/precision.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(result: dict[str, Any], path: Path) -> None:
    """Loss of every layer, divergence of every codebook's choice, and loss of int8 products, a row for each model."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    models = result["models"]
    figure, axes = plt.subplots(len(models), 3, figsize=(15, 4 * len(models)), squeeze=False)
    for (layers, heads, products), (name, model) in zip(axes, models.items(), strict=True):
        for i, (precision, row) in enumerate(model["precisions"].items()):
            colour = f"C{i}"
            talker = [max(1 - value, 1e-8) for value in row["talker_cosine"]]
            predictor = [max(1 - value, 1e-8) for value in row["predictor_cosine"]]
            layers.semilogy(
                range(1, len(talker) + 1), talker, "o-", color=colour, ms=3, label=f"{precision}, talker"
            )
            places = range(1, len(predictor) + 1)
            layers.semilogy(places, predictor, "s--", color=colour, ms=3, label=f"{precision}, predictor")
            heads.semilogy(
                range(16), [max(v, 1e-9) for v in (row["talker_kl"], *row["predictor_kl"])], "o-", color=colour,
                ms=3, label=precision,
            )  # fmt: skip
            kinds: dict[str, list[float]] = {}
            for product, found in row.get("products", {}).items():
                kind = product.rsplit(".", 1)[1] if "layers" in product else "others"
                kinds.setdefault(f"{kind}", []).append(found["loss"])
                if found["form"] == "rotated":
                    kinds.setdefault(f"{kind}, rotated", []).append(found["rotated_loss"])
            for at, (kind, losses) in enumerate(sorted(kinds.items())):
                products.plot(
                    losses, [at] * len(losses), "|", color="C1" if "rotated" in kind else "C0", ms=12
                )
            if kinds:
                products.set_yticks(range(len(kinds)), sorted(kinds), fontsize=7)
        layers.axhline(5e-4, color="grey", lw=0.5)
        for axis, title, xlabel in (
            (layers, "1 - cosine of hidden states with fp32's", "layer"),
            (heads, "KL divergence of a choice from fp32's", "codebook"),
            (products, "int8: loss of each product", "norm of the error / norm of the result"),
        ):
            axis.set_title(f"{name}: {title}", fontsize=9)
            axis.set_xlabel(xlabel)
        layers.legend(fontsize=6)
        heads.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
