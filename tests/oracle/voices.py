"""Our two encoders straight from a checkpoint, without converting the rest of it."""

from __future__ import annotations

from pathlib import Path

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.codec_encoder import CodecEncoder
from rtts_engine.graph.codec_encoder import codec_encoder_tables, write_codec_encoder
from rtts_engine.graph.speaker_encoder import write_speaker_encoder
from rtts_engine.runtime import Net
from rtts_engine.speaker import SpeakerEncoder


def codec_encoder(checkpoint: Path, folder: Path) -> CodecEncoder:
    """Reference codes of a clip; ``folder`` takes the graph."""
    opened = Checkpoint.open(checkpoint)
    write_codec_encoder(opened, folder / "codec_encoder")
    return CodecEncoder(Net(folder / "codec_encoder"), opened.config.codec, codec_encoder_tables(opened))


def speaker_encoder(checkpoint: Path, folder: Path) -> SpeakerEncoder:
    """x-vector of a clip; the checkpoint is a Base model."""
    opened = Checkpoint.open(checkpoint)
    write_speaker_encoder(opened, folder / "speaker_encoder")
    assert opened.config.speaker_encoder is not None
    return SpeakerEncoder(Net(folder / "speaker_encoder"), opened.config.speaker_encoder)
