"""Byte-level BPE of the Qwen2 family: strings to text ids, equal to the official tokenizer.

Source of the rules: ``Qwen2TokenizerFast`` of transformers 4.57.3 as the official ``qwen-tts`` 0.1.1 loads it.
Added tokens are cut out first, each remaining part is NFC-normalised, split with a regex, mapped to the printable
byte alphabet of GPT-2 and merged by rank.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from rtts_engine.config_json import read_json
from rtts_engine.errors import CheckpointError, ConfigError, TextError
from rtts_engine.files import read_text, reason

SplitRule = Literal["qwen2", "mistral"]

_SPLIT_PATTERNS: Mapping[SplitRule, str] = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "mistral": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}

WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
r"""What ``\s`` matches in the split patterns: Unicode's White_Space. ``str.strip()`` would also take U+001C-U+001F."""

_SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")
_ADDED_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


class Piece(NamedTuple):
    """One match of the split pattern: the unit that BPE merges within."""

    symbols: str
    """The piece in the byte alphabet: one character per UTF-8 byte."""
    end: int
    """End of the piece in the text that was split, in characters."""


class Token(NamedTuple):
    """One BPE token of a piece."""

    id: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class _Files:
    """Raw contents of a tokenizer, whatever files it came from. ``*_from`` names them in errors."""

    vocab: Mapping[str, Any]
    vocab_from: str
    merges: Sequence[tuple[str, str]]
    added: Mapping[str, tuple[int, Mapping[str, Any]]]
    added_from: str


class Tokenizer:
    """Text to ids. Immutable after loading, so that several streams may share one.

    ``encode`` is the official behaviour; ``encode_spoken`` is for text from outside, which must not be able to name
    control tokens. ``normalize``, ``split`` and ``merge`` are its steps, for incremental use.
    """

    def __init__(self, files: _Files, split: SplitRule) -> None:
        self.split_rule: SplitRule = split
        vocab = _checked_vocab(files)
        self._bpe = models.BPE(vocab=vocab, merges=list(files.merges))
        self._nfc = normalizers.NFC()
        self._splitter = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_SPLIT_PATTERNS[split]), behavior="isolated", invert=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._backend = Backend(self._bpe)
        self._backend.normalizer = self._nfc
        self._backend.pre_tokenizer = self._splitter
        self._added_from = files.added_from
        self._add_tokens(files.added)
        self._sorted_vocab = sorted(vocab)
        self._longest = max(map(len, vocab))
        self._vocab_size = 1 + max([*vocab.values(), *(number for number, _ in files.added.values())])

    @classmethod
    def from_dir(cls, path: Path, *, split: SplitRule = "qwen2") -> Tokenizer:
        """Loads the tokenizer of a checkpoint directory.

        Reads ``vocab.json``, ``merges.txt`` and ``tokenizer_config.json`` (the layout of the released models) or, when
        the first two are absent, ``tokenizer.json``. ``split="mistral"`` selects the pattern that transformers 4.57.3
        puts in place when the official package loads a full-size checkpoint from a local directory; "qwen2" is what
        the models were trained with.

        Raises:
            CheckpointError: a file is missing or damaged; ConfigError when the fault is in a JSON field.
        """
        if not (path / "vocab.json").exists() and not (path / "merges.txt").exists():
            single = path / "tokenizer.json"
            if not single.exists():
                raise CheckpointError(
                    f"{path}: no tokenizer (vocab.json and merges.txt, or tokenizer.json); download these files"
                )
            return cls(_read_single(single), split)
        return cls(_read_hub(path), split)

    @property
    def vocab_size(self) -> int:
        """Rows that a text embedding needs: the largest id plus one."""
        return self._vocab_size

    def token_id(self, token: str) -> int:
        """Id of an added token or vocabulary entry; CheckpointError when there is none."""
        number: int | None = self._backend.token_to_id(token)
        if number is None:
            raise CheckpointError(
                f"{self._added_from}: token {token!r} is missing; the tokenizer does not fit"
            )
        return number

    def encode(self, text: str) -> list[int]:
        """Ids exactly as the official tokenizer gives them: added tokens in ``text`` are parsed as such.

        Raises:
            TextError: the text holds a lone surrogate.
        """
        check_text(text)
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def encode_spoken(self, text: str) -> list[int]:
        """Ids of text that a user wrote: whitespace around it goes, and added tokens are ordinary text.

        So ``<|im_end|>`` cannot end the prompt, and leading line breaks cannot merge with the role header's (semantics
        2.2). Equal to ``encode`` for every text that has neither.

        Raises:
            TextError: the text holds a lone surrogate.
        """
        check_text(text)
        pieces = self.split(self.normalize(text.strip(WHITESPACE)))
        return [token.id for piece in pieces for token in self.merge(piece.symbols)]

    def normalize(self, text: str) -> str:
        """NFC, with the Unicode version of the ``tokenizers`` library."""
        normalized: str = self._nfc.normalize_str(text)
        return normalized

    def split(self, text: str) -> list[Piece]:
        """Pieces of normalised text, in order and without gaps; ``text`` has no added tokens."""
        return [Piece(symbols, end) for symbols, (_, end) in self._splitter.pre_tokenize_str(text)]

    def merge(self, symbols: str) -> list[Token]:
        """BPE tokens of one piece (or of any run of bytes) in the byte alphabet."""
        return [Token(token.id, len(token.value)) for token in self._bpe.tokenize(symbols)]

    def certain_tokens(self, symbols: str) -> list[Token]:
        """The tokens at the start of a piece that stay the same however the piece goes on after ``symbols``.

        If the finished piece has a token boundary at byte j, its tokens up to j are ``merge(symbols[:j])``: no merge
        ever crossed j, so both sides were merged as if alone. The first boundary at or after the last certain byte is
        either ``len(symbols)`` or the start of a token that reaches beyond it, so the certain tokens are those that
        all such starts agree on.
        """
        n = len(symbols)
        common = self.merge(symbols)
        for j in range(max(0, n - self._longest + 1), n):
            if self._reaches_beyond(symbols[j:]):
                other = self.merge(symbols[:j])
                same = 0
                while same < min(len(common), len(other)) and common[same] == other[same]:
                    same += 1
                del common[same:]
        return common

    def _reaches_beyond(self, symbols: str) -> bool:
        """Whether a vocabulary entry starts with ``symbols`` and is longer."""
        at = bisect_right(self._sorted_vocab, symbols)
        return at < len(self._sorted_vocab) and self._sorted_vocab[at].startswith(symbols)

    def _add_tokens(self, added: Mapping[str, tuple[int, Mapping[str, Any]]]) -> None:
        for content, (number, flags) in sorted(added.items(), key=lambda item: item[1][0]):
            token = AddedToken(content, **flags)
            if flags["special"]:
                self._backend.add_special_tokens([token])
            else:
                self._backend.add_tokens([token])
            given = self._backend.token_to_id(content)
            if given != number:
                raise ConfigError(
                    f"{self._added_from}: token {content!r} has id {number}, but follows as id {given}; "
                    "the vocabulary does not fit, download the tokenizer files again"
                )


def check_text(text: str) -> None:
    """Raises TextError when ``text`` is no string or has no UTF-8 form, which is the case with lone surrogates only."""
    if not isinstance(text, str):
        raise TextError(f"text is {type(text).__name__}, expected str; decode bytes first")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"text holds a lone surrogate U+{ord(text[error.start]):04X} at character {error.start}; "
            "decode the text as UTF-16 or replace the character"
        ) from None


def _checked_vocab(files: _Files) -> dict[str, int]:
    where = files.vocab_from
    owner: dict[int, str] = {}
    for token, number in files.vocab.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
            raise ConfigError(
                f"{where}: id of {token!r} is {number!r}, expected an integer from 0; download the file again"
            )
        if number in owner:
            raise ConfigError(
                f"{where}: {token!r} and {owner[number]!r} share id {number}; download the file again"
            )
        owner[number] = token
    lacking = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - files.vocab.keys())
    if lacking:
        raise ConfigError(
            f"{where}: {len(lacking)} of the 256 byte symbols are missing, first {lacking[0]!r}; "
            "this is not a byte-level vocabulary or the file is damaged"
        )
    try:
        "".join(files.vocab).encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: a token holds a lone surrogate; download the file again") from None
    return dict(files.vocab)


def _read_hub(path: Path) -> _Files:
    vocab_file, config_file = path / "vocab.json", path / "tokenizer_config.json"
    vocab = read_json(vocab_file)
    merges = _read_merges(path / "merges.txt", vocab)
    config = read_json(config_file)
    if config.get("add_prefix_space"):
        raise ConfigError(
            f"{config_file}: add_prefix_space is true, expected false (nothing else is supported)"
        )
    decoder = config.get("added_tokens_decoder")
    if not isinstance(decoder, dict):
        raise ConfigError(
            f"{config_file}: added_tokens_decoder is missing or not an object; download the file again"
        )
    added: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for key, entry in decoder.items():
        field = f"{config_file}: added_tokens_decoder[{key!r}]"
        if not (key.isascii() and key.isdigit()):
            raise ConfigError(f"{field}: the key is not an id; download the file again")
        _declare(added, field, int(key[:10]), entry)
    for name, token in _special_tokens(config):
        if token not in added:
            raise ConfigError(
                f"{config_file}: {name} {token!r} is not in added_tokens_decoder; download the file again"
            )
    return _Files(vocab, str(vocab_file), merges, added, str(config_file))


def _read_single(path: Path) -> _Files:
    data = read_json(path)
    model = data.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not isinstance(model.get("vocab"), dict):
        raise ConfigError(
            f"{path}: model is not a BPE model with a vocab; use the tokenizer of a Qwen3-TTS checkpoint"
        )
    lines = model.get("merges")
    if not isinstance(lines, list):
        raise ConfigError(f"{path}: model.merges is missing or not a list; download the file again")
    parts = ((i, line.split(" ") if isinstance(line, str) else line) for i, line in enumerate(lines))
    merges = _checked_merges(parts, model["vocab"], lambda i: f"{path}: model.merges[{i}]")
    entries = data.get("added_tokens")
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: added_tokens is missing or not a list; download the file again")
    added: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for i, entry in enumerate(entries):
        field = f"{path}: added_tokens[{i}]"
        number = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(number, bool) or not isinstance(number, int):
            raise ConfigError(f"{field}: id is {number!r}, expected an integer; download the file again")
        _declare(added, field, number, entry)
    return _Files(model["vocab"], str(path), merges, added, str(path))


def _read_merges(path: Path, vocab: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs in order of rank; blank lines and a first ``#version`` line are skipped, as the official reader does."""
    try:
        lines = read_text(path).split("\n")
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; download the tokenizer files again") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)})") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); download the file again") from None
    first = 1 if lines[0].startswith("#version") else 0
    parts = ((number, line.split()) for number, line in enumerate(lines[first:], start=first + 1))
    filled = ((number, words) for number, words in parts if words)
    return _checked_merges(filled, vocab, lambda number: f"{path}: line {number}")


def _checked_merges(
    entries: Iterable[tuple[int, object]], vocab: Mapping[str, Any], name: Callable[[int], str]
) -> list[tuple[str, str]]:
    """Pairs without repetitions; ``name`` says where an entry stands."""
    pairs: dict[tuple[str, str], None] = {}
    for number, parts in entries:
        if not isinstance(parts, list) or [type(part) for part in parts] != [str, str]:
            raise CheckpointError(
                f"{name(number)}: {str(parts)[:60]} is not a pair of tokens; download the file again"
            )
        left, right = parts
        for token in (left, right, left + right):
            if token not in vocab:
                raise CheckpointError(
                    f"{name(number)}: token {token[:60]!r} is not in the vocabulary; download the file again"
                )
        pairs[left, right] = None
    return list(pairs)


def _declare(added: dict[str, tuple[int, Mapping[str, Any]]], where: str, number: int, entry: object) -> None:
    """Checks one declaration of an added token and enters it."""
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: {entry!r} is not an object; download the file again")
    content = entry.get("content")
    if not isinstance(content, str) or not content or not content.isprintable():
        raise ConfigError(f"{where}: content is {content!r}, expected a token; download the file again")
    if content in added:
        raise ConfigError(f"{where}: content {content!r} is declared twice; download the file again")
    special = bool(entry.get("special", False))
    flags = {name: bool(entry[name]) for name in _ADDED_FLAGS if name in entry}
    added[content] = (number, {"special": special, "normalized": not special, **flags})


def _special_tokens(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(field, token) of every special token that the config names; each may be a string or an object."""
    named = [(name, config.get(name)) for name in _SPECIAL_NAMES]
    more = config.get("additional_special_tokens") or []
    if isinstance(more, list):
        named += [("additional_special_tokens", entry) for entry in more]
    contents = [(name, entry.get("content") if isinstance(entry, dict) else entry) for name, entry in named]
    return [(name, content) for name, content in contents if isinstance(content, str)]
