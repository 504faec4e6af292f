"""Ids equal the official tokenizer's, for the released vocabulary and both split patterns."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from rtts_engine.text_stream import IncrementalTokenizer
from rtts_engine.tokenizer import Tokenizer
from tests.engine.text_corpus import CRAFTED, random_parts, random_texts

from .released_vocab import write_released_tokenizer

pytestmark = pytest.mark.oracle

Split = Literal["qwen2", "mistral"]

# transformers 4.57.3 replaces the pattern of a full-size tokenizer in a local directory unless the checkpoint says
# that it was made with an older version (semantics 2.2).
_CONFIGS: dict[Split, dict[str, Any]] = {
    "qwen2": {"model_type": "qwen3_tts", "transformers_version": "4.57.1"},
    "mistral": {"model_type": "qwen3_tts"},
}


@pytest.fixture(scope="module", params=list(_CONFIGS))
def split(request: pytest.FixtureRequest) -> Split:
    value: Split = request.param
    return value


@pytest.fixture(scope="module")
def folder(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(f"released-{split}")
    write_released_tokenizer(path, config_json=_CONFIGS[split])
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path, split: Split) -> Tokenizer:
    return Tokenizer.from_dir(folder, split=split)


@pytest.fixture(scope="module")
def official(folder: Path, split: Split) -> Callable[[str], list[int]]:
    """The tokenizer of the official package's processor, loaded with its own arguments."""
    pytest.importorskip("torch", reason="the oracle extra is not installed")
    importlib.import_module("tests.oracle.official")  # makes qwen_tts importable
    models = importlib.import_module("qwen_tts.core.models")
    processor = models.Qwen3TTSProcessor.from_pretrained(str(folder), fix_mistral_regex=True)
    assert type(processor.tokenizer).__name__ == "Qwen2TokenizerFast"
    pattern = str(processor.tokenizer.backend_tokenizer.pre_tokenizer[0])
    assert ("'ll" in pattern) == (split == "qwen2"), "the pattern of the other loading situation is in place"
    return lambda text: [int(i) for i in processor(text=text)["input_ids"][0]]


def test_released_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 151676
    assert tokenizer.encode("<|im_start|>assistant\n<|im_end|>\n") == [151644, 77091, 198, 151645, 198]
    assert [tokenizer.token_id(t) for t in ("<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")] == [
        151671,
        151672,
        151673,
    ]


def test_six_thousand_texts(tokenizer: Tokenizer, official: Callable[[str], list[int]]) -> None:
    texts = [*CRAFTED, *random_texts(1, 6000)]
    assert len(texts) > 6000
    different = [text for text in texts if tokenizer.encode(text) != official(text)]
    assert not different, f"{len(different)} of {len(texts)} differ, first {different[0]!r}"


def test_prompt_strings(tokenizer: Tokenizer, official: Callable[[str], list[int]]) -> None:
    """The official slice of the whole prompt string is the text tokenised alone, unless whitespace leads."""
    for text in [*CRAFTED, *random_texts(2, 1500)]:
        whole = official(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        if text[:1].isspace():
            assert (
                tokenizer.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n") == whole
            )
        else:
            assert whole[3:-5] == tokenizer.encode(text)


def test_slow_class_too(folder: Path, split: Split, tokenizer: Tokenizer) -> None:
    """The pure Python class knows the Qwen2 pattern only."""
    if split != "qwen2":
        pytest.skip("transformers patches the fast class only")
    transformers = pytest.importorskip("transformers", reason="the oracle extra is not installed")
    slow = transformers.Qwen2Tokenizer.from_pretrained(str(folder))
    # Its regex and NFC come from libraries with another Unicode version: only assigned characters are compared.
    texts = [text for text in CRAFTED if "\u0378" not in text]
    assert [slow(text)["input_ids"] for text in texts] == [tokenizer.encode(text) for text in texts]


def test_released_ids_never_change(tokenizer: Tokenizer, split: Split) -> None:
    """The hold-back rule: what a stream has released is a prefix of the ids of every continuation."""
    rng = random.Random(3)
    n_prefixes = n_early = 0
    for text in [*CRAFTED, *random_texts(4, 6000)]:
        final = tokenizer.encode_spoken(text)
        stream = IncrementalTokenizer(tokenizer)
        ids: list[int] = []
        for part in random_parts(rng, text):
            ids += stream.feed(part)
            n_prefixes += 1
            n_early += bool(ids)
            assert ids == final[: len(ids)], f"{split}: {text!r} up to {part!r}"
        assert ids + stream.close() == final, f"{split}: {text!r}"
    assert n_prefixes > 20_000
    assert n_early > n_prefixes / 2
