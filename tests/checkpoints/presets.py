"""The shapes a generated checkpoint can have, and the ids that go with them.

``tiny`` and ``tiny17`` are deliberately awkward: no two widths agree where the released models would let them
agree by accident, head widths differ from ``hidden / heads``, special ids and windows differ from the released
ones, so that a constant that should have come from the config fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["base", "custom_voice", "voice_design"]
KINDS: tuple[Kind, ...] = ("base", "custom_voice", "voice_design")

NUM_CODE_GROUPS = 16
"""Codes per frame; fixed for the 12 Hz family."""
CONTROL_IDS = 1024
"""Rows of the talker's codec vocabulary above the acoustic codebook: languages, speakers, control ids."""


@dataclass(frozen=True)
class StackDims:
    """One pre-norm transformer stack (talker or code predictor)."""

    hidden: int
    inter: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class SpeakerDims:
    """The ECAPA-TDNN speaker encoder; the output width is the talker's."""

    channels: int
    attention: int
    squeeze: int
    res2net_scale: int


@dataclass(frozen=True)
class CodecDims:
    """Codec decoder (first block) and encoder (``enc_*``). The stored codebooks have half of ``codebook_dim``."""

    codebook_size: int
    codebook_dim: int
    latent: int
    hidden: int
    inter: int
    layers: int
    heads: int
    head_dim: int
    window: int
    decoder_dim: int
    enc_filters: int
    enc_hidden: int
    enc_layers: int
    enc_heads: int
    enc_inter: int
    enc_codebook_dim: int
    enc_quantizers: int = 32
    convnext_expansion: int = 4
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)
    enc_ratios: tuple[int, ...] = (8, 6, 5, 4)


@dataclass(frozen=True)
class Levels:
    """Signal levels that a released checkpoint gets from training and a random one needs to be told.

    Each was measured once with the official package on seed 0 of the preset
    (``python -m tests.oracle.levels PRESET``) and holds for other seeds within about a factor of two, which is
    all that varied codes and an unclipped waveform need.
    """

    final_conv: float
    """Standard deviation of the codec decoder's last convolution with unit-gain weights."""
    encoder_latent: float
    """Standard deviation of the codec encoder's latent after the quantisers' input projections."""
    speaker: float
    """Standard deviation of the x-vector with unit-gain weights."""


@dataclass(frozen=True)
class Preset:
    """Everything that decides the shapes and ids of a checkpoint."""

    name: str
    size_tag: str
    """``tts_model_size``: "0b6" ignores instructions, "1b7" honours them."""
    talker: StackDims
    predictor: StackDims
    mrope_section: tuple[int, int, int]
    text_hidden: int
    text_vocab: int
    real_text_ids: bool
    """Filler entries move the added tokens to the ids of the released tokenizer."""
    speaker: SpeakerDims
    codec: CodecDims
    levels: Levels

    @property
    def has_projection(self) -> bool:
        """Whether ``small_to_mtp_projection`` exists: the predictor's width differs from the talker's."""
        return self.talker.hidden != self.predictor.hidden


_TINY_CODEC = CodecDims(
    codebook_size=64,
    codebook_dim=32,
    latent=44,
    hidden=36,
    inter=56,
    layers=2,
    heads=3,
    head_dim=16,
    window=12,
    decoder_dim=80,
    enc_filters=6,
    enc_hidden=40,
    enc_layers=2,
    enc_heads=2,
    enc_inter=72,
    enc_codebook_dim=16,
)

_SMALL_CODEC = CodecDims(
    codebook_size=2048,
    codebook_dim=64,
    latent=96,
    hidden=64,
    inter=128,
    layers=3,
    heads=4,
    head_dim=16,
    window=72,
    decoder_dim=96,
    enc_filters=8,
    enc_hidden=64,
    enc_layers=2,
    enc_heads=2,
    enc_inter=128,
    enc_codebook_dim=32,
)

_REAL_CODEC = CodecDims(
    codebook_size=2048,
    codebook_dim=512,
    latent=1024,
    hidden=512,
    inter=1024,
    layers=8,
    heads=16,
    head_dim=64,
    window=72,
    decoder_dim=1536,
    enc_filters=64,
    enc_hidden=512,
    enc_layers=8,
    enc_heads=8,
    enc_inter=2048,
    enc_codebook_dim=256,
)

_TINY = Preset(
    name="tiny",
    size_tag="0b6",
    talker=StackDims(hidden=64, inter=136, layers=3, heads=4, kv_heads=2, head_dim=24),
    predictor=StackDims(hidden=64, inter=104, layers=2, heads=3, kv_heads=1, head_dim=20),
    mrope_section=(4, 4, 4),
    text_hidden=80,
    text_vocab=701,
    real_text_ids=False,
    speaker=SpeakerDims(channels=32, attention=12, squeeze=10, res2net_scale=4),
    codec=_TINY_CODEC,
    levels=Levels(final_conv=10.7, encoder_latent=0.7, speaker=1.9),
)

_REAL_06B = Preset(
    name="0.6b",
    size_tag="0b6",
    talker=StackDims(hidden=1024, inter=3072, layers=28, heads=16, kv_heads=8, head_dim=128),
    predictor=StackDims(hidden=1024, inter=3072, layers=5, heads=16, kv_heads=8, head_dim=128),
    mrope_section=(24, 20, 20),
    text_hidden=2048,
    text_vocab=151936,
    real_text_ids=True,
    speaker=SpeakerDims(channels=512, attention=128, squeeze=128, res2net_scale=8),
    codec=_REAL_CODEC,
    levels=Levels(final_conv=9.8, encoder_latent=0.95, speaker=3.6),
)

PRESETS: dict[str, Preset] = {
    "tiny": _TINY,
    "tiny17": replace(
        _TINY,
        name="tiny17",
        size_tag="1b7",
        talker=StackDims(hidden=92, inter=160, layers=3, heads=6, kv_heads=2, head_dim=20),
        predictor=StackDims(hidden=60, inter=96, layers=3, heads=4, kv_heads=2, head_dim=16),
        mrope_section=(4, 3, 3),
        text_hidden=72,
    ),
    "small": Preset(
        name="small",
        size_tag="0b6",
        talker=StackDims(hidden=128, inter=256, layers=4, heads=4, kv_heads=2, head_dim=32),
        predictor=StackDims(hidden=128, inter=256, layers=3, heads=4, kv_heads=2, head_dim=32),
        mrope_section=(6, 5, 5),
        text_hidden=64,
        text_vocab=151936,
        real_text_ids=True,
        speaker=SpeakerDims(channels=64, attention=32, squeeze=32, res2net_scale=8),
        codec=_SMALL_CODEC,
        levels=Levels(final_conv=10.2, encoder_latent=0.8, speaker=2.0),
    ),
    "0.6b": _REAL_06B,
    "1.7b": replace(
        _REAL_06B,
        name="1.7b",
        size_tag="1b7",
        talker=replace(_REAL_06B.talker, hidden=2048, inter=6144),
    ),
}
"""By name.

``tiny`` 3 MB, 0.6B topology; ``tiny17`` 3 MB, 1.7B topology (predictor projection, instructions honoured); ``small``
60 MB, real vocabularies and ids over narrow layers; ``0.6b`` 2.5 GB and ``1.7b`` 4.5 GB, the released dimensions. Of
the tiny ones tiny17 reaches the end of speech in most greedy runs (seeds 0, 1), tiny does so with seeds 1 and 2.
"""


# Offsets from the acoustic codebook size (2048 in the released models).
LANGUAGE_OFFSETS: dict[str, int] = {
    "chinese": 7,
    "english": 2,
    "german": 5,
    "italian": 22,
    "portuguese": 23,
    "spanish": 6,
    "japanese": 10,
    "korean": 16,
    "french": 13,
    "russian": 21,
}
DIALECT_OFFSETS: dict[str, int] = {"beijing_dialect": 26, "sichuan_dialect": 14}
SPEAKER_OFFSETS: dict[str, int] = {
    "serena": 1018,
    "vivian": 1017,
    "uncle_fu": 962,
    "ryan": 1013,
    "aiden": 813,
    "ono_anna": 825,
    "sohee": 816,
    "eric": 827,
    "dylan": 830,
}
SPEAKER_DIALECTS: dict[str, str] = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
