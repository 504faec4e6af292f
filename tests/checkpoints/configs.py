"""The JSON files of a checkpoint, with the fields (decoys included) of the released ones."""

from __future__ import annotations

from typing import Any

from .presets import (
    CONTROL_IDS,
    DIALECT_OFFSETS,
    LANGUAGE_OFFSETS,
    NUM_CODE_GROUPS,
    SPEAKER_DIALECTS,
    SPEAKER_OFFSETS,
    Kind,
    Preset,
)

# transformers 4.57.3 swaps the splitting regex of a *local* checkpoint that states a later version than 4.57.2
# (semantics 2.2); loading by hub id never does. Stating 4.57.1 keeps the hub's behaviour.
_TRANSFORMERS_VERSION = "4.57.1"

GENERATION_CONFIG: dict[str, Any] = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}

PREPROCESSOR_CONFIG: dict[str, Any] = {
    "padding_side": "left",
    "padding_value": 0.0,
    "processor_class": "Qwen3TTSProcessor",
    "return_attention_mask": True,
}

CODEC_PREPROCESSOR_CONFIG: dict[str, Any] = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}

CODEC_CONFIGURATION: dict[str, Any] = {
    "framework": "pytorch",
    "task": "feature-extraction",
    "allow_remote": True,
}


def _predictor_config(preset: Preset) -> dict[str, Any]:
    dims = preset.predictor
    return {
        "model_type": "qwen3_tts_talker_code_predictor",
        "vocab_size": preset.codec.codebook_size,
        "hidden_size": dims.hidden,
        "intermediate_size": dims.inter,
        "num_hidden_layers": dims.layers,
        "num_attention_heads": dims.heads,
        "num_key_value_heads": dims.kv_heads,
        "head_dim": dims.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": 65536,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "use_cache": True,
        "tie_word_embeddings": False,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 28,
        "attention_dropout": 0,
        "num_code_groups": NUM_CODE_GROUPS,
        "layer_types": ["full_attention"] * dims.layers,
    }


def _talker_config(preset: Preset, kind: Kind) -> dict[str, Any]:
    dims, first = preset.talker, preset.codec.codebook_size
    languages = dict(LANGUAGE_OFFSETS)
    speakers: dict[str, int] = {}
    if kind == "custom_voice":
        languages.update(DIALECT_OFFSETS)
        speakers = SPEAKER_OFFSETS
    return {
        "model_type": "qwen3_tts_talker",
        "code_predictor_config": _predictor_config(preset),
        "vocab_size": first + CONTROL_IDS,
        "hidden_size": dims.hidden,
        "intermediate_size": dims.inter,
        "num_hidden_layers": dims.layers,
        "num_attention_heads": dims.heads,
        "num_key_value_heads": dims.kv_heads,
        "head_dim": dims.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-6,
        "use_cache": True,
        "tie_word_embeddings": False,
        "rope_theta": 1000000,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": list(preset.mrope_section),
            "rope_type": "default",
            "type": "default",
        },
        "attention_bias": False,
        "use_sliding_window": False,
        "sliding_window": None,
        "attention_dropout": 0,
        "num_code_groups": NUM_CODE_GROUPS,
        "text_hidden_size": preset.text_hidden,
        "text_vocab_size": preset.text_vocab,
        "position_id_per_seconds": 13,
        "codec_pad_id": first + 100,
        "codec_bos_id": first + 101,
        "codec_eos_token_id": first + 102,
        "codec_think_id": first + 106,
        "codec_nothink_id": first + 107,
        "codec_think_bos_id": first + 108,
        "codec_think_eos_id": first + 109,
        "codec_language_id": {name: first + offset for name, offset in languages.items()},
        "spk_id": {name: first + offset for name, offset in speakers.items()},
        "spk_is_dialect": {name: SPEAKER_DIALECTS.get(name, False) for name in speakers},
    }


def _speaker_config(preset: Preset) -> dict[str, Any]:
    dims, channels = preset.speaker, preset.speaker.channels
    config: dict[str, Any] = {"enc_dim": preset.talker.hidden, "sample_rate": 24000}
    if channels != 512:  # the released files rely on the class defaults
        config |= {
            "enc_channels": [channels] * 4 + [3 * channels],
            "enc_attention_channels": dims.attention,
            "enc_se_channels": dims.squeeze,
            "enc_res2net_scale": dims.res2net_scale,
        }
    return config


def main_config(preset: Preset, kind: Kind, added_ids: dict[str, int], assistant_id: int) -> dict[str, Any]:
    """``config.json``. ``added_ids`` maps the added tokens' text to their ids."""
    config: dict[str, Any] = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": preset.size_tag,
        "tts_model_type": kind,
        "assistant_token_id": assistant_id,
        "im_start_token_id": added_ids["<|im_start|>"],
        "im_end_token_id": added_ids["<|im_end|>"],
        "tts_pad_token_id": added_ids["<tts_pad>"],
        "tts_bos_token_id": added_ids["<tts_text_bos>"],
        "tts_eos_token_id": added_ids["<tts_text_eod>"],
        "talker_config": _talker_config(preset, kind),
        "transformers_version": _TRANSFORMERS_VERSION,
    }
    if kind == "base":
        config["speaker_encoder_config"] = _speaker_config(preset)
    return config


def codec_config(preset: Preset) -> dict[str, Any]:
    """``speech_tokenizer/config.json``."""
    dims = preset.codec
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": NUM_CODE_GROUPS,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "decoder_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "latent_dim": dims.latent,
            "codebook_dim": dims.codebook_dim,
            "codebook_size": dims.codebook_size,
            "decoder_dim": dims.decoder_dim,
            "hidden_act": "silu",
            "hidden_size": dims.hidden,
            "intermediate_size": dims.inter,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "head_dim": dims.head_dim,
            "num_attention_heads": dims.heads,
            "num_hidden_layers": dims.layers,
            "num_key_value_heads": dims.heads,
            "num_quantizers": NUM_CODE_GROUPS,
            "num_semantic_quantizers": 1,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000,
            "semantic_codebook_size": 2 * dims.codebook_size,
            "sliding_window": dims.window,
            "upsample_rates": list(dims.upsample_rates),
            "upsampling_ratios": list(dims.upsampling_ratios),
            "vector_quantization_hidden_dimension": dims.codebook_dim,
        },
        "encoder_config": {
            "_frame_rate": 12.5,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "audio_channels": 1,
            "codebook_dim": dims.enc_codebook_dim,
            "codebook_size": dims.codebook_size,
            "compress": 2,
            "dilation_growth_rate": 2,
            "dtype": "float32",
            "head_dim": dims.enc_hidden // dims.enc_heads,
            "hidden_act": "gelu",
            "hidden_size": dims.enc_hidden,
            "initializer_range": 0.02,
            "intermediate_size": dims.enc_inter,
            "kernel_size": 7,
            "last_kernel_size": 3,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "norm_eps": 1e-5,
            "normalize": False,
            "num_attention_heads": dims.enc_heads,
            "num_filters": dims.enc_filters,
            "num_hidden_layers": dims.enc_layers,
            "num_key_value_heads": dims.enc_heads,
            "num_quantizers": dims.enc_quantizers,
            "num_residual_layers": 1,
            "num_semantic_quantizers": 1,
            "pad_mode": "constant",
            "residual_kernel_size": 3,
            "rope_theta": 10000.0,
            "sampling_rate": 24000,
            "sliding_window": 250,
            "trim_right_ratio": 1.0,
            "upsample_groups": dims.enc_hidden,
            "upsampling_ratios": list(dims.enc_ratios),
            "use_cache": False,
            "use_causal_conv": True,
            "use_conv_shortcut": False,
            "use_streaming": False,
            "vector_quantization_hidden_dimension": dims.enc_codebook_dim,
        },
        "transformers_version": _TRANSFORMERS_VERSION,
    }
