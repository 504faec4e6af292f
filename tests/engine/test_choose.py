"""``--precision auto``: exact where nothing is gained, a measurement otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtts_engine import choose
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.graph.writer import PRECISIONS, Precision

from .conftest import Models


@pytest.mark.parametrize(
    ("measured", "chosen"),
    [
        # ms per 100 million weights on AVX2, on AVX-512 with VNNI and BF16, and two that never were
        ({"fp32": 22.0, "fp16": 13.5, "bf16": 16.0, "int8": 7.0}, "int8"),
        ({"fp32": 15.0, "fp16": 9.0, "bf16": 7.7, "int8": 4.5}, "int8"),
        ({"fp32": 10.0, "fp16": 9.9, "bf16": 9.0, "int8": 8.6}, "fp32"),
        ({"fp32": 10.0, "fp16": 5.0, "bf16": 4.9, "int8": 12.0}, "fp16"),
    ],
)
def test_the_most_exact_that_none_beats_by_far(measured: dict[Precision, float], chosen: Precision) -> None:
    assert choose.best(measured) == chosen


def test_a_small_model_is_not_measured(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "measure", lambda _: pytest.fail("measured"))
    checkpoint = Checkpoint.open(models.checkpoint())
    assert choose.choose_precision(checkpoint) == choose.Choice("fp32", {})


def test_weights_are_counted_without_tables(models: Models) -> None:
    checkpoint = Checkpoint.open(models.checkpoint())
    everything = sum(int(np.prod(checkpoint.main.extent(name)[0])) for name in checkpoint.main)
    text = checkpoint.config.talker.text_vocab_size * checkpoint.config.talker.text_hidden_size
    assert 0 < choose.matrix_weights(checkpoint) < everything - text


def test_every_precision_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_LAYERS", 2)
    measured = choose.choose_precision(folder=tmp_path).measured_ms
    assert list(measured) == list(PRECISIONS)
    assert all(value > 0 for value in measured.values())
    assert list(tmp_path.iterdir()) == []
