"""What the three JSON files of a checkpoint say, as typed values; ``config_json`` reads them.

Field names follow the checkpoint's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

ModelKind = Literal["base", "custom_voice", "voice_design"]
MODEL_KINDS: tuple[ModelKind, ...] = ("base", "custom_voice", "voice_design")

SAMPLE_RATE_HZ = 24_000
"""Rate of all sound in and out of these models; no other is accepted in a config."""
FRAME_SAMPLES = 1920
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
"""Sound of one frame of the 12 Hz codec: 80 ms."""
CONTROL_IDS = 1024
"""So many ids at the end of the codec vocabulary are control ids: only EOS may be chosen among them."""


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """One pre-norm decoder stack (talker or code predictor)."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float


@dataclass(frozen=True, slots=True)
class PredictorConfig:
    """The code predictor (MTP): one stack, ``num_code_groups - 1`` tables and heads."""

    stack: TransformerConfig
    vocab_size: int
    """Size C of an acoustic codebook."""


@dataclass(frozen=True, slots=True)
class CodecIds:
    """Control ids of the codec track (rows of ``talker.model.codec_embedding``)."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int


@dataclass(frozen=True, slots=True)
class TextIds:
    """Control ids of the text track."""

    im_start: int
    im_end: int
    tts_pad: int
    tts_bos: int
    tts_eos: int


@dataclass(frozen=True, slots=True)
class TalkerConfig:
    """The talker stack with its two vocabularies and the names it knows."""

    stack: TransformerConfig
    vocab_size: int
    """Codec ids: the first codes, then ``CONTROL_IDS`` control ids."""
    text_vocab_size: int
    text_hidden_size: int
    num_code_groups: int
    ids: CodecIds
    languages: Mapping[str, int]
    """Language name -> codec id, dialects included (their names contain "dialect")."""
    speakers: Mapping[str, int]
    """Lower-case speaker name -> codec id; empty unless the model is ``custom_voice``."""
    dialects: Mapping[str, str]
    """Speaker name -> dialect name, for the speakers that have one."""
    predictor: PredictorConfig


@dataclass(frozen=True, slots=True)
class SpeakerEncoderConfig:
    """ECAPA-TDNN speaker encoder (x-vector). Defaults are the official code's."""

    enc_dim: int
    mel_dim: int
    channels: tuple[int, ...]
    kernel_sizes: tuple[int, ...]
    dilations: tuple[int, ...]
    attention_channels: int
    res2net_scale: int
    se_channels: int


@dataclass(frozen=True, slots=True)
class CodecDecoderConfig:
    """``speech_tokenizer/config.json: decoder_config``."""

    codebook_size: int
    codebook_dim: int
    """Width after the output projection; the stored codebooks have half of it."""
    num_quantizers: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    head_dim: int
    sliding_window: int
    rope_theta: float
    rms_norm_eps: float
    decoder_dim: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodecEncoderConfig:
    """``speech_tokenizer/config.json: encoder_config`` (a Mimi encoder)."""

    hidden_size: int
    num_filters: int
    kernel_size: int
    last_kernel_size: int
    residual_kernel_size: int
    num_residual_layers: int
    dilation_growth_rate: int
    compress: int
    upsampling_ratios: tuple[int, ...]
    """Strides in decoder order: the encoder walks them backwards."""
    num_layers: int
    num_heads: int
    head_dim: int
    intermediate_size: int
    norm_eps: float
    rope_theta: float
    codebook_size: int
    codebook_dim: int
    vector_quantization_hidden_dimension: int


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The speech tokenizer: 24 kHz in and out, 1920 samples a frame."""

    sample_rate_hz: int
    samples_per_frame: int
    num_quantizers: int
    """``encoder_valid_num_quantizers``: code groups per frame."""
    decoder: CodecDecoderConfig
    encoder: CodecEncoderConfig


TEMPERATURE_RANGE = (1e-5, 1e30)
PENALTY_RANGE = (1e-3, 1e3)
"""Of the repetition penalty; beyond these bounds float32 logits overflow."""


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """``generation_config.json``; fallbacks are the official wrapper's."""

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    subtalker_do_sample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_k: int = 50
    subtalker_top_p: float = 1.0
    max_new_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Everything that the JSON files of a checkpoint say."""

    kind: ModelKind
    size: str
    """``tts_model_size``, for example ``0b6`` or ``1b7``."""
    text_ids: TextIds
    talker: TalkerConfig
    speaker_encoder: SpeakerEncoderConfig | None
    codec: CodecConfig
    generation: GenerationDefaults = field(default_factory=GenerationDefaults)
    text_normalization: Literal["english"] | None = None
    """The model only reads words: text must be written out in this language. None: it reads digits itself."""

    @property
    def instructable(self) -> bool:
        """Whether an instruction reaches the model; the official wrapper drops it for the 0.6B CustomVoice."""
        return self.kind == "voice_design" or (self.kind == "custom_voice" and self.size != "0b6")


LANGUAGE_CODES = {
    "zh": "chinese", "en": "english", "fr": "french", "de": "german", "it": "italian", "ja": "japanese",
    "ko": "korean", "pt": "portuguese", "ru": "russian", "es": "spanish",
}  # fmt: skip
"""ISO 639-1 codes of the languages that the released models speak."""


def full_name(language: str) -> str:
    """A language's name in small letters: "en" and "en-GB" are "english"; what is no code stays."""
    name = language.lower()
    return LANGUAGE_CODES.get(name.replace("_", "-").partition("-")[0], name)


def spoken_languages(languages: Iterable[str]) -> list[str]:
    """What a request may ask for: "auto" and the languages; dialects come with their speakers only."""
    return ["auto", *sorted(name for name in languages if "dialect" not in name)]
