"""Every fault of a checkpoint is one clear error that names the file and the field."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.config import MODEL_KINDS
from rtts_engine.convert import convert
from rtts_engine.errors import CheckpointError, ConfigError, RttsError
from tests.checkpoints import Dtype, Kind, damage, write_checkpoint


def edit_json(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    edit(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def set_field(data: dict[str, Any], dotted: str, value: object) -> None:
    *parents, last = dotted.split(".")
    for key in parents:
        data = data[key]
    if value is ...:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize("kind", MODEL_KINDS)
@pytest.mark.parametrize("preset", ["tiny", "tiny17"])
def test_reads_every_kind_and_topology(tmp_path: Path, preset: str, kind: Kind) -> None:
    path = write_checkpoint(tmp_path / "c", preset=preset, kind=kind)
    config = Checkpoint.open(path).config
    raw = json.loads((path / "config.json").read_text())
    talker = raw["talker_config"]
    assert config.kind == kind
    assert config.size == raw["tts_model_size"]
    assert config.talker.stack.hidden_size == talker["hidden_size"]
    assert config.talker.stack.head_dim == talker["head_dim"]
    assert config.talker.ids.eos == talker["codec_eos_token_id"]
    assert config.talker.speakers == talker["spk_id"]
    assert set(config.talker.dialects) == {n for n, d in talker["spk_is_dialect"].items() if d}
    assert config.talker.predictor.stack.hidden_size == talker["code_predictor_config"]["hidden_size"]
    assert (config.speaker_encoder is not None) == (kind == "base")
    assert config.instructable == (kind == "voice_design" or (kind == "custom_voice" and preset == "tiny17"))


def test_a_checkpoint_says_that_it_reads_words_only(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "c")
    assert Checkpoint.open(path).config.text_normalization is None
    edit_json(path / "config.json", lambda data: set_field(data, "text_normalization", "english"))
    assert Checkpoint.open(path).config.text_normalization == "english"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_widens_every_dtype_exactly(tmp_path: Path, dtype: Dtype) -> None:
    exact = Checkpoint.open(write_checkpoint(tmp_path / "f32", dtype="float32"))
    stored = Checkpoint.open(write_checkpoint(tmp_path / dtype, dtype=dtype))
    name, width = "talker.model.codec_embedding.weight", exact.config.talker.stack.hidden_size
    shape = (exact.config.talker.vocab_size, width)
    want, got = exact.main.float32(name, shape), stored.main.float32(name, shape)
    precision = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(got, want, rtol=precision, atol=1e-6 if precision else 0)
    np.testing.assert_array_equal(stored.main.get(name, shape).rows([3, 1]), got[[3, 1]])


def test_shards_are_the_same_tensors(tmp_path: Path) -> None:
    whole = Checkpoint.open(write_checkpoint(tmp_path / "whole"))
    shards = Checkpoint.open(write_checkpoint(tmp_path / "shards", shards=3))
    assert shards.main.path.name == "model.safetensors.index.json"
    assert set(shards.main) == set(whole.main)
    for name in whole.main:
        shape = whole.main.extent(name)[0]
        np.testing.assert_array_equal(shards.main.get(name, shape).raw, whole.main.get(name, shape).raw)


CONFIG_FAULTS = [
    ("config.json", "model_type", "llama", "model_type is 'llama'"),
    ("config.json", "tokenizer_type", "qwen3_tts_tokenizer_25hz", "only the 12 Hz codec"),
    ("config.json", "tts_model_type", "singing", "tts_model_type is 'singing'"),
    ("config.json", "tts_pad_token_id", 10**7, "tts_pad_token_id is 10000000"),
    ("config.json", "talker_config", ..., "talker_config is missing"),
    ("config.json", "talker_config.hidden_size", "64", "talker_config.hidden_size is '64'"),
    ("config.json", "talker_config.num_hidden_layers", ..., "talker_config.num_hidden_layers is missing"),
    ("config.json", "talker_config.head_dim", 15, "talker_config.head_dim is 15"),
    ("config.json", "talker_config.num_key_value_heads", 3, "talker_config.num_key_value_heads is 3"),
    ("config.json", "talker_config.hidden_act", "gelu", "talker_config.hidden_act is 'gelu'"),
    ("config.json", "talker_config.rope_theta", float("nan"), "talker_config.rope_theta is nan"),
    ("config.json", "talker_config.codec_eos_token_id", -1, "talker_config.codec_eos_token_id is -1"),
    ("config.json", "talker_config.codec_language_id", [], "talker_config.codec_language_id is []"),
    ("config.json", "talker_config.code_predictor_config.vocab_size", True, "vocab_size is True"),
    ("config.json", "talker_config.num_code_groups", 8, "num_code_groups is 16, expected 8"),
    ("config.json", "talker_config.spk_is_dialect", {"ryan": "klingon"}, "spk_is_dialect is {'ryan'"),
    ("config.json", "talker_config.spk_id", {"ryan": 10**6}, "names with ids below talker_config.vocab_size"),
    ("config.json", "talker_config.attention_bias", True, "expected False (nothing else is supported)"),
    ("config.json", "tts_model_size", 6, "tts_model_size is 6, expected a string"),
    (
        "config.json",
        "speaker_encoder_config.enc_channels",
        [64, 64],
        "enc_channels is [64, 64], expected as many",
    ),
    ("config.json", "speaker_encoder_config.enc_kernel_sizes", [5, 2, 3, 3, 1], "expected odd numbers"),
    ("config.json", "speaker_encoder_config.enc_res2net_scale", 7, "expected a divisor of every inner"),
    ("config.json", "speaker_encoder_config.enc_dilations", [1, 0, 1, 1, 1], "expected a list of positive"),
    ("speech_tokenizer/config.json", "decoder_config.num_key_value_heads", 1, "num_key_value_heads is 1"),
    (
        "speech_tokenizer/config.json",
        "decoder_config.decoder_dim",
        100,
        "decoder_dim is 100, expected a multiple",
    ),
    ("speech_tokenizer/config.json", "decoder_config.codebook_dim", 7, "codebook_dim is 7, expected an even"),
    ("speech_tokenizer/config.json", "encoder_config.head_dim", 7, "encoder_config.head_dim is 7"),
    ("speech_tokenizer/config.json", "encode_downsample_rate", 960, "encode_downsample_rate is 960"),
    ("speech_tokenizer/config.json", "encoder_valid_num_quantizers", 8, "encoder_valid_num_quantizers is 8"),
    ("generation_config.json", "do_sample", 1, "do_sample is 1, expected true or false"),
    ("generation_config.json", "repetition_penalty", 1e39, "repetition_penalty is 1e+39"),
    (
        "config.json",
        "talker_config.vocab_size",
        1200,
        "talker_config.vocab_size is 1200, expected at most 64",
    ),
    ("config.json", "speaker_encoder_config.enc_dim", 7, "speaker_encoder_config.enc_dim is 7"),
    ("generation_config.json", "temperature", "hot", "temperature is 'hot'"),
    ("config.json", "talker_config.rope_theta", 10**400, "talker_config.rope_theta is 1000"),
    ("config.json", "talker_config.rms_norm_eps", 10**400, "expected a number from 0 to 1"),
    ("generation_config.json", "top_p", 3, "top_p is 3"),
    ("config.json", "text_normalization", "german", "text_normalization is 'german', expected 'english'"),
    ("config.json", "text_normalization", 1, "text_normalization is 1, expected 'english'"),
    ("generation_config.json", "temperature", 1e39, "expected a number from 1e-05 to 1e+30"),
    ("speech_tokenizer/config.json", "decoder_config.sliding_window", 10**7, "an integer from 2 to 4096"),
    ("speech_tokenizer/config.json", "decoder_config.upsample_rates", [1] * 20_000, "a list of 1 to 64"),
    ("speech_tokenizer/config.json", "model_type", "qwen3_tts_tokenizer_25hz", "only the 12 Hz codec"),
    ("speech_tokenizer/config.json", "output_sample_rate", 16000, "output_sample_rate is 16000"),
    (
        "speech_tokenizer/config.json",
        "decoder_config.upsample_rates",
        [8, 5, 4],
        "decode_upsample_rate is 1920",
    ),
    ("speech_tokenizer/config.json", "decoder_config.sliding_window", None, "sliding_window is None"),
    ("speech_tokenizer/config.json", "encoder_config.use_causal_conv", False, "use_causal_conv is False"),
]


@pytest.mark.parametrize(("file", "field", "value", "message"), CONFIG_FAULTS)
def test_config_faults_name_file_field_and_value(
    checkpoint: Path, file: str, field: str, value: object, message: str
) -> None:
    edit_json(checkpoint / file, lambda data: set_field(data, field, value))
    with pytest.raises(ConfigError) as caught:
        Checkpoint.open(checkpoint)
    assert message in str(caught.value)
    assert str(checkpoint / file) in str(caught.value)
    assert "\n" not in str(caught.value)


FILE_FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (damage.truncate, "truncated"),
    (lambda c: damage.truncate(c, "speech_tokenizer/model.safetensors", 0.0), "not a safetensors file"),
    (lambda c: damage.remove(c, "model.safetensors"), "no such file"),
    (lambda c: damage.remove(c, "config.json"), "no such file"),
    (lambda c: damage.remove(c, "speech_tokenizer/config.json"), "no such file"),
    (damage.remove_tokenizer, "no text tokenizer"),
    (lambda c: damage.overwrite(c, "config.json", b"<html>"), "not valid JSON"),
    (lambda c: damage.overwrite(c, "config.json", b'{"a": ' + b"9" * 5000 + b"}"), "not valid JSON"),
    (lambda c: damage.overwrite(c, "config.json", b"[" * 100_000), "not valid JSON"),
    (lambda c: damage.overwrite(c, "config.json", b"[1]"), "expected a JSON object"),
    (lambda c: damage.overwrite(c, "config.json", b"\xff\xfe\x00"), "cannot be read"),
    (lambda c: damage.overwrite(c, "model.safetensors", b"\0" * 100), "damaged safetensors header"),
    (lambda c: damage.overwrite(c, "model.safetensors", b"\xff" * 100), "truncated or not safetensors"),
]


@pytest.mark.parametrize(("fault", "message"), FILE_FAULTS)
def test_file_faults_name_the_file(checkpoint: Path, fault: Callable[[Path], None], message: str) -> None:
    fault(checkpoint)
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.open(checkpoint)
    assert str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


TENSOR_FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (lambda c: damage.drop_tensor(c, "talker.codec_head.weight"), "'talker.codec_head.weight' is missing"),
    (
        lambda c: damage.drop_tensor(c, "talker.code_predictor.lm_head.14.weight"),
        "'talker.code_predictor.lm_head.14.weight' is missing",
    ),
    (
        lambda c: damage.drop_tensor(c, "decoder.pre_conv.conv.bias", damage.CODEC),
        "'decoder.pre_conv.conv.bias' is missing",
    ),
    (
        lambda c: damage.reshape_tensor(c, "talker.model.norm.weight", (8, 8)),
        r"has shape \[8, 8\], expected \[64\]",
    ),
    (lambda c: damage.retype_tensor(c, "talker.model.norm.weight", "I16"), "has dtype 'I16'"),
]


@pytest.mark.parametrize(("fault", "message"), TENSOR_FAULTS)
def test_tensor_faults_are_found_before_anything_is_kept(
    checkpoint: Path, tmp_path: Path, fault: Callable[[Path], None], message: str
) -> None:
    fault(checkpoint)
    with pytest.raises(CheckpointError, match=message):
        convert(checkpoint, tmp_path / "out" / "model")
    assert list((tmp_path / "out").iterdir() if (tmp_path / "out").exists() else []) == []


HEADER_FAULTS: list[dict[str, Any]] = [
    {"shape": [float("inf")]},
    {"shape": [64.0]},
    {"shape": "64"},
    {"shape": [True]},
    {"shape": [0, 10**30], "data_offsets": [0, 0]},
    {"shape": [1] * 100 + [64]},
    {"shape": [-1]},
    {"data_offsets": [float("nan"), 1]},
    {"data_offsets": [0, 10**300]},
    {"data_offsets": [0]},
    {"dtype": ["BF16"]},
    {"dtype": "I64"},
]


@pytest.mark.parametrize("change", HEADER_FAULTS, ids=str)
def test_damaged_header_entries_are_one_error(checkpoint: Path, change: dict[str, Any]) -> None:
    damage.edit_header(checkpoint, "talker.model.norm.weight", change)
    with pytest.raises(CheckpointError, match=r"talker\.model\.norm\.weight") as caught:
        Checkpoint.open(checkpoint)
    assert "\n" not in str(caught.value)


def test_tensors_may_not_overlap(checkpoint: Path) -> None:
    damage.edit_header(checkpoint, "talker.model.norm.weight", {"data_offsets": [0, 128]})
    with pytest.raises(CheckpointError, match="begins at byte 0, expected 128: damaged safetensors header"):
        Checkpoint.open(checkpoint)


@pytest.mark.parametrize(
    "name",
    [
        "talker.model.norm.weight",
        "talker.model.text_embedding.weight",
        "talker.code_predictor.model.codec_embedding.3.weight",
    ],
)
@pytest.mark.parametrize("bits", [b"\xc0\x7f", b"\x80\xff"], ids=["nan", "-inf"])
def test_weights_that_are_no_numbers_are_refused(
    checkpoint: Path, tmp_path: Path, name: str, bits: bytes
) -> None:
    """In a graph as in a table: a table is copied as it is stored, without being widened."""
    source = Checkpoint.open(checkpoint).main
    tensor = source.get(name, source.extent(name)[0])
    end = tensor.start + tensor.raw.nbytes
    data = bytearray((checkpoint / "model.safetensors").read_bytes())
    data[end - 2 : end] = bits  # bfloat16
    (checkpoint / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name}' holds NaN"):
        convert(checkpoint, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_tokenizer_with_more_ids_than_the_text_embedding_is_refused(
    checkpoint: Path, tmp_path: Path
) -> None:
    edit_json(checkpoint / "vocab.json", lambda vocab: vocab.update({max(vocab, key=len): 10**6}))
    with pytest.raises(CheckpointError, match=r"ids up to 1000000, but talker_config\.text_vocab_size is"):
        convert(checkpoint, tmp_path / "model")


def test_shard_index_cannot_point_outside_the_folder(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "c", shards=2)
    edit_json(
        path / "model.safetensors.index.json",
        lambda data: data["weight_map"].update(dict.fromkeys(data["weight_map"], "../../etc/passwd")),
    )
    with pytest.raises(CheckpointError, match="expected a file in the same folder"):
        Checkpoint.open(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_never_escape_the_error_tree(models: Any, tmp_path: Path, data: st.DataObject) -> None:
    """A damaged header or config opens or raises an RttsError: nothing else, and no crash."""
    target = tmp_path / "fuzz"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(models.checkpoint(), target)
    file = data.draw(st.sampled_from(["config.json", "speech_tokenizer/config.json", "model.safetensors"]))
    content = bytearray((target / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, min(len(content), 4000) - 1))] = data.draw(st.integers(0, 255))
    (target / file).write_bytes(content)
    try:
        Checkpoint.open(target)
    except RttsError as error:
        assert "\n" not in str(error)
