"""The checkpoint in the layout of `Qwen3-TTS-12Hz-0.6B-CustomVoice`, in float16."""

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from .config import Config
from .features import FRAME, RATE
from .ids import CodecIds
from .tokenizer import VoiceTokenizer

log = logging.getLogger(__name__)
GENERATION = dict(
    do_sample=True,
    repetition_penalty=1.0,
    temperature=0.6,
    top_p=1.0,
    top_k=50,
    subtalker_dosample=True,
    subtalker_temperature=0.6,
    subtalker_top_p=1.0,
    subtalker_top_k=50,
    max_new_tokens=200,  # 16 s: longer speech was never seen
)
"""Default sampling; the temperatures are the ones that were measured best."""


def _talker_config(cfg: Config, ids: CodecIds) -> dict[str, Any]:
    shared = dict(
        hidden_act="silu",
        attention_bias=False,
        attention_dropout=0,
        initializer_range=0.02,
        rms_norm_eps=1e-6,
        use_cache=True,
        use_sliding_window=False,
        sliding_window=None,
        num_code_groups=cfg.codec.num_quantizers,
    )
    half = cfg.talker.head_dim // 2
    sections = [half - 2 * (half // 3), half // 3, half // 3]
    predictor = (
        asdict(cfg.predictor)
        | shared
        | dict(
            vocab_size=cfg.codec.codebook_size,
            model_type="qwen3_tts_talker_code_predictor",
            layer_types=["full_attention"] * cfg.predictor.num_hidden_layers,
            max_position_embeddings=65536,
            max_window_layers=28,
            rope_scaling=None,
        )
    )
    speakers = {name: ids.speaker(i) for i, name in enumerate(cfg.teacher.speakers)}
    return (
        asdict(cfg.talker)
        | shared
        | dict(
            vocab_size=ids.vocab,
            text_hidden_size=cfg.talker.hidden_size,
            text_vocab_size=cfg.text_vocab_size,
            model_type="qwen3_tts_talker",
            max_position_embeddings=32768,
            position_id_per_seconds=13,
            rope_scaling=dict(interleaved=True, mrope_section=sections, rope_type="default", type="default"),
            tie_word_embeddings=False,
            codec_bos_id=ids.bos,
            codec_eos_token_id=ids.eos,
            codec_think_id=ids.think,
            codec_nothink_id=ids.nothink,
            codec_think_bos_id=ids.think_bos,
            codec_think_eos_id=ids.think_eos,
            codec_pad_id=ids.pad,
            codec_language_id=dict(english=ids.english),
            spk_id=speakers,
            spk_is_dialect=dict.fromkeys(speakers, False),
            code_predictor_config=predictor,
        )
    )


def _codec_config(cfg: Config) -> dict[str, Any]:
    c = cfg.codec
    decoder = dict(
        codebook_size=c.codebook_size,
        codebook_dim=c.codebook_dim,
        latent_dim=c.latent_dim,
        hidden_size=c.hidden_size,
        num_hidden_layers=c.num_hidden_layers,
        num_attention_heads=c.num_attention_heads,
        num_key_value_heads=c.num_attention_heads,
        head_dim=c.head_dim,
        intermediate_size=c.intermediate_size,
        sliding_window=c.sliding_window,
        decoder_dim=c.decoder_dim,
        upsample_rates=list(c.upsample_rates),
        upsampling_ratios=list(c.upsampling_ratios),
        num_quantizers=c.num_quantizers,
        rope_theta=10000,
        rms_norm_eps=1e-5,
        layer_scale_initial_scale=0.01,
        attention_bias=False,
        attention_dropout=0.0,
        hidden_act="silu",
        max_position_embeddings=8000,
    )
    # never trained: the official class needs an encoder to be described
    encoder = dict(
        model_type="mimi",
        sampling_rate=RATE,
        frame_rate=12.5,
        audio_channels=1,
        hidden_size=128,
        num_filters=16,
        num_residual_layers=1,
        upsampling_ratios=[8, 6, 5, 4],
        kernel_size=7,
        last_kernel_size=3,
        residual_kernel_size=3,
        dilation_growth_rate=2,
        use_causal_conv=True,
        pad_mode="constant",
        compress=2,
        trim_right_ratio=1.0,
        codebook_size=c.codebook_size,
        codebook_dim=c.codebook_dim // 2,
        num_quantizers=c.num_quantizers,
        use_conv_shortcut=False,
        vector_quantization_hidden_dimension=c.codebook_dim // 2,
        num_semantic_quantizers=1,
        upsample_groups=128,
        num_hidden_layers=2,
        intermediate_size=256,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        hidden_act="gelu",
        max_position_embeddings=8000,
        initializer_range=0.02,
        norm_eps=1e-5,
        use_cache=False,
        rope_theta=10000.0,
        sliding_window=32,
        attention_dropout=0.0,
        layer_scale_initial_scale=0.01,
        attention_bias=False,
    )
    return dict(
        architectures=["Qwen3TTSTokenizerV2Model"],
        model_type="qwen3_tts_tokenizer_12hz",
        encoder_valid_num_quantizers=c.num_quantizers,
        input_sample_rate=RATE,
        output_sample_rate=RATE,
        decode_upsample_rate=FRAME,
        encode_downsample_rate=FRAME,
        decoder_config=decoder,
        encoder_config=encoder,
        transformers_version="4.57.3",
        torch_dtype="float16",
    )


def _codec_weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Decoder tensors; each codebook as (table, ones), which is exact in float16."""
    out: dict[str, Tensor] = {}
    for name, value in state.items():
        if name.endswith("cluster_usage"):
            out["decoder." + name] = torch.ones_like(value)
        elif name.endswith("embedding_sum"):
            usage = state[name.replace("embedding_sum", "cluster_usage")].float().clamp(min=1e-5)
            out["decoder." + name] = value.float() / usage[:, None]
        else:
            out["decoder." + name] = value
    return out


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf8")


def _save(path: Path, tensors: dict[str, Tensor]) -> None:
    save_file({k: v.half().contiguous().clone() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def write(weights: Path, tokenizer_folder: Path, voice: Path, cfg: Config) -> None:
    """Turn `talker.pt`, `talker_predictor.pt` and `codec.pt` of `weights` into a checkpoint folder."""
    codec_folder = voice / "speech_tokenizer"
    codec_folder.mkdir(parents=True, exist_ok=True)
    talker = {
        f"talker.{k}": v
        for name in ("talker.pt", "talker_predictor.pt")
        for k, v in torch.load(weights / name, map_location="cpu").items()
        if not k.startswith("helpers.")
    }
    _save(voice / "model.safetensors", talker)
    _save(
        codec_folder / "model.safetensors",
        _codec_weights(torch.load(weights / "codec.pt", map_location="cpu")["decoder"]),
    )
    tokenizer = VoiceTokenizer(tokenizer_folder)
    tokenizer.copy_files(voice)
    text = tokenizer.text_ids
    _write_json(
        voice / "config.json",
        dict(
            architectures=["Qwen3TTSForConditionalGeneration"],
            model_type="qwen3_tts",
            tokenizer_type="qwen3_tts_tokenizer_12hz",
            tts_model_size="tiny",
            tts_model_type="custom_voice",
            text_normalization="english",  # it was trained on words alone: digits are written out before
            assistant_token_id=text.role[1],
            im_start_token_id=text.role[0],
            im_end_token_id=tokenizer.special["<|im_end|>"],
            tts_pad_token_id=text.pad,
            tts_bos_token_id=text.bos,
            tts_eos_token_id=text.eos,
            talker_config=_talker_config(cfg, CodecIds(cfg.codec.codebook_size)),
            torch_dtype="float16",
            transformers_version="4.57.3",
        ),
    )
    _write_json(voice / "generation_config.json", GENERATION)
    _write_json(
        voice / "preprocessor_config.json",
        dict(processor_class="Qwen3TTSProcessor", feature_extractor_type=None),
    )
    _write_json(codec_folder / "config.json", _codec_config(cfg))
    _write_json(
        codec_folder / "preprocessor_config.json",
        dict(
            chunk_length_s=None,
            feature_extractor_type="EncodecFeatureExtractor",
            feature_size=1,
            overlap=None,
            padding_side="right",
            padding_value=0.0,
            return_attention_mask=True,
            sampling_rate=RATE,
        ),
    )
    size = sum(f.stat().st_size for f in voice.rglob("*") if f.is_file())
    log.info("%s: %.2f MB, %d talker tensors", voice, size / 1e6, len(talker))
    if size > 25e6:
        raise SystemExit("the checkpoint is larger than 25 MB")
