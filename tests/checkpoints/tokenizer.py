"""The tokenizer files: a committed 580-entry byte-level BPE, moved to the released ids where a preset asks for it.

``tests/data/tiny_bpe.json`` was trained once with ``tokenizers.trainers.BpeTrainer`` (whose result is not promised
to be stable) on a handful of multilingual sentences, plus the merge of two newlines that the released vocabulary
also has. "assistant", "user" and the newline are single tokens, as prompts need.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .presets import Preset

_BPE_FILE = Path(__file__).parent.parent / "data" / "tiny_bpe.json"
_REAL_FIRST_ADDED_ID = 151643

ADDED_TOKENS: tuple[str, ...] = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)
_NOT_SPECIAL = ("tool", "fim", "repo_name", "file_sep", "think")


@dataclass(frozen=True)
class TokenizerIds:
    """The ids that ``config.json`` repeats."""

    added: dict[str, int]
    assistant: int


def _is_special(token: str) -> bool:
    return not any(word in token for word in _NOT_SPECIAL)


def write_tokenizer(out: Path, preset: Preset) -> TokenizerIds:
    """Writes ``vocab.json``, ``merges.txt`` and ``tokenizer_config.json``; there is no ``tokenizer.json``."""
    bpe: dict[str, list[str]] = json.loads(_BPE_FILE.read_text(encoding="utf-8"))
    tokens = list(bpe["vocab"])
    if preset.real_text_ids:  # unreachable entries: no merge produces them
        tokens += [f"[filler{i}]" for i in range(len(tokens), _REAL_FIRST_ADDED_ID)]
    added = {token: len(tokens) + i for i, token in enumerate(ADDED_TOKENS)}
    if len(tokens) + len(added) > preset.text_vocab:
        raise ValueError(
            f"{preset.name}: {len(tokens) + len(added)} tokens exceed text_vocab {preset.text_vocab}"
        )

    vocab = {token: i for i, token in enumerate(tokens)}
    (out / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    merges = "\n".join(["#version: 0.2", *bpe["merges"]]) + "\n"
    (out / "merges.txt").write_text(merges, encoding="utf-8", newline="\n")
    config: dict[str, Any] = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(i): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": _is_special(token),
            }
            for token, i in added.items()
        },
        "additional_special_tokens": [token for token in ADDED_TOKENS[1:] if _is_special(token)],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (out / "tokenizer_config.json").write_text(text, encoding="utf-8", newline="\n")
    return TokenizerIds(added=added, assistant=vocab["assistant"])
