"""Reads and validates the three JSON files of a checkpoint.

Every number comes from the files: the defaults of the reference classes do not describe the released models. The
few values that the released files leave out (the speaker encoder's layer table) have the defaults of the official
code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from rtts_engine.config import (
    CONTROL_IDS,
    MODEL_KINDS,
    PENALTY_RANGE,
    SAMPLE_RATE_HZ,
    TEMPERATURE_RANGE,
    CodecConfig,
    CodecDecoderConfig,
    CodecEncoderConfig,
    CodecIds,
    GenerationDefaults,
    ModelConfig,
    ModelKind,
    PredictorConfig,
    SpeakerEncoderConfig,
    TalkerConfig,
    TextIds,
    TransformerConfig,
)
from rtts_engine.errors import CheckpointError, ConfigError
from rtts_engine.files import read_text, reason

MODEL_TYPE = "qwen3_tts"
TOKENIZER_TYPE = "qwen3_tts_tokenizer_12hz"

MAX_THETA = 1e12
"""Base of the rotary embedding (released: 1e4 and 1e6)."""
MAX_STAGES = 64
"""Entries of a list of rates, channels or kernel sizes."""
MAX_WINDOW = 4096
"""Columns that the codec's transformer looks back (released: 72): its state is allocated when a model is loaded."""


class Fields:
    """One JSON object with typed access; an error names the file, the field and the value."""

    def __init__(self, where: str, prefix: str, data: Mapping[str, Any]) -> None:
        self._where = where
        self._prefix = prefix
        self._data = data

    def _name(self, key: str) -> str:
        return f"{self._where}: {self._prefix}{key}"

    def fail(self, key: str, expected: str) -> ConfigError:
        if key not in self._data:
            return ConfigError(f"{self._name(key)} is missing (expected {expected})")
        shown = repr(self._data[key])
        return ConfigError(f"{self._name(key)} is {shown[:80]}, expected {expected}")

    def has(self, key: str) -> bool:
        return self._data.get(key) is not None

    def integer(self, key: str, *, low: int = 1, high: int = 2**31 - 1, default: int | None = None) -> int:
        value = self._data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"an integer from {low} to {high}")
        return value

    def number(self, key: str, *, low: float, high: float, default: float | None = None) -> float:
        value = self._data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(key, "a number")
        if not low <= value <= high:  # NaN is not; an integer may be too large for a float
            raise self.fail(key, f"a number from {low:g} to {high:g}")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._data.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._data.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, "a string")
        return value

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        value = self._data.get(key, default)
        if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MAX_STAGES:
            raise self.fail(key, f"a list of 1 to {MAX_STAGES} positive integers")
        if any(isinstance(v, bool) or not isinstance(v, int) or not 1 <= v < 2**31 for v in value):
            raise self.fail(key, "a list of positive integers")
        return tuple(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._data.get(key)
        if not isinstance(value, dict):
            raise self.fail(key, "an object")
        return cast("Mapping[str, Any]", value)

    def section(self, key: str) -> Fields:
        return Fields(self._where, f"{self._prefix}{key}.", self.mapping(key))

    def must_be(self, key: str, expected: object, default: object = None) -> None:
        """A field whose other values this engine does not implement."""
        if self._data.get(key, default) != expected:
            raise self.fail(key, f"{expected!r} (nothing else is supported)")


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``; a clear error when it is absent, damaged or not an object."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is this a Qwen3-TTS checkpoint directory?") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)})") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); download the file again") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); download the file again") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: holds {type(data).__name__}, expected a JSON object")
    return data


def _stack(f: Fields) -> TransformerConfig:
    f.must_be("hidden_act", "silu", "silu")
    f.must_be("attention_bias", False, False)
    f.must_be("use_sliding_window", False, False)
    stack = TransformerConfig(
        hidden_size=f.integer("hidden_size"),
        intermediate_size=f.integer("intermediate_size"),
        num_layers=f.integer("num_hidden_layers", high=1024),
        num_heads=f.integer("num_attention_heads", high=1024),
        num_kv_heads=f.integer("num_key_value_heads", high=1024),
        head_dim=f.integer("head_dim", low=2, high=4096),
        rms_norm_eps=f.number("rms_norm_eps", low=0.0, high=1.0),
        rope_theta=f.number("rope_theta", low=1.0, high=MAX_THETA),
    )
    if stack.num_heads % stack.num_kv_heads:
        raise f.fail("num_key_value_heads", f"a divisor of num_attention_heads ({stack.num_heads})")
    if stack.head_dim % 2:
        raise f.fail("head_dim", "an even number")
    return stack


def _named_ids(f: Fields, key: str, vocab_size: int) -> dict[str, int]:
    ids: dict[str, int] = {}
    for name, value in f.mapping(key).items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < vocab_size:
            raise f.fail(key, f"names with ids below talker_config.vocab_size ({vocab_size})")
        ids[name.lower()] = value
    return ids


def _talker(f: Fields) -> TalkerConfig:
    p = f.section("code_predictor_config")
    groups = f.integer("num_code_groups", low=2, high=64)
    if p.integer("num_code_groups", default=groups) != groups:
        raise p.fail("num_code_groups", f"{groups}, as in talker_config")
    vocab = f.integer("vocab_size", low=CONTROL_IDS + 1)
    last = vocab - 1
    predictor = PredictorConfig(stack=_stack(p), vocab_size=p.integer("vocab_size", high=vocab - CONTROL_IDS))
    languages = _named_ids(f, "codec_language_id", vocab)
    speakers = _named_ids(f, "spk_id", vocab) if f.has("spk_id") else {}
    dialects: dict[str, str] = {}
    for name, value in (f.mapping("spk_is_dialect") if f.has("spk_is_dialect") else {}).items():
        if value is False:
            continue
        if not isinstance(value, str) or value.lower() not in languages:
            raise f.fail("spk_is_dialect", "false or a name in codec_language_id for every speaker")
        dialects[name.lower()] = value.lower()
    return TalkerConfig(
        stack=_stack(f),
        vocab_size=vocab,
        text_vocab_size=f.integer("text_vocab_size"),
        text_hidden_size=f.integer("text_hidden_size"),
        num_code_groups=groups,
        ids=CodecIds(
            pad=f.integer("codec_pad_id", low=0, high=last),
            bos=f.integer("codec_bos_id", low=0, high=last),
            eos=f.integer("codec_eos_token_id", low=0, high=last),
            think=f.integer("codec_think_id", low=0, high=last),
            nothink=f.integer("codec_nothink_id", low=0, high=last),
            think_bos=f.integer("codec_think_bos_id", low=0, high=last),
            think_eos=f.integer("codec_think_eos_id", low=0, high=last),
        ),
        languages=languages,
        speakers=speakers,
        dialects=dialects,
        predictor=predictor,
    )


def _speaker_encoder(f: Fields, hidden_size: int) -> SpeakerEncoderConfig:
    f.must_be("sample_rate", SAMPLE_RATE_HZ, SAMPLE_RATE_HZ)
    config = SpeakerEncoderConfig(
        enc_dim=f.integer("enc_dim", default=1024),
        mel_dim=f.integer("mel_dim", default=128),
        channels=f.integers("enc_channels", (512, 512, 512, 512, 1536)),
        kernel_sizes=f.integers("enc_kernel_sizes", (5, 3, 3, 3, 1)),
        dilations=f.integers("enc_dilations", (1, 2, 3, 4, 1)),
        attention_channels=f.integer("enc_attention_channels", default=128),
        res2net_scale=f.integer("enc_res2net_scale", low=2, default=8),
        se_channels=f.integer("enc_se_channels", default=128),
    )
    if config.enc_dim != hidden_size:
        raise f.fail("enc_dim", f"{hidden_size}, the talker's hidden_size")
    if not len(config.channels) == len(config.kernel_sizes) == len(config.dilations) >= 3:
        raise f.fail("enc_channels", "as many entries as enc_kernel_sizes and enc_dilations, at least 3")
    if any(k % 2 == 0 for k in config.kernel_sizes):
        raise f.fail("enc_kernel_sizes", "odd numbers")
    if any(c % config.res2net_scale for c in config.channels[1:-1]):
        raise f.fail("enc_res2net_scale", "a divisor of every inner channel count")
    if config.channels[-1] != sum(config.channels[1:-1]):
        raise f.fail("enc_channels", "a last entry that is the sum of the inner ones")
    return config


def _codec_decoder(f: Fields) -> CodecDecoderConfig:
    f.must_be("hidden_act", "silu", "silu")
    f.must_be("attention_bias", False, False)
    f.must_be("num_semantic_quantizers", 1, 1)
    config = CodecDecoderConfig(
        codebook_size=f.integer("codebook_size", low=2, high=2**20),
        codebook_dim=f.integer("codebook_dim", low=2),
        num_quantizers=f.integer("num_quantizers", low=2, high=64),
        latent_dim=f.integer("latent_dim"),
        hidden_size=f.integer("hidden_size"),
        intermediate_size=f.integer("intermediate_size"),
        num_layers=f.integer("num_hidden_layers", high=1024),
        num_heads=f.integer("num_attention_heads", high=1024),
        head_dim=f.integer("head_dim", low=2),
        sliding_window=f.integer("sliding_window", low=2, high=MAX_WINDOW),
        rope_theta=f.number("rope_theta", low=1.0, high=MAX_THETA),
        rms_norm_eps=f.number("rms_norm_eps", low=0.0, high=1.0),
        decoder_dim=f.integer("decoder_dim"),
        upsample_rates=f.integers("upsample_rates"),
        upsampling_ratios=f.integers("upsampling_ratios"),
    )
    if f.integer("num_key_value_heads", default=config.num_heads) != config.num_heads:
        raise f.fail("num_key_value_heads", f"num_attention_heads ({config.num_heads})")
    if config.decoder_dim % 2 ** len(config.upsample_rates):
        raise f.fail("decoder_dim", f"a multiple of {2 ** len(config.upsample_rates)}")
    if config.codebook_dim % 2 or config.head_dim % 2:
        raise f.fail("codebook_dim", "an even number (and an even head_dim)")
    return config


def _codec_encoder(f: Fields) -> CodecEncoderConfig:
    for key, expected in (
        ("hidden_act", "gelu"),
        ("use_causal_conv", True),
        ("pad_mode", "constant"),
        ("use_conv_shortcut", False),
        ("audio_channels", 1),
        ("num_semantic_quantizers", 1),
        ("attention_bias", False),
    ):
        f.must_be(key, expected, expected)
    hidden = f.integer("hidden_size")
    heads = f.integer("num_attention_heads", high=1024)
    if f.integer("num_key_value_heads", default=heads) != heads:
        raise f.fail("num_key_value_heads", f"num_attention_heads ({heads})")
    head_dim = f.integer("head_dim", low=2, default=max(2, hidden // heads))
    if head_dim % 2:
        raise f.fail("head_dim", "an even number")
    return CodecEncoderConfig(
        hidden_size=hidden,
        num_filters=f.integer("num_filters"),
        kernel_size=f.integer("kernel_size"),
        last_kernel_size=f.integer("last_kernel_size"),
        residual_kernel_size=f.integer("residual_kernel_size"),
        num_residual_layers=f.integer("num_residual_layers", high=64),
        dilation_growth_rate=f.integer("dilation_growth_rate", high=64),
        compress=f.integer("compress"),
        upsampling_ratios=f.integers("upsampling_ratios"),
        num_layers=f.integer("num_hidden_layers", high=1024),
        num_heads=heads,
        head_dim=head_dim,
        intermediate_size=f.integer("intermediate_size"),
        norm_eps=f.number("norm_eps", low=0.0, high=1.0),
        rope_theta=f.number("rope_theta", low=1.0, high=MAX_THETA),
        codebook_size=f.integer("codebook_size", low=2, high=2**20),
        codebook_dim=f.integer("codebook_dim"),
        vector_quantization_hidden_dimension=f.integer("vector_quantization_hidden_dimension"),
    )


def _codec(where: str, data: Mapping[str, Any]) -> CodecConfig:
    f = Fields(where, "", data)
    model_type = data.get("model_type")
    if model_type != TOKENIZER_TYPE:
        raise ConfigError(
            f"{where}: model_type is {model_type!r}; only the 12 Hz codec ({TOKENIZER_TYPE!r}) is supported"
        )
    f.must_be("input_sample_rate", SAMPLE_RATE_HZ)
    f.must_be("output_sample_rate", SAMPLE_RATE_HZ)
    decoder = _codec_decoder(f.section("decoder_config"))
    encoder = _codec_encoder(f.section("encoder_config"))
    per_frame = f.integer("decode_upsample_rate")
    if math.prod(decoder.upsample_rates) * math.prod(decoder.upsampling_ratios) != per_frame:
        raise f.fail("decode_upsample_rate", "the product of upsample_rates and upsampling_ratios")
    if f.integer("encode_downsample_rate") != 2 * math.prod(encoder.upsampling_ratios):
        raise f.fail("encode_downsample_rate", "twice the product of encoder_config.upsampling_ratios")
    groups = f.integer("encoder_valid_num_quantizers", low=2, high=64)
    if groups != decoder.num_quantizers:
        raise f.fail(
            "encoder_valid_num_quantizers", f"decoder_config.num_quantizers ({decoder.num_quantizers})"
        )
    return CodecConfig(SAMPLE_RATE_HZ, per_frame, groups, decoder, encoder)


def _generation(where: str, data: Mapping[str, Any]) -> GenerationDefaults:
    f = Fields(where, "", data)
    d = GenerationDefaults()
    return GenerationDefaults(
        do_sample=f.boolean("do_sample", d.do_sample),
        temperature=f.number(
            "temperature", low=TEMPERATURE_RANGE[0], high=TEMPERATURE_RANGE[1], default=d.temperature
        ),
        top_k=f.integer("top_k", low=0, default=d.top_k),
        top_p=f.number("top_p", low=0.0, high=1.0, default=d.top_p),
        repetition_penalty=f.number(
            "repetition_penalty", low=PENALTY_RANGE[0], high=PENALTY_RANGE[1], default=d.repetition_penalty
        ),
        subtalker_do_sample=f.boolean("subtalker_dosample", d.subtalker_do_sample),
        subtalker_temperature=f.number(
            "subtalker_temperature",
            low=TEMPERATURE_RANGE[0],
            high=TEMPERATURE_RANGE[1],
            default=d.subtalker_temperature,
        ),
        subtalker_top_k=f.integer("subtalker_top_k", low=0, default=d.subtalker_top_k),
        subtalker_top_p=f.number("subtalker_top_p", low=0.0, high=1.0, default=d.subtalker_top_p),
        max_new_tokens=f.integer("max_new_tokens", low=2, default=d.max_new_tokens),
    )


def _text_normalization(f: Fields) -> Literal["english"] | None:
    """Not a key of the released checkpoints, which read digits."""
    if f.has("text_normalization"):
        f.must_be("text_normalization", "english")
        return "english"
    return None


def parse_config(
    main: Mapping[str, Any],
    codec: Mapping[str, Any],
    generation: Mapping[str, Any],
    *,
    where: tuple[str, str, str] = (
        "config.json",
        "speech_tokenizer/config.json",
        "generation_config.json",
    ),
) -> ModelConfig:
    """Typed form of the three JSON objects; ``where`` names them in errors. Raises ``ConfigError``."""
    f = Fields(where[0], "", main)
    model_type = main.get("model_type")
    if model_type != MODEL_TYPE:
        raise ConfigError(
            f"{where[0]}: model_type is {model_type!r}, expected {MODEL_TYPE!r} (a Qwen3-TTS model)"
        )
    if main.get("tokenizer_type") != TOKENIZER_TYPE:
        raise ConfigError(
            f"{where[0]}: tokenizer_type is {main.get('tokenizer_type')!r}; "
            f"only the 12 Hz codec ({TOKENIZER_TYPE!r}) is supported"
        )
    kind = main.get("tts_model_type")
    if kind not in MODEL_KINDS:
        raise ConfigError(f"{where[0]}: tts_model_type is {kind!r}, expected one of {', '.join(MODEL_KINDS)}")
    t = f.section("talker_config")
    talker = _talker(t)
    text_last = talker.text_vocab_size - 1
    speech = _codec(where[1], codec)
    if speech.num_quantizers != talker.num_code_groups:
        raise t.fail("num_code_groups", f"{speech.num_quantizers}, as in {where[1]}")
    codes = speech.decoder.codebook_size
    if talker.vocab_size > codes + CONTROL_IDS:
        raise t.fail("vocab_size", f"at most {codes} codes of the codec and {CONTROL_IDS} control ids")
    speaker = f.section("speaker_encoder_config") if kind == "base" else None
    return ModelConfig(
        kind=cast("ModelKind", kind),
        size=f.text("tts_model_size"),
        text_ids=TextIds(
            im_start=f.integer("im_start_token_id", low=0, high=text_last),
            im_end=f.integer("im_end_token_id", low=0, high=text_last),
            tts_pad=f.integer("tts_pad_token_id", low=0, high=text_last),
            tts_bos=f.integer("tts_bos_token_id", low=0, high=text_last),
            tts_eos=f.integer("tts_eos_token_id", low=0, high=text_last),
        ),
        talker=talker,
        speaker_encoder=_speaker_encoder(speaker, talker.stack.hidden_size) if speaker else None,
        codec=speech,
        generation=_generation(where[2], generation),
        text_normalization=_text_normalization(f),
    )
