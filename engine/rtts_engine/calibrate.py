"""What int8 needs to know about a network before it is written: how large its inputs become."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.codec import CodecDecoder
from rtts_engine.errors import CheckpointError
from rtts_engine.graph.codec_decoder import codec_tables, quantised_convs, write_codec_decoder
from rtts_engine.runtime import Net

_FRAMES = 24
_HELD_FRAMES = 4


def codec_ranges(checkpoint: Checkpoint, folder: Path) -> dict[str, float]:
    """The ranges of ``write_codec_decoder`` for an int8 decoder.

    The fp32 decoder decodes codes drawn at random, each frame new and then each held for a while. Measured on the
    shipped voice: ranges of its own speech give a sound that is closer to fp32 by 1 dB, no more.

    Args:
        checkpoint: the open checkpoint.
        folder: room for the fp32 decoder while this runs.

    Raises:
        CheckpointError: a tensor is missing, or the decoder's values are not finite.
    """
    config = checkpoint.config.codec
    with tempfile.TemporaryDirectory(dir=folder, prefix=".calibration") as work:
        stem = Path(work) / "codec"
        tables = codec_tables(checkpoint) | write_codec_decoder(checkpoint, stem, "fp32")
        decoder = CodecDecoder(Net(stem), config, tables)
    codes = calibration_codes(config.decoder.codebook_size, config.decoder.num_quantizers)
    found = decoder.input_ranges(codes, quantised_convs(config.decoder))
    for name, value in found.items():
        if not np.isfinite(value):
            raise CheckpointError(
                f"{checkpoint.path}: the codec decoder's values are {value} at {name!r}; its weights are damaged, "
                "download the checkpoint again"
            )
    return {name: max(value, 1e-6) for name, value in found.items()}


def calibration_codes(codebook_size: int, groups: int) -> npt.NDArray[np.int64]:
    """The same codes (frames, groups) every time."""
    rng = np.random.default_rng(0)
    new = rng.integers(0, codebook_size, (_FRAMES, groups))
    held = rng.integers(0, codebook_size, (_FRAMES // _HELD_FRAMES, groups)).repeat(_HELD_FRAMES, axis=0)
    return np.concatenate([new, held])
