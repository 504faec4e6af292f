"""Random-weight Qwen3-TTS 12 Hz checkpoints in the hub's layout, without torch or the official package.

    path = write_checkpoint(tmp_path / "ckpt", preset="tiny17", kind="voice_design")
    damage.drop_tensor(path, "talker.codec_head.weight")

or ``python -m tests.checkpoints OUT --preset small``. The same arguments give the same bytes on every platform, so
that goldens made from a generated checkpoint can be committed (``checkpoint_digest`` ties the two together).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from . import damage
from .configs import (
    CODEC_CONFIGURATION,
    CODEC_PREPROCESSOR_CONFIG,
    GENERATION_CONFIG,
    PREPROCESSOR_CONFIG,
    codec_config,
    main_config,
)
from .presets import KINDS, PRESETS, Kind, Preset
from .storage import Dtype, write_safetensors, write_sharded
from .tensors import codec_tensors, main_tensors
from .tokenizer import write_tokenizer

__all__ = [
    "GENERATOR_VERSION",
    "KINDS",
    "PRESETS",
    "Dtype",
    "Kind",
    "Preset",
    "checkpoint_digest",
    "damage",
    "write_checkpoint",
]

GENERATOR_VERSION = 1
"""Raised whenever the generator's output changes: goldens of another version are stale."""


def _dump(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8", newline="\n")


def write_checkpoint(
    out: Path,
    *,
    preset: str = "tiny",
    kind: Kind = "base",
    seed: int = 0,
    dtype: Dtype = "bfloat16",
    shards: int = 1,
    eos_gain: float = 1.0,
    codec_dtype: Dtype = "float32",
) -> Path:
    """Writes a checkpoint into the directory ``out`` (made if absent) and returns it.

    Args:
        out: The directory; files of the same names are overwritten.
        preset: A key of ``PRESETS``.
        kind: Decides ``tts_model_type``, the speaker table, and whether speaker-encoder weights exist.
        seed: Of the weights. The codec depends on the preset and the seed only, so all kinds share it.
        dtype: Of the language model and speaker encoder; the hub stores bfloat16.
        shards: Files the main weights are split into; above 1 an index is written.
        eos_gain: Multiplies the end-of-speech row of ``codec_head`` (0.3: rarely stops, 2: stops soon).
        codec_dtype: Of the codec; the hub stores float32.

    Raises:
        ValueError: unknown preset or kind, or a number of shards that cannot be made.
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose from {sorted(PRESETS)}")
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; choose from {KINDS}")
    dims = PRESETS[preset]
    codec = out / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)

    ids = write_tokenizer(out, dims)
    _dump(out / "config.json", main_config(dims, kind, ids.added, ids.assistant))
    _dump(out / "generation_config.json", GENERATION_CONFIG)
    _dump(out / "preprocessor_config.json", PREPROCESSOR_CONFIG)
    _dump(codec / "config.json", codec_config(dims))
    _dump(codec / "configuration.json", CODEC_CONFIGURATION)
    _dump(codec / "preprocessor_config.json", CODEC_PREPROCESSOR_CONFIG)
    write_sharded(out, main_tensors(dims, kind, eos_gain=eos_gain), dtype, seed, shards)
    write_safetensors(codec / "model.safetensors", codec_tensors(dims, seed), codec_dtype, seed)
    return out


def checkpoint_digest(path: Path) -> str:
    """SHA-256 over every file of the checkpoint (names and bytes): equal exactly when the checkpoints are."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(path).as_posix()} {content}\n".encode())
    return digest.hexdigest()
