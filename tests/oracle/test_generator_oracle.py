"""Generated checkpoints are what the official classes expect: every name, every shape, every value."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import KINDS, PRESETS, Kind, write_checkpoint
from tests.checkpoints.configs import codec_config, main_config
from tests.checkpoints.tensors import codec_tensors, main_tensors
from tests.checkpoints.tokenizer import ADDED_TOKENS

from .cases import cases_of
from .conftest import Pairs

pytestmark = pytest.mark.oracle


def _shapes(module: Any, build: Any) -> dict[str, tuple[int, ...]]:
    with module.torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in build().state_dict().items()}


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_names_and_shapes(official_module: Any, preset: str) -> None:
    core, models = importlib.import_module("qwen_tts.core"), importlib.import_module("qwen_tts.core.models")
    dims = PRESETS[preset]
    config = core.Qwen3TTSTokenizerV2Config(**codec_config(dims))
    expected = _shapes(official_module, lambda: core.Qwen3TTSTokenizerV2Model(config))
    assert {spec.name: spec.shape for spec in codec_tensors(dims, 0)} == expected
    for kind in KINDS:
        ids = {token: i for i, token in enumerate(ADDED_TOKENS)}
        main = models.Qwen3TTSConfig(**main_config(dims, kind, ids, 0))
        expected = _shapes(official_module, lambda main=main: models.Qwen3TTSForConditionalGeneration(main))
        assert {spec.name: spec.shape for spec in main_tensors(dims, kind)} == expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_stored_value_reaches_the_official_model(
    official_module: Any, tmp_path: Path, kind: Kind
) -> None:
    """Nothing missing, unexpected or newly initialised, from a single file and from shards."""
    torch = official_module.torch
    for shards in (1, 3):
        path = write_checkpoint(
            tmp_path / f"{kind}-{shards}", preset="tiny17", kind=kind, seed=4, shards=shards
        )
        official = official_module.Official(path)
        state = official.model.state_dict()
        for spec in main_tensors(PRESETS["tiny17"], kind):
            wanted = torch.from_numpy(spec.values(4)).to(torch.bfloat16).float()
            assert torch.equal(state[spec.name], wanted), spec.name
        state = official.codec.state_dict()
        for spec in codec_tensors(PRESETS["tiny17"], 4):
            assert np.array_equal(state[spec.name].numpy(), spec.values(4)), spec.name


@pytest.mark.parametrize("preset", ["tiny", "tiny17", "small"])
def test_output_is_varied_and_not_clipped(pairs: Pairs, preset: str) -> None:
    """A checkpoint whose output froze would compare nothing."""
    pair = pairs.get(preset, "base")
    run = pair.official.generate(cases_of("base", 24)[0], voice=pair.voice)
    assert len(set(run.codes[:, 0].tolist())) >= min(8, len(run.codes) // 2)
    assert all(len(set(column.tolist())) >= min(8, len(run.codes) // 2) for column in run.codes.T)
    assert 0.05 < run.waveform.std() < 0.5
    assert np.mean(np.abs(run.waveform) >= 1) < 0.01
    codes = pair.voice.ref_code.numpy()
    assert all(len(set(column.tolist())) >= len(codes) // 3 for column in codes.T)
    assert 0.2 < pair.voice.ref_spk_embedding.std() < 2


def test_some_runs_end_by_themselves(pairs: Pairs) -> None:
    case = cases_of("voice_design", 40)[0]
    assert pairs.get("tiny17", "voice_design").official.generate(case).ended
    assert not pairs.get("tiny", "voice_design").official.generate(case).ended


def test_special_ids_differ_from_the_released_ones(tmp_path: Path) -> None:
    config = json.loads((write_checkpoint(tmp_path) / "config.json").read_text())
    talker = config["talker_config"]
    assert talker["codec_eos_token_id"] != 2150
    assert talker["vocab_size"] != 3072
    assert config["im_start_token_id"] != 151644
