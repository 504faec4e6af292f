"""The generator itself: released shapes to the byte, the same bytes everywhere, faults that are what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError, safe_open

from . import KINDS, PRESETS, Dtype, Kind, checkpoint_digest, damage, write_checkpoint
from .randomness import normal, uniform
from .storage import to_bfloat16
from .tensors import codec_tensors, main_tensors

TINY_DIGEST = "0ada2e4fd9fee425cf917692164d91616abbf0c4d9366b692a3ac28ab7225835"


@pytest.mark.parametrize(
    ("preset", "kind", "tensors", "tensor_bytes"),
    [
        ("0.6b", "base", 478, 1_829_286_016),
        ("1.7b", "base", 480, 3_857_354_880),
    ],
)
def test_real_presets_have_the_released_tensors(
    preset: str, kind: Kind, tensors: int, tensor_bytes: int
) -> None:
    """Numbers of the released files (semantics 1.1, 1.5)."""
    specs = main_tensors(PRESETS[preset], kind)
    assert (len(specs), sum(2 * spec.size for spec in specs)) == (tensors, tensor_bytes)
    codec = codec_tensors(PRESETS[preset], 0)
    assert (len(codec), sum(4 * spec.size for spec in codec)) == (496, 682_229_764)


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_unique_and_only_base_has_a_speaker_encoder(kind: Kind) -> None:
    names = [spec.name for spec in main_tensors(PRESETS["tiny17"], kind)]
    assert len(set(names)) == len(names)
    assert any(name.startswith("speaker_encoder.") for name in names) == (kind == "base")
    assert any("small_to_mtp_projection" in name for name in names)


def test_the_bytes_are_the_same_on_every_platform(tmp_path: Path) -> None:
    """Committed goldens rest on this; a wanted change raises GENERATOR_VERSION and renews the goldens."""
    assert checkpoint_digest(write_checkpoint(tmp_path / "ckpt")) == TINY_DIGEST


def test_numbers_depend_on_seed_and_name_and_have_the_asked_moments() -> None:
    values = normal(3, "a", (1 << 21,), std=2.0, mean=1.0)
    assert values.mean() == pytest.approx(1.0, abs=0.01)
    assert values.std() == pytest.approx(2.0, rel=0.01)
    assert np.array_equal(values[:1000], normal(3, "a", (1 << 21,), std=2.0, mean=1.0)[:1000])
    assert not np.array_equal(values[:1000], normal(3, "b", (1000,), std=2.0, mean=1.0))
    assert not np.array_equal(values[:1000], normal(4, "a", (1000,), std=2.0, mean=1.0))
    spread = uniform(0, "u", 100_000, 0.4, 3.0)
    assert spread.min() >= 0.4
    assert spread.max() < 3.0
    assert spread.mean() == pytest.approx(1.7, abs=0.01)


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, -1.00390625, 3.0e38, 1e-30, 0.1], np.float32)
    back = (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    assert back[:4].tolist() == [1.0, 1.0, 1.015625, -1.0]
    assert np.abs(back / values - 1).max() <= 2**-8


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_files_open_with_the_tables_names_shapes_and_types(tmp_path: Path, dtype: Dtype) -> None:
    path = write_checkpoint(tmp_path, preset="tiny17", dtype=dtype, codec_dtype=dtype)
    tables = {
        "model.safetensors": main_tensors(PRESETS["tiny17"], "base"),
        "speech_tokenizer/model.safetensors": codec_tensors(PRESETS["tiny17"], 0),
    }
    stored = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}[dtype]
    for file, specs in tables.items():
        with safe_open(str(path / file), "numpy") as reader:
            found = {name: reader.get_slice(name) for name in reader.keys()}  # noqa: SIM118 - no mapping
            assert {name: tuple(part.get_shape()) for name, part in found.items()} == {
                spec.name: spec.shape for spec in specs
            }
            assert {part.get_dtype() for part in found.values()} == {stored}


def test_shards_hold_the_same_tensors(tmp_path: Path) -> None:
    whole = write_checkpoint(tmp_path / "whole", kind="custom_voice", dtype="float32")
    split = write_checkpoint(tmp_path / "split", kind="custom_voice", dtype="float32", shards=4)
    weight_map = json.loads((split / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(weight_map.values())) == 4
    assert not (split / "model.safetensors").exists()
    with safe_open(str(whole / "model.safetensors"), "numpy") as reader:
        for name, file in weight_map.items():
            with safe_open(str(split / file), "numpy") as shard:
                assert np.array_equal(shard.get_tensor(name), reader.get_tensor(name)), name


def test_one_entry_of_every_codebook_is_unused_and_eos_gain_scales_one_row(tmp_path: Path) -> None:
    plain = write_checkpoint(tmp_path / "plain", dtype="float32")
    loud = write_checkpoint(tmp_path / "loud", dtype="float32", eos_gain=2.0)
    with safe_open(str(plain / "speech_tokenizer/model.safetensors"), "numpy") as reader:
        usages = [reader.get_tensor(name) for name in reader.keys() if "cluster_usage" in name]  # noqa: SIM118
    assert len(usages) == 16 + 32
    assert all(usage[1] == 0 and np.delete(usage, 1).min() > 0.3 for usage in usages)
    heads = []
    for path in (plain, loud):
        with safe_open(str(path / "model.safetensors"), "numpy") as reader:
            heads.append(reader.get_tensor("talker.codec_head.weight"))
    eos = json.loads((plain / "config.json").read_text())["talker_config"]["codec_eos_token_id"]
    changed = np.flatnonzero((heads[0] != heads[1]).any(axis=1))
    assert changed.tolist() == [eos]
    assert np.array_equal(heads[1][eos], 2 * heads[0][eos])


def test_small_has_the_released_text_ids(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, preset="small", kind="voice_design")
    config = json.loads((path / "config.json").read_text())
    assert (config["im_start_token_id"], config["im_end_token_id"]) == (151644, 151645)
    assert [config[f"tts_{name}_token_id"] for name in ("pad", "bos", "eos")] == [151671, 151672, 151673]
    assert config["talker_config"]["codec_eos_token_id"] == 2150


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown preset 'huge'"):
        write_checkpoint(tmp_path, preset="huge")
    with pytest.raises(ValueError, match="shards"):
        write_checkpoint(tmp_path, shards=0)


def test_damage_is_what_it_says(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path)
    name = "talker.text_projection.linear_fc1.weight"
    with safe_open(str(path / damage.MAIN), "numpy") as reader:
        before = set(reader.keys())
    damage.drop_tensor(path, name)
    damage.retype_tensor(path, "talker.model.norm.weight", "F16")
    norm_width = PRESETS["tiny"].talker.hidden
    damage.reshape_tensor(path, "talker.model.norm.weight", (1, norm_width))
    with safe_open(str(path / damage.MAIN), "numpy") as reader:
        assert set(reader.keys()) == before - {name}
        part = reader.get_slice("talker.model.norm.weight")
        assert (part.get_shape(), part.get_dtype()) == ([1, norm_width], "F16")
    damage.edit_config(path, {"talker_config.code_predictor_config.vocab_size": math.pi, "model_type": ...})
    config = json.loads((path / "config.json").read_text())
    assert config["talker_config"]["code_predictor_config"]["vocab_size"] == math.pi
    assert "model_type" not in config
    damage.truncate(path, damage.CODEC, 0.5)
    with pytest.raises(SafetensorError):
        safe_open(str(path / damage.CODEC), "numpy")
    damage.remove_tokenizer(path)
    assert not (path / "vocab.json").exists()
