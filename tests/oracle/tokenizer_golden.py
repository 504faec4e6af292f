"""Makes ``tests/engine/data``: a tiny vocabulary and the official tokenizer's ids for it.

    python -m tests.oracle.tokenizer_golden

The vocabulary is trained without splitting the text first, so that it has tokens across every kind of boundary
(" 日", "のA", "e,", "\\n\\n"): a piece cut at the wrong place gives other ids, where real vocabularies often hide it.
"""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.engine.text_corpus import ADDED_TOKENS, CRAFTED, random_texts

DATA = Path(__file__).parents[1] / "engine" / "data"
_N_TOKENS = 900
_N_RANDOM_TEXTS = 400


def write_tokenizer(folder: Path) -> None:
    """Trains the vocabulary; writes the three files of the hub layout."""
    trainer = Tokenizer(models.BPE())
    trainer.normalizer = normalizers.NFC()
    trainer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    rng = random.Random(0)
    crossing = ["".join(rng.choice("日本のカー가é aAbBcC.,'1\n") for _ in range(8)) for _ in range(3000)]
    mixed_case = ["iPhone", "McDonald", "JavaScript", "YouTube", "GitHub", "eBay", "macOS", "LaTeX"]
    sentences = [text for text in CRAFTED if "<|" not in text and len(text) < 200]
    trainer.train_from_iterator(
        [
            *crossing,
            *sentences * 3,
            *[f" {word}" for word in mixed_case] * 100,
            *mixed_case * 100,
            *["assistant"] * 500,
            *["user"] * 500,
            *["\n\n"] * 200,
        ],
        trainers.BpeTrainer(
            vocab_size=_N_TOKENS,
            show_progress=False,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        ),
    )
    model = json.loads(trainer.to_str())["model"]
    vocab: dict[str, int] = model["vocab"]
    assert {"assistant", "user", "\u010a\u010a", "\u010a"} <= vocab.keys()
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    decoder = {
        str(len(vocab) + i): {"content": token, **flags, "special": "think" not in token}
        for i, token in enumerate(ADDED_TOKENS)
    }
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "vocab.json", json.dumps(vocab, ensure_ascii=False, indent=0))
    _write(folder / "merges.txt", "\n".join(["#version: 0.2", *merges]))
    _write(folder / "tokenizer_config.json", json.dumps(config, indent=1))


def official_tokenizer(folder: Path, split: str) -> Any:
    """The official fast class; a tiny vocabulary never triggers its change of pattern, so that is called by hand."""
    fast = importlib.import_module("transformers").Qwen2TokenizerFast.from_pretrained(str(folder))
    if split == "mistral":
        _write(folder / "config.json", "{}")
        fast = fast._patch_mistral_regex(fast, str(folder), _is_local=True, fix_mistral_regex=True)
        (folder / "config.json").unlink()
    return fast


def write_golden(path: Path, folder: Path) -> None:
    """One text a line with its ids for both patterns."""
    official = {split: official_tokenizer(folder, split) for split in ("qwen2", "mistral")}
    rows = [
        {"text": text, **{split: fast(text)["input_ids"] for split, fast in official.items()}}
        for text in [*CRAFTED, *random_texts(0, _N_RANDOM_TEXTS)]
    ]
    _write(path, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write_tokenizer(DATA / "tiny_tokenizer")
    write_golden(DATA / "tokenizer_golden.json", DATA / "tiny_tokenizer")
