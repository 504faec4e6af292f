"""Cloning against stored results of the official encoders: x-vector and reference codes of one clip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.oracle.parity import cosine_similarity, relative_error
from tests.oracle.voices import codec_encoder, speaker_encoder

from . import NAMES, load, reference_clip

BASE_SETS = [name for name in NAMES if name.endswith("-base")]


@pytest.mark.parametrize("name", BASE_SETS)
def test_xvector_and_reference_codes(tmp_path: Path, name: str) -> None:
    golden, clip = load(name), reference_clip()
    assert golden.xvector is not None
    assert golden.ref_codes is not None
    checkpoint = golden.write_checkpoint(tmp_path / "checkpoint")
    assert np.array_equal(codec_encoder(checkpoint, tmp_path).encode(clip), golden.ref_codes)
    xvector = speaker_encoder(checkpoint, tmp_path).embed(clip)
    assert cosine_similarity(golden.xvector, xvector) >= 0.999999
    assert relative_error(golden.xvector, xvector) < 1e-4
