"""Checkpoint directory to ncnn model directory, at once or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.calibrate import codec_ranges
from rtts_engine.checkpoint import TOKENIZER_FILES, Checkpoint
from rtts_engine.config_json import read_json
from rtts_engine.errors import CheckpointError, ModelError
from rtts_engine.files import reason
from rtts_engine.graph.codec_decoder import codec_tables, write_codec_decoder
from rtts_engine.graph.codec_encoder import codec_encoder_tables, has_encoder, write_codec_encoder
from rtts_engine.graph.speaker_encoder import write_speaker_encoder
from rtts_engine.graph.stack import write_attention, write_predictor, write_talker, write_text_projection
from rtts_engine.graph.writer import PRECISIONS, Precision
from rtts_engine.int8_loss import judge_products
from rtts_engine.manifest import (
    CODEC_DECODER,
    CODEC_ENCODER,
    MANIFEST_FILE,
    PREDICTOR,
    SPEAKER_ENCODER,
    TABLES_FILE,
    TALKER,
    TALKER_ATTENTION,
    TEXT_PROJECTION,
    TOKENIZER_FOLDER,
    FileRecord,
    Manifest,
    Product,
    file_sha256,
)
from rtts_engine.runtime import ncnn_version
from rtts_engine.tables import table_shapes
from rtts_engine.tensors import write_safetensors
from rtts_engine.tokenizer import Tokenizer

Progress = Callable[[str, float], None]

_BYTES_PER_WEIGHT = {"fp32": 4.0, "bf16": 4.0, "fp16": 2.0, "int8": 1.1}
"""ncnn's files hold bf16 weights as fp32; int8 rows carry a scale."""


def source_hash(checkpoint: Checkpoint) -> str:
    """Hash of a checkpoint's configs, tokenizer and weights: the identity of what a model was converted from."""
    digest = hashlib.sha256()
    for file in _source_files(checkpoint):
        digest.update(f"{file.relative_to(checkpoint.path)}\0{file_sha256(file)}\0".encode())
    return digest.hexdigest()


def _source_files(checkpoint: Checkpoint) -> list[Path]:
    folders = (checkpoint.path, checkpoint.path / "speech_tokenizer")
    wanted = {"config.json", "generation_config.json", "tokenizer.json", *TOKENIZER_FILES}
    return sorted(
        file
        for folder in folders
        for file in folder.iterdir()
        if file.is_file()
        and (file.name in wanted or (file.name.startswith("model") and ".safetensors" in file.name))
    )


def convert(
    checkpoint_dir: Path | str,
    out_dir: Path | str,
    precision: Precision = "fp32",
    progress: Progress | None = None,
    name: str | None = None,
) -> Path:
    """Write the ncnn model directory ``out_dir``.

    Everything goes to a folder beside it that takes its name when complete; an interrupted conversion leaves
    nothing. An existing converted model is replaced.

    Args:
        checkpoint_dir: a checkpoint in the hub's layout.
        out_dir: where the model goes.
        precision: how weights are kept and multiplied.
        progress: called with a step's name and the fraction done, 0 to 1.
        name: the model's name; the checkpoint folder's if None.

    Raises:
        CheckpointError: the checkpoint is incomplete, damaged or not supported.
        ModelError: ``out_dir`` is something else, cannot be written, or the disk is too small.
    """
    if precision not in PRECISIONS:
        raise ModelError(f"precision {precision!r} is not available, choose from {', '.join(PRECISIONS)}")
    report = progress or (lambda _step, _fraction: None)
    report("checking", 0.0)
    checkpoint = Checkpoint.open(checkpoint_dir)
    _check_tokenizer(checkpoint)
    target = Path(out_dir).absolute()
    try:
        if _is_something_else(target):
            raise ModelError(f"{target}: exists and is not a converted model; choose another folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_space(checkpoint, target.parent, precision)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({reason(error)})") from None
    try:
        _write(checkpoint, work, precision, report, name or checkpoint.path.resolve().name)
        work.chmod(0o755)
        _replace(work, target)
    except OSError as error:
        raise ModelError(f"{target}: writing failed ({reason(error)}); nothing was kept") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report("done", 1.0)
    return target


def _check_tokenizer(checkpoint: Checkpoint) -> None:
    """Every id of the tokenizer must be a row of the text embedding."""
    ids, rows = Tokenizer.from_dir(checkpoint.path).vocab_size, checkpoint.config.talker.text_vocab_size
    if ids > rows:
        raise CheckpointError(
            f"{checkpoint.path}: the tokenizer has ids up to {ids - 1}, but talker_config.text_vocab_size is {rows}; "
            "the tokenizer files belong to another model"
        )


def _is_something_else(target: Path) -> bool:
    """Whether ``target`` is there and neither an empty folder nor a converted model."""
    if not target.exists() or (target / MANIFEST_FILE).is_file():
        return False
    return not target.is_dir() or any(target.iterdir())


def _check_space(checkpoint: Checkpoint, folder: Path, precision: Precision) -> None:
    tables = set(table_shapes(checkpoint.config.talker))
    need = 0.0
    for source in (checkpoint.main, checkpoint.codec):
        for name in source:
            shape, stored = source.extent(name)
            need += (
                stored if name in tables else np.prod(shape, dtype=np.float64) * _BYTES_PER_WEIGHT[precision]
            )
            if precision == "int8" and source is checkpoint.codec:  # the fp32 decoder that is calibrated with
                need += np.prod(shape, dtype=np.float64) * _BYTES_PER_WEIGHT["fp32"]
    free = shutil.disk_usage(folder).free
    if need * 1.02 > free:
        raise ModelError(
            f"{folder}: {free / 1e9:.2f} GB free, the converted model needs {need * 1.02 / 1e9:.2f} GB; free some space"
        )


def _replace(work: Path, target: Path) -> None:
    """Give ``work`` the name ``target``; an older model there steps aside first."""
    if not target.exists():
        os.replace(work, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        os.replace(target, old / "model")
        os.replace(work, target)
    except BaseException:
        if (old / "model").exists() and not target.exists():
            os.replace(old / "model", target)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _write(checkpoint: Checkpoint, work: Path, precision: Precision, report: Progress, name: str) -> None:
    config = checkpoint.config
    tables: dict[str, npt.NDArray[np.float32]] = {}
    products: dict[str, Product] = {}
    if precision == "int8":
        report("calibrating", 0.02)
        products = judge_products(checkpoint)
    forms = {name: product.form for name, product in products.items()}
    report("talker", 0.15 if products else 0.02)
    write_talker(checkpoint.main, config.talker, work / TALKER, precision, forms)
    write_attention(config.talker.stack, work / TALKER_ATTENTION, precision)
    report("code predictor", 0.5)
    write_predictor(checkpoint.main, config.talker, work / PREDICTOR, precision, forms)
    write_text_projection(checkpoint.main, config.talker, work / TEXT_PROJECTION, precision, forms)
    report("codec decoder", 0.65)
    tables |= codec_tables(checkpoint)
    ranges = codec_ranges(checkpoint, work) if precision == "int8" else {}
    tables |= write_codec_decoder(checkpoint, work / CODEC_DECODER, precision, ranges)
    if config.speaker_encoder is not None:  # only a Base model speaks with a cloned voice
        report("encoders", 0.75)
        write_speaker_encoder(checkpoint, work / SPEAKER_ENCODER)
        if has_encoder(checkpoint):
            tables |= codec_encoder_tables(checkpoint)
            write_codec_encoder(checkpoint, work / CODEC_ENCODER)
    report("tables", 0.8)
    _write_tables(checkpoint, work, tables)
    folder = work / TOKENIZER_FOLDER
    folder.mkdir()
    for file in (*TOKENIZER_FILES, "tokenizer.json"):
        if (checkpoint.path / file).is_file():
            shutil.copyfile(checkpoint.path / file, folder / file)
    report("hashes", 0.85)
    _write_manifest(checkpoint, work, precision, name, ranges, products)


def _write_tables(checkpoint: Checkpoint, work: Path, computed: dict[str, npt.NDArray[np.float32]]) -> None:
    """Look-up tables keep the checkpoint's own precision and stay memory-mapped."""
    shapes = table_shapes(checkpoint.config.talker)
    stored = {name: checkpoint.main.finite(name, shape) for name, shape in shapes.items()}
    write_safetensors(work / TABLES_FILE, {**stored, **computed}, {"format": "rtts-tables"})


def _write_manifest(
    checkpoint: Checkpoint,
    work: Path,
    precision: Precision,
    name: str,
    ranges: Mapping[str, float],
    products: Mapping[str, Product],
) -> None:
    path = checkpoint.path
    generation = path / "generation_config.json"
    files = {
        file.relative_to(work).as_posix(): FileRecord(file.stat().st_size, file_sha256(file))
        for file in sorted(work.rglob("*"))
        if file.is_file()
    }
    manifest = Manifest(
        name=name,
        precision=precision,
        ncnn_version=ncnn_version(),
        source_sha256=source_hash(checkpoint),
        config=checkpoint.config,
        config_json={
            "main": read_json(path / "config.json"),
            "codec": read_json(path / "speech_tokenizer" / "config.json"),
            "generation": read_json(generation) if generation.exists() else {},
        },
        files=files,
        codec_ranges=ranges,
        products=products,
    )
    (work / MANIFEST_FILE).write_text(manifest.to_json(), encoding="utf-8")
