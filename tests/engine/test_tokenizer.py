"""The tokenizer against ids recorded from the official one, and its error messages. No torch."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtts_engine.errors import CheckpointError, ConfigError, RttsError, TextError
from rtts_engine.text_stream import IncrementalTokenizer
from rtts_engine.tokenizer import WHITESPACE, SplitRule, Tokenizer
from tests.engine.text_corpus import ADDED_TOKENS, random_texts

DATA = Path(__file__).parent / "data"
TINY = DATA / "tiny_tokenizer"
GOLDEN: list[dict[str, Any]] = json.loads((DATA / "tokenizer_golden.json").read_text(encoding="utf-8"))
TOKENIZERS: dict[SplitRule, Tokenizer] = {
    "qwen2": Tokenizer.from_dir(TINY),
    "mistral": Tokenizer.from_dir(TINY, split="mistral"),
}
N_VOCAB = 900

splits = pytest.mark.parametrize("split", list(TOKENIZERS))
texts = st.one_of(st.text(max_size=60), st.integers(0, 10_000).map(lambda seed: random_texts(seed, 1)[0]))


@splits
def test_ids_are_the_official_ones(split: SplitRule) -> None:
    assert len(GOLDEN) > 400
    for row in GOLDEN:
        assert TOKENIZERS[split].encode(row["text"]) == row[split], repr(row["text"])


def test_golden_tells_the_patterns_apart() -> None:
    assert sum(row["qwen2"] != row["mistral"] for row in GOLDEN) > 20


@splits
def test_tokenizer_json_alone(split: SplitRule, tmp_path: Path) -> None:
    _write_single(tmp_path, _single())
    tokenizer = Tokenizer.from_dir(tmp_path, split=split)
    assert tokenizer.vocab_size == TOKENIZERS[split].vocab_size
    for row in GOLDEN:
        assert tokenizer.encode(row["text"]) == row[split], repr(row["text"])


def test_hub_files_win_over_tokenizer_json(tmp_path: Path) -> None:
    folder = shutil.copytree(TINY, tmp_path / "both")
    (folder / "tokenizer.json").write_text("damaged")
    assert Tokenizer.from_dir(folder).vocab_size == N_VOCAB + len(ADDED_TOKENS)


def test_named_ids() -> None:
    tokenizer = TOKENIZERS["qwen2"]
    assert tokenizer.vocab_size == N_VOCAB + len(ADDED_TOKENS)
    assert [tokenizer.token_id(token) for token in ADDED_TOKENS] == list(range(N_VOCAB, tokenizer.vocab_size))
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: token '<\|nope\|>' is missing"):
        tokenizer.token_id("<|nope|>")


@splits
@given(text=texts)
def test_spoken_text_without_added_tokens_has_the_official_ids(split: SplitRule, text: str) -> None:
    if not any(token in text for token in ADDED_TOKENS):
        text = text.strip(WHITESPACE)
        assert TOKENIZERS[split].encode_spoken(text) == TOKENIZERS[split].encode(text)


@splits
@given(text=texts, token=st.sampled_from(ADDED_TOKENS))
def test_spoken_text_never_names_added_tokens(split: SplitRule, text: str, token: str) -> None:
    assert all(i < N_VOCAB for i in TOKENIZERS[split].encode_spoken(token + text + token))


@splits
@given(text=texts)
def test_pieces_have_no_gaps(split: SplitRule, text: str) -> None:
    tokenizer = TOKENIZERS[split]
    text = tokenizer.normalize(text)
    pieces = tokenizer.split(text)
    assert sum(len(piece.symbols) for piece in pieces) == len(text.encode())
    ends = [piece.end for piece in pieces]
    assert ends == sorted(set(ends))
    assert not text or ends[-1] == len(text)


@given(
    start=st.text("日本のカー가aA,. ", max_size=12),
    more=st.text("日本のカー가aA,. ", max_size=12),
    cut=st.integers(0, 36),
)
def test_certain_tokens_stay_whatever_follows(start: str, more: str, cut: int) -> None:
    """The pieces are not split here, so a piece of any bytes stands for an unspaced script."""
    tokenizer = TOKENIZERS["qwen2"]
    symbols = "".join(piece.symbols for piece in tokenizer.split(start + more))
    certain = tokenizer.certain_tokens(symbols[:cut])
    assert tokenizer.merge(symbols)[: len(certain)] == certain


def test_most_of_a_long_run_is_certain() -> None:
    tokenizer = TOKENIZERS["qwen2"]
    symbols = tokenizer.split("日本日本の日本日本の" * 3)[0].symbols
    certain = tokenizer.certain_tokens(symbols)
    assert sum(token.n_bytes for token in certain) > len(symbols) - 30


@pytest.mark.parametrize("method", ["encode", "encode_spoken"])
def test_lone_surrogate(method: str) -> None:
    with pytest.raises(TextError, match=r"lone surrogate U\+D83D at character 3"):
        getattr(TOKENIZERS["qwen2"], method)("hi \ud83d there")


def test_whitespace_is_what_the_patterns_call_so() -> None:
    """Two of a whitespace character are two pieces before a digit, and one joins the letter after it."""
    tokenizer = TOKENIZERS["qwen2"]
    found = [
        c
        for c in map(chr, [*range(0xD800), *range(0xE000, 0x11000)])
        if len(tokenizer.split(f"1{c}{c}1")) == 4 and len(tokenizer.split(f"1{c}x")) == 2
    ]
    assert {*found, "\r", "\n"} == set(WHITESPACE)


# -- damaged files ---------------------------------------------------------------------------------------------------


def _edit_json(name: str, edit: Callable[[Any], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        data = json.loads((folder / name).read_text(encoding="utf-8"))
        edit(data)
        (folder / name).write_text(json.dumps(data), encoding="utf-8")

    return apply


def _edit_line(number: int, line: str) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        path = folder / "merges.txt"
        lines = path.read_text(encoding="utf-8").split("\n")
        lines[number - 1] = line
        path.write_text("\n".join(lines), encoding="utf-8")

    return apply


def _config(edit: Callable[[Any], object]) -> Callable[[Path], object]:
    return _edit_json("tokenizer_config.json", edit)


def _vocab(edit: Callable[[Any], object]) -> Callable[[Path], object]:
    return _edit_json("vocab.json", edit)


def _added(key: str, **fields: object) -> Callable[[Path], object]:
    return _config(lambda d: d["added_tokens_decoder"].setdefault(key, {}).update(fields))


def _remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no files": (_remove_all, r"no tokenizer .* download these files"),
    "no vocab": (lambda d: (d / "vocab.json").unlink(), r"vocab\.json: no such file"),
    "no merges": (lambda d: (d / "merges.txt").unlink(), r"merges\.txt: no such file; download"),
    "no config": (lambda d: (d / "tokenizer_config.json").unlink(), r"tokenizer_config\.json: no such file"),
    "merges is a folder": (
        lambda d: _make_folder(d / "merges.txt"),
        r"merges\.txt: cannot be read \([\w ]+\)$",
    ),
    "merges is not UTF-8": (
        lambda d: (d / "merges.txt").write_bytes(b"\xff\xfe"),
        r"merges\.txt: cannot be read .*; download the file again",
    ),
    "cut vocab": (lambda d: (d / "vocab.json").write_text('{"a": 1,'), r"vocab\.json: not valid JSON"),
    "vocab is a list": (lambda d: (d / "vocab.json").write_text("[]"), r"vocab\.json: holds list"),
    "id is a string": (
        _vocab(lambda v: v.update(a="1")),
        r"vocab\.json: id of 'a' is '1', expected an integer",
    ),
    "id is negative": (_vocab(lambda v: v.update(a=-1)), r"vocab\.json: id of 'a' is -1"),
    "id is huge": (_vocab(lambda v: v.update(a=2**31)), r"vocab\.json: id of 'a' is 2147483648"),
    "shared id": (_vocab(lambda v: v.update(zzz=v["a"])), r"vocab\.json: 'zzz' and 'a' share id \d+"),
    "no byte": (_vocab(lambda v: v.update(zz=v.pop("ÿ"))), r"vocab\.json: 1 of the 256 byte symbols .* 'ÿ'"),
    "surrogate in vocab": (
        _vocab(lambda v: v.update({"\ud800": 5000})),
        r"vocab\.json: a token holds a lone surr",
    ),
    "one word in merges": (_edit_line(5, "abc"), r"merges\.txt: line 5: \['abc'\] is not a pair"),
    "three words in merges": (_edit_line(7, "a b c"), r"merges\.txt: line 7: .* is not a pair"),
    "unknown merge": (_edit_line(9, "a zzzz"), r"merges\.txt: line 9: token 'zzzz' is not in the vocabulary"),
    "unknown product": (_edit_line(9, "q ÿ"), r"merges\.txt: line 9: token 'qÿ' is not in the vocabulary"),
    "prefix space": (
        _config(lambda c: c.update(add_prefix_space=True)),
        r"add_prefix_space is true, expected false",
    ),
    "no added tokens": (_config(lambda c: c.pop("added_tokens_decoder")), r"added_tokens_decoder is missing"),
    "added id is a word": (_added("x", content="<x>"), r"added_tokens_decoder\['x'\]: the key is not an id"),
    "added is a string": (
        _config(lambda c: c["added_tokens_decoder"].update({"907": "x"})),
        r"decoder\['907'\]: 'x' is not an object",
    ),
    "added without content": (
        _added("907", special=True),
        r"decoder\['907'\]: content is None, expected a token",
    ),
    "added twice": (
        _added("907", content="<think>"),
        r"decoder\['907'\]: content '<think>' is declared twice",
    ),
    "gap in ids": (_added("950", content="<x>"), r"token '<x>' has id 950, but follows as id 907"),
    "added in vocab": (_added("907", content="a"), r"token 'a' has id \d+, but follows as id \d+"),
    "undeclared special": (
        _config(lambda c: c.update(pad_token="<pad>")),
        r"pad_token '<pad>' is not in added_tokens_decoder",
    ),
    "undeclared object": (
        _config(lambda c: c.update(eos_token={"content": "<eos>"})),
        r"eos_token '<eos>' is not in added_tokens",
    ),
    "undeclared more": (
        _config(lambda c: c.update(additional_special_tokens=["<y>"])),
        r"additional_special_tokens '<y>' is not in",
    ),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damaged_hub_files(name: str, tmp_path: Path) -> None:
    folder = shutil.copytree(TINY, tmp_path / "damaged")
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        Tokenizer.from_dir(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


SINGLE_DAMAGE: dict[str, tuple[Callable[[Any], object], str]] = {
    "no model": (lambda d: d.pop("model"), r"model is not a BPE model"),
    "unigram": (lambda d: d["model"].update(type="Unigram"), r"model is not a BPE model"),
    "no vocab": (lambda d: d["model"].pop("vocab"), r"model is not a BPE model with a vocab"),
    "no merges": (lambda d: d["model"].pop("merges"), r"model\.merges is missing"),
    "bad merge": (
        lambda d: d["model"]["merges"].insert(3, ["a", 1]),
        r"model\.merges\[3\]: .* is not a pair",
    ),
    "no added": (lambda d: d.pop("added_tokens"), r"added_tokens is missing"),
    "added is a number": (lambda d: d["added_tokens"].append(3), r"added_tokens\[7\]: id is None"),
    "added id": (
        lambda d: d["added_tokens"].append({"id": True, "content": "<x>"}),
        r"added_tokens\[7\]: id is True, expected",
    ),
    "added content": (
        lambda d: d["added_tokens"].append({"id": 907, "content": ""}),
        r"added_tokens\[7\]: content is ''",
    ),
}


@pytest.mark.parametrize("name", list(SINGLE_DAMAGE))
def test_damaged_tokenizer_json(name: str, tmp_path: Path) -> None:
    data = _single()
    damage, message = SINGLE_DAMAGE[name]
    damage(data)
    _write_single(tmp_path, data)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: " + message):
        Tokenizer.from_dir(tmp_path)


def test_merges_as_strings_in_tokenizer_json(tmp_path: Path) -> None:
    data = _single()
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    _write_single(tmp_path, data)
    assert Tokenizer.from_dir(tmp_path).encode(GOLDEN[5]["text"]) == GOLDEN[5]["qwen2"]


def test_random_damage_gives_clear_errors(tmp_path: Path) -> None:
    """Cut and overwritten bytes: the tokenizer loads (the damage was harmless) or says which file is at fault."""
    rng = random.Random(0)
    for trial in range(150):
        folder = shutil.copytree(TINY, tmp_path / str(trial))
        path = folder / rng.choice(["vocab.json", "merges.txt", "tokenizer_config.json"])
        data = bytearray(path.read_bytes())
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randint(0, 3)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data))
        try:
            Tokenizer.from_dir(folder).encode("Hello 世界")
        except RttsError as error:
            assert re.search(r"(vocab\.json|merges\.txt|tokenizer_config\.json)", str(error))
            assert "\n" not in str(error)


def _single() -> dict[str, Any]:
    config = json.loads((TINY / "tokenizer_config.json").read_text(encoding="utf-8"))
    merges = (TINY / "merges.txt").read_text(encoding="utf-8").split("\n")[1:]
    return {
        "added_tokens": [{"id": int(key), **entry} for key, entry in config["added_tokens_decoder"].items()],
        "model": {
            "type": "BPE",
            "vocab": json.loads((TINY / "vocab.json").read_text(encoding="utf-8")),
            "merges": [line.split(" ") for line in merges if line],
        },
    }


def _write_single(folder: Path, data: dict[str, Any]) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")


def test_config_errors_are_checkpoint_errors() -> None:
    assert issubclass(ConfigError, CheckpointError)


@pytest.mark.parametrize("text", ["Of course", "It left.", "你好。", "50 %"])
@pytest.mark.parametrize("space", [" ", "\n", " \t\n ", "\u00a0"])
@splits
def test_whitespace_around_a_text_is_not_spoken(split: SplitRule, text: str, space: str) -> None:
    """A model that never saw a text end in whitespace speaks on after one."""
    tokenizer = TOKENIZERS[split]
    ids = tokenizer.encode_spoken(text)
    assert tokenizer.encode_spoken(space + text + space) == ids
    stream = IncrementalTokenizer(tokenizer)
    assert stream.feed(text) + stream.feed(space) + stream.close() == ids
