"""``model.json``: what a converted model directory holds and where it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rtts_engine.config import ModelConfig, spoken_languages
from rtts_engine.config_json import Fields, parse_config
from rtts_engine.errors import ConfigError, ModelError
from rtts_engine.files import read_text
from rtts_engine.graph.writer import FORMS, PRECISIONS, Form, Precision

MANIFEST_FILE = "model.json"
FORMAT = 3
"""Version of the directory's layout; a model of another format must be converted again."""
TABLES_FILE = "tables.safetensors"
TOKENIZER_FOLDER = "tokenizer"
TALKER, PREDICTOR, TEXT_PROJECTION, CODEC_DECODER = "talker", "predictor", "text_projection", "codec_decoder"
TALKER_ATTENTION = "talker_attention"
CODEC_ENCODER, SPEAKER_ENCODER = "codec_encoder", "speaker_encoder"
"""Stems of the graphs; the encoders are there in models that clone."""
_GRAPHS = (TALKER, TALKER_ATTENTION, PREDICTOR, TEXT_PROJECTION, CODEC_DECODER)
LOAD_CHECK_BYTES = 64 << 20
"""Files up to this size are compared with their hashes whenever a model is loaded: tens of milliseconds each at most.

That covers every graph's structure, a flipped bit of which crashes ncnn, and the whole of a small voice. The weights of
a large one are left to ``rtts doctor``.
"""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Size and hash of one file of the directory."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Product:
    """One product of the language model of an int8 model."""

    form: Form
    """How it was written."""
    loss: float
    """Norm of the error of plain int8 over the norm of the exact result, on the calibration's rows."""
    rotated_loss: float | None = None
    """The same with rotated inputs; None where plain int8 is good enough or the width allows no rotation."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The typed form of ``model.json``."""

    name: str
    precision: Precision
    ncnn_version: str
    """The wheel whose on-disk formats the graphs were written for."""
    source_sha256: str
    """Hash of the checkpoint's configs and weights (see ``convert.source_hash``)."""
    config: ModelConfig
    config_json: Mapping[str, Any]
    """The checkpoint's three JSON objects as they were: main, codec, generation."""
    files: Mapping[str, FileRecord]
    codec_ranges: Mapping[str, float] = field(default_factory=dict)
    """Of the codec decoder's int8 convolutions: the largest inputs that their scales hold (see ``calibrate``)."""
    products: Mapping[str, Product] = field(default_factory=dict)
    """Of an int8 model: the form of each product of the language model, and what decided it (see ``int8_loss``)."""

    @property
    def kind(self) -> str:
        """``base``, ``custom_voice`` or ``voice_design``."""
        return self.config.kind

    @property
    def size(self) -> str:
        """The checkpoint's ``tts_model_size``."""
        return self.config.size

    @property
    def languages(self) -> list[str]:
        """What a request may ask for, see ``spoken_languages``."""
        return spoken_languages(self.config.talker.languages)

    @property
    def speakers(self) -> list[str]:
        """Built-in speakers; empty unless the model is ``custom_voice``."""
        return sorted(self.config.talker.speakers)

    def has(self, stem: str) -> bool:
        """Whether the graph ``stem`` was written."""
        return f"{stem}.param" in self.files

    def to_json(self) -> str:
        """The text of ``model.json``; the lists of names are for readers, the config is what counts."""
        talker = self.config.talker
        return json.dumps(
            {
                "format": FORMAT,
                "name": self.name,
                "kind": self.kind,
                "size": self.size,
                "precision": self.precision,
                "ncnn": self.ncnn_version,
                "source_sha256": self.source_sha256,
                "languages": self.languages,
                "speakers": self.speakers,
                "dialects": dict(talker.dialects),
                "codec_ranges": {name: round(value, 6) for name, value in self.codec_ranges.items()},
                "products": {name: asdict(product) for name, product in self.products.items()},
                "config": self.config_json,
                "files": {n: {"bytes": r.size_bytes, "sha256": r.sha256} for n, r in self.files.items()},
            },
            indent=1,  # in ASCII: a folder's name need not have a UTF-8 form
        )

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``folder/model.json`` and check that every file is there with its size.

        Raises:
            ModelError: not a converted model, another format, or a file missing or cut short.
        """
        path = folder / MANIFEST_FILE
        try:
            data = json.loads(read_text(path))
        except FileNotFoundError:
            raise ModelError(
                f"{folder}: no {MANIFEST_FILE}; not a converted model (see 'rtts convert')"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{path}: damaged ({error}); convert the checkpoint again") from None
        if not isinstance(data, dict):
            raise ModelError(f"{path}: damaged (not an object); convert the checkpoint again")
        fields = Fields(str(path), "", data)
        try:
            if data.get("format") != FORMAT:
                raise ModelError(
                    f"{path}: format {data.get('format')}, this version reads {FORMAT}; convert again"
                )
            precision = fields.text("precision")
            if precision not in PRECISIONS:
                raise ModelError(f"{path}: precision {precision!r}, expected {', '.join(PRECISIONS)}")
            configs = fields.section("config")
            manifest = cls(
                name=fields.text("name"),
                precision=precision,
                ncnn_version=fields.text("ncnn"),
                source_sha256=fields.text("source_sha256"),
                config=parse_config(
                    configs.mapping("main"),
                    configs.mapping("codec"),
                    configs.mapping("generation"),
                    where=(str(path),) * 3,
                ),
                config_json=data["config"],
                files=_records(fields),
                codec_ranges=_ranges(fields) if "codec_ranges" in data else {},
                products=_products(fields) if "products" in data else {},
            )
        except ConfigError as error:
            raise ModelError(f"{error}; convert the checkpoint again") from None
        for name, record in manifest.files.items():
            file = folder / name
            if not file.is_file():
                raise ModelError(f"{file}: no such file; convert the checkpoint again")
            if file.stat().st_size != record.size_bytes:
                raise ModelError(
                    f"{file}: {file.stat().st_size} bytes, expected {record.size_bytes}; convert the checkpoint again"
                )
        return manifest

    def verify(self, folder: Path, *, largest_bytes: int | None = None) -> None:
        """Compare every file with its hash, or every one of at most ``largest_bytes``.

        Raises:
            ModelError: at the first difference.
        """
        for name, record in self.files.items():
            if largest_bytes is not None and record.size_bytes > largest_bytes:
                continue
            try:
                found = file_sha256(folder / name)
            except OSError as error:
                raise ModelError(f"{folder / name}: cannot be read ({error.strerror or error})") from None
            if found != record.sha256:
                raise ModelError(
                    f"{folder / name}: contents changed since conversion; convert the checkpoint again"
                )


def _ranges(fields: Fields) -> dict[str, float]:
    ranges = fields.section("codec_ranges")
    return {name: ranges.number(name, low=0.0, high=1e30) for name in fields.mapping("codec_ranges")}


def _records(fields: Fields) -> dict[str, FileRecord]:
    listed = fields.section("files")
    for stem in _GRAPHS:
        for name in (f"{stem}.param", f"{stem}.bin"):
            listed.mapping(name)
    records = {name: listed.section(name) for name in fields.mapping("files")}
    return {
        name: FileRecord(record.integer("bytes", low=0, high=2**63 - 1), record.text("sha256"))
        for name, record in records.items()
    }


def _products(fields: Fields) -> dict[str, Product]:
    listed, found = fields.section("products"), {}
    for name in fields.mapping("products"):
        product = listed.section(name)
        form = product.text("form")
        if form not in FORMS:
            raise product.fail("form", f"one of {', '.join(FORMS)}")
        turned = product.number("rotated_loss", low=0.0, high=1e30) if product.has("rotated_loss") else None
        found[name] = Product(form, product.number("loss", low=0.0, high=1e30), turned)
    return found


def file_sha256(path: Path) -> str:
    """Hash of a file's contents, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
