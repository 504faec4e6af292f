"""Conversion: every precision, at once or not at all, and a manifest that notices damage."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rtts_engine import convert as convert_module
from rtts_engine.checkpoint import Checkpoint
from rtts_engine.convert import convert, source_hash
from rtts_engine.errors import CheckpointError, ModelError, RequestError
from rtts_engine.graph.writer import PRECISIONS, Precision
from rtts_engine.manifest import MANIFEST_FILE, Manifest
from rtts_engine.model import Model, Threads
from tests.checkpoints import damage, write_checkpoint

from .conftest import Models


@pytest.fixture
def converted(models: Models, tmp_path: Path) -> Path:
    """A private copy of the converted tiny Base model."""
    return Path(shutil.copytree(models.get().path, tmp_path / "model"))


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("fp32", 1e-5), ("fp16", 4e-3), ("bf16", 6e-2), ("int8", 0.15)]
)
def test_every_precision_speaks(
    models: Models, tmp_path: Path, precision: Precision, tolerance: float
) -> None:
    reference = models.get()
    model = Model.load(convert(models.checkpoint(), tmp_path / precision, precision))
    assert model.manifest.precision == precision
    rows = np.random.default_rng(1).normal(0, 0.5, (12, reference.tables.hidden_size)).astype(np.float32)
    _, want = reference.talker.prefill(rows)
    state, got = model.talker.prefill(rows[:9])
    for row in rows[9:]:
        got = model.talker.step(state, row)
    error = np.linalg.norm(got.hidden - want.hidden) / np.linalg.norm(want.hidden)
    assert error < tolerance
    codes = model.predictor.frame(want.hidden, 3, lambda _book, logits: int(np.argmax(logits)))
    assert codes.shape == (16,)
    assert codes[0] == 3
    samples = model.codec.decode(model.codec.init_state(), codes[None].repeat(3, axis=0))
    assert samples.shape == (3 * 1920,)
    assert np.isfinite(samples).all()


def test_int8_keeps_its_calibration(models: Models, tmp_path: Path) -> None:
    path = convert(models.checkpoint(), tmp_path / "int8", "int8")
    ranges = Manifest.load(path).codec_ranges
    assert set(ranges) >= {"conv_in", "up0", "unit0_0"}
    assert all(value > 0 for value in ranges.values())
    assert json.loads((path / MANIFEST_FILE).read_text())["codec_ranges"] == ranges
    assert not Manifest.load(models.get().path).codec_ranges


def test_precisions_are_all_covered() -> None:
    assert set(PRECISIONS) == {"fp32", "fp16", "bf16", "int8"}


def test_manifest_names_what_the_model_can_do(models: Models) -> None:
    model = models.get("tiny", "custom_voice")
    data = json.loads((model.path / MANIFEST_FILE).read_text(encoding="utf-8"))
    assert data["kind"] == "custom_voice"
    assert "eric" in data["speakers"]
    assert data["dialects"]["eric"] == "sichuan_dialect"
    assert data["languages"][0] == "auto"
    assert not [name for name in data["languages"] if "dialect" in name]
    assert set(data["files"]) >= {"talker.param", "talker.bin", "tables.safetensors", "tokenizer/vocab.json"}
    model.manifest.verify(model.path)


def test_same_checkpoint_same_bytes(models: Models, tmp_path: Path) -> None:
    first = Manifest.load(convert(models.checkpoint(), tmp_path / "a", name="x"))
    second = Manifest.load(convert(models.checkpoint(), tmp_path / "b", name="x"))
    assert first.files == second.files
    assert first.source_sha256 == second.source_sha256 == source_hash(Checkpoint.open(models.checkpoint()))


def test_progress_reaches_the_end_and_never_goes_back(models: Models, tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    convert(models.checkpoint(), tmp_path / "model", progress=lambda step, done: seen.append((step, done)))
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions)
    assert seen[-1] == ("done", 1.0)


def test_an_older_model_is_replaced(models: Models, converted: Path) -> None:
    convert(models.checkpoint(), converted, "fp16")
    assert Manifest.load(converted).precision == "fp16"
    assert [p.name for p in converted.parent.iterdir()] == [converted.name]


def test_a_folder_of_something_else_is_left_alone(models: Models, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"meow")
    with pytest.raises(ModelError, match="exists and is not a converted model"):
        convert(models.checkpoint(), tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.png").read_bytes() == b"meow"


def test_an_interrupted_conversion_leaves_the_older_model(
    models: Models, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Manifest.load(converted)

    def interrupt(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(convert_module, "write_predictor", interrupt)
    with pytest.raises(KeyboardInterrupt):
        convert(models.checkpoint(), converted)
    assert [p.name for p in converted.parent.iterdir()] == [converted.name]
    assert Manifest.load(converted) == before


def test_a_failing_conversion_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    damage.drop_tensor(checkpoint, "talker.code_predictor.lm_head.3.weight")
    with pytest.raises(CheckpointError):
        convert(checkpoint, tmp_path / "out" / "model")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_is_noticed_before_writing(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        convert_module.shutil, "disk_usage", lambda _path: SimpleNamespace(total=10**9, used=10**9, free=1000)
    )
    with pytest.raises(ModelError, match=r"0\.00 GB free, the converted model needs"):
        convert(models.checkpoint(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_is_one_clear_error(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert_module, "write_predictor", fail)
    with pytest.raises(ModelError, match="No space left on device"):
        convert(models.checkpoint(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["file", "x" * 300, "link"])
def test_targets_that_cannot_be_a_folder(models: Models, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ModelError):
        convert(models.checkpoint(), tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_an_interruption_brings_the_older_model_back(
    converted: Path, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, moves = os.replace, []

    def interrupted(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert(models.checkpoint(), converted)
    Manifest.load(converted).verify(converted)
    assert [path.name for path in converted.parent.iterdir()] == [converted.name]


def test_unknown_precision(models: Models, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="choose from fp32, fp16, bf16, int8"):
        convert(models.checkpoint(), tmp_path / "model", "int4")  # type: ignore[arg-type]


def test_damaged_models_are_refused(converted: Path) -> None:
    (converted / "talker.bin").write_bytes(b"\0" * 10)
    with pytest.raises(ModelError, match=r"talker\.bin: 10 bytes, expected"):
        Model.load(converted)
    (converted / "talker.bin").unlink()
    with pytest.raises(ModelError, match=r"talker\.bin: no such file"):
        Model.load(converted)


def test_changed_contents_of_the_same_size_are_found_by_verify(converted: Path) -> None:
    manifest = Manifest.load(converted)
    data = bytearray((converted / "predictor.bin").read_bytes())
    data[1000] ^= 1
    (converted / "predictor.bin").write_bytes(data)
    with pytest.raises(ModelError, match=r"predictor\.bin: contents changed"):
        manifest.verify(converted)


@pytest.mark.parametrize("file", ["talker.param", "talker.bin", "tables.safetensors", "tokenizer/merges.txt"])
def test_a_flipped_bit_is_found_before_ncnn_sees_it(converted: Path, file: str) -> None:
    data = bytearray((converted / file).read_bytes())
    data[len(data) // 2] ^= 1
    (converted / file).write_bytes(data)
    with pytest.raises(ModelError, match=f"{file}: contents changed since conversion"):
        Model.load(converted)


def test_large_files_are_left_to_the_whole_check(converted: Path) -> None:
    manifest = Manifest.load(converted)
    (converted / "talker.bin").write_bytes(b"\0" * manifest.files["talker.bin"].size_bytes)
    manifest.verify(converted, largest_bytes=manifest.files["talker.bin"].size_bytes - 1)
    with pytest.raises(ModelError, match=r"talker\.bin: contents changed"):
        manifest.verify(converted)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tables.safetensors", r"tables\.safetensors: header .*; convert the checkpoint again"),
        ("talker.param", r"talker\.param: ncnn cannot read this graph; convert the checkpoint again"),
        ("tokenizer/vocab.json", r"vocab\.json: .*; convert the checkpoint again"),
    ],
)
def test_damage_in_a_file_too_large_for_hashing_is_one_clear_error(
    converted: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtts_engine.model.LOAD_CHECK_BYTES", 0)
    (converted / name).write_bytes(b"\xff" * (converted / name).stat().st_size)
    with pytest.raises(ModelError, match=message):
        Model.load(converted)


def test_threads_out_of_range() -> None:
    for threads in ({"ar": 0}, {"codec": 257}):
        with pytest.raises(RequestError, match="threads, expected 1 to 256"):
            Threads(**threads)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged"),
        ("[]", "damaged"),
        ('{"format": 0}', "format 0, this version reads 3"),
        ('{"format": 3}', "precision is missing"),
        ('{"format": 3, "precision": "int3"}', "precision 'int3'"),
        ('{"format": 3, "precision": []}', "precision"),
        ('{"format": 3, "precision": 5}', "precision is 5, expected a string"),
        ('{"format": 1e999}', "format inf"),
    ],
)
def test_damaged_manifests(converted: Path, content: str, message: str) -> None:
    (converted / MANIFEST_FILE).write_text(content)
    with pytest.raises(ModelError, match=message):
        Model.load(converted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_sha256": None}, "source_sha256 is None, expected a string"),
        ({"name": 7}, "name is 7, expected a string"),
        ({"ncnn": []}, "ncnn is [], expected a string"),
        ({"config": None}, "config is None, expected an object"),
        ({"config": {"main": 1}}, "config.main is 1, expected an object"),
        ({"files": {}}, "files.talker.param is missing"),
        ({"files": []}, "files is [], expected an object"),
        ({"files": {"talker.param": None}}, "files.talker.param is None, expected an object"),
        ({"codec_ranges": None}, "codec_ranges is None, expected an object"),
        ({"codec_ranges": {"conv_in": "5"}}, "codec_ranges.conv_in is '5', expected a number"),
    ],
)
def test_fields_of_the_manifest(converted: Path, change: dict[str, object], message: str) -> None:
    path = converted / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=re.escape(message)) as raised:
        Manifest.load(converted)
    assert str(raised.value).startswith(f"{path}: ")
    assert str(raised.value).endswith("convert the checkpoint again")


@pytest.mark.parametrize("record", [{"bytes": "5", "sha256": "x"}, {"bytes": 5, "sha256": None}, {}, 5])
def test_records_of_the_manifest(converted: Path, record: object) -> None:
    path = converted / MANIFEST_FILE
    data = json.loads(path.read_text())
    data["files"]["talker.bin"] = record
    path.write_text(json.dumps(data))
    with pytest.raises(ModelError, match=r"files\.talker\.bin"):
        Manifest.load(converted)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
@pytest.mark.parametrize("place", ["folder", "pipe"])
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
        "model.safetensors",
        "model.safetensors.index.json",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    ],
)
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, name: str, place: str) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", preset="tiny", kind="voice_design")
    path = checkpoint / name
    if name == "model.safetensors.index.json":
        (checkpoint / "model.safetensors").unlink()
    path.unlink(missing_ok=True)
    path.mkdir() if place == "folder" else os.mkfifo(path)
    source = "import sys; from rtts_engine.convert import convert; convert(sys.argv[1], sys.argv[2])"
    ended = subprocess.run(
        [sys.executable, "-c", source, checkpoint, tmp_path / "model"], capture_output=True, timeout=120
    )
    assert ended.returncode == 1
    *_, line = ended.stderr.decode().splitlines()
    assert line.startswith(f"rtts_engine.errors.CheckpointError: {path}: ")
    assert re.search("Not a regular file|damaged shard index|0 bytes|Is a directory", line)
    assert not (tmp_path / "model").exists()


def test_a_manifest_that_is_no_file(converted: Path) -> None:
    (converted / MANIFEST_FILE).unlink()
    (converted / MANIFEST_FILE).mkdir()
    with pytest.raises(ModelError, match="Not a regular file"):
        Model.load(converted)


def test_a_checkpoint_is_not_a_model(models: Models) -> None:
    with pytest.raises(ModelError, match="not a converted model"):
        Model.load(models.checkpoint())


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a converted model"):
        Model.load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="not a directory"):
        convert(tmp_path / "nowhere", tmp_path / "model")
