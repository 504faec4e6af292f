"""The byte-level BPE of the voice: training, the hub's files, and fast encoding with character spans."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Pre-tokenisation of Qwen2 (the pattern in its tokenizer.json)."""

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)
ROLE = "<|im_start|>assistant\n"
FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")


@dataclass(frozen=True)
class TextIds:
    """Ids that the prompt needs."""

    role: tuple[int, int, int]
    """`<|im_start|>`, `assistant`, newline."""
    pad: int
    bos: int
    eos: int


def _split() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False),
        ]
    )


def train(sentences: Iterable[str], size: int, folder: Path) -> None:
    """Learn the merges and write the three tokenizer files of the hub's layout; `size` counts the special tokens."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.NFC()
    learner.pre_tokenizer = _split()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    goal = size - len(SPECIAL) - 8  # eight spare places for the merges of "assistant"
    learner.train_from_iterator(
        sentences, trainers.BpeTrainer(vocab_size=goal, initial_alphabet=alphabet, show_progress=False)
    )
    learnt = json.loads(learner.to_str())["model"]["merges"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in learnt]
    vocab = {c: i for i, c in enumerate(alphabet)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    # the official code slices prompts at fixed places, which needs "assistant" to be one token
    while len(pieces := _merge(list("assistant"), merges)) > 1:
        merges.append((pieces[0], pieces[1]))
        vocab.setdefault(pieces[0] + pieces[1], len(vocab))
    added = {token: len(vocab) + i for i, token in enumerate(SPECIAL)}
    if len(vocab) + len(SPECIAL) > size:
        raise ValueError(f"{len(vocab) + len(SPECIAL)} tokens do not fit into {size}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), "utf8")
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "\n".join(" ".join(m) for m in merges) + "\n", "utf8"
    )
    entries = {
        str(i): dict(content=t, lstrip=False, normalized=False, rstrip=False, single_word=False, special=True)
        for t, i in added.items()
    }
    settings: dict[str, Any] = dict(
        added_tokens_decoder=entries,
        add_prefix_space=False,
        additional_special_tokens=list(SPECIAL[1:]),
        bos_token=None,
        clean_up_tokenization_spaces=False,
        eos_token="<|im_end|>",
        errors="replace",
        model_max_length=131072,
        pad_token="<|endoftext|>",
        split_special_tokens=False,
        tokenizer_class="Qwen2Tokenizer",
        unk_token=None,
        processor_class="Qwen3TTSProcessor",
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def _merge(word: list[str], merges: Sequence[tuple[str, ...]]) -> list[str]:
    rank = {m: i for i, m in enumerate(merges)}
    while len(word) > 1:
        best, at = min((rank.get((word[i], word[i + 1]), len(rank)), i) for i in range(len(word) - 1))
        if best == len(rank):
            break
        word[at : at + 2] = [word[at] + word[at + 1]]
    return word


class VoiceTokenizer:
    """Encodes spoken text as the official processor does, and says which characters each id covers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plain = self._load(None)
        self._noisy: dict[float, Tokenizer] = {}
        added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        ids = {entry["content"]: int(i) for i, entry in added.items()}
        vocab = json.loads((folder / "vocab.json").read_text("utf8"))
        self.special = ids
        self.text_ids = TextIds(
            (ids["<|im_start|>"], vocab["assistant"], vocab["Ċ"]),
            ids["<tts_pad>"],
            ids["<tts_text_bos>"],
            ids["<tts_text_eod>"],
        )

    def _load(self, dropout: float | None) -> Tokenizer:
        model = models.BPE.from_file(
            str(self.folder / "vocab.json"), str(self.folder / "merges.txt"), dropout=dropout
        )
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = _split()
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def encode(
        self, texts: Sequence[str], dropout: float = 0.0
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Per text: ids, and the character span [start, end) of each id. `dropout` skips merges at random."""
        if dropout and dropout not in self._noisy:
            self._noisy[dropout] = self._load(dropout)
        tokenizer = self._noisy[dropout] if dropout else self._plain
        return [(e.ids, e.offsets) for e in tokenizer.encode_batch(list(texts))]

    def copy_files(self, folder: Path) -> None:
        """The three files of the hub's layout."""
        for name in FILES:
            shutil.copy(self.folder / name, folder / name)


def check_against_transformers(folder: Path, texts: Sequence[str]) -> int:
    """How many of `texts` the transformers tokenizer encodes otherwise (0 wanted)."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as copy:
        for name in FILES:
            shutil.copy(folder / name, copy)
        official = AutoTokenizer.from_pretrained(copy)  # type: ignore[no-untyped-call]
    ours = VoiceTokenizer(folder)
    if tuple(official(ROLE)["input_ids"]) != ours.text_ids.role:
        raise ValueError("the role header is not three tokens")
    return sum(official(t)["input_ids"] != ids for t, (ids, _) in zip(texts, ours.encode(texts), strict=True))
