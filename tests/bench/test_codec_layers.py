"""The codec's layers alone: the shapes are those of the graph, and a share is of the best that was reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import codec_layers, engine
from rtts_engine.convert import convert
from rtts_engine.graph.writer import Precision
from rtts_engine.manifest import CODEC_DECODER
from tests.checkpoints import write_checkpoint


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_every_product_of_the_graph_is_measured(tmp_path: Path, precision: Precision) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", preset="tiny", kind="base")
    graph = convert(checkpoint, tmp_path / "model", precision) / CODEC_DECODER
    for frames in (1, 3):
        shapes = codec_layers.shapes(graph, precision, frames)
        _, macs = engine.codec_work(graph, frames)
        assert sum(shape.macs * count for shape, count in shapes.items()) == macs
        assert {"conv", "depthwise", "linear", "snake"} == {shape.kind for shape in shapes}
    forms: set[Precision] = {precision, "fp32"}
    result = codec_layers.measure(graph, precision, 1, dict.fromkeys(forms, 1e-9), 1)
    rows = result["rows"]
    assert sum(row["count"] for row in rows) == sum(codec_layers.shapes(graph, precision, 1).values())
    assert max(row["share"] for row in rows if row["share"] is not None) == 1.0
    assert 0 < result["share"] <= 1.0
    assert result["products_bound_ms"] <= result["products_ms"]
