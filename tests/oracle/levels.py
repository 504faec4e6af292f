"""Measures the signal levels that ``tests/checkpoints/presets.py`` stores: ``python -m tests.oracle.levels tiny``.

Prints the ``Levels`` for the preset on seed 0, and how varied the codes of its encoder are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.checkpoints import PRESETS, write_checkpoint

from .audio import speech_like
from .official import Official


def measure(preset: str, seed: int) -> None:
    """Loads a Base checkpoint of the preset and prints its levels (present constant x measured / wanted)."""
    with tempfile.TemporaryDirectory() as folder:
        official = Official(write_checkpoint(Path(folder), preset=preset, seed=seed))
    levels, rows = PRESETS[preset].levels, PRESETS[preset].codec.codebook_size
    codes = np.random.default_rng(0).integers(0, rows, (48, 16))
    projection = "encoder.quantizer.acoustic_residual_vector_quantizer.input_proj"
    clip = speech_like(24000 * 6, 1)
    with official.outputs_of("decoder.decoder.6", projection) as seen:
        official.decode(codes)
        reference = official.encode(clip)
    final_conv = levels.final_conv * float(seen["decoder.decoder.6"][0].std()) / 0.2
    latent = seen[projection][0]
    speaker = levels.speaker * float(official.xvector(clip).std()) / 0.7
    distinct = [len(np.unique(column)) for column in reference.T]
    print(
        f"{preset} seed {seed}: Levels(final_conv={final_conv:.4g}, encoder_latent={latent.std():.4g}, "
        f"speaker={speaker:.4g})  latent mean {latent.mean():.2g}, {len(reference)} frames, distinct {distinct}"
    )


if __name__ == "__main__":
    for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
        measure(sys.argv[1], number)
