"""Our engine against stored results of the official package: the parity that needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rtts_engine.convert import convert
from rtts_engine.model import Model
from rtts_engine.prompt import CloneVoice
from tests.oracle.parity import (
    clone_voice,
    decode_after_reference,
    greedy_codes,
    greedy_stream,
    prompt_rows,
    relative_error,
    snr_db,
)

from . import NAMES, GoldenCase, GoldenSet, StaleGoldenError, load

SETS = {name: load(name) for name in NAMES}
CASES = [(name, golden) for name, found in SETS.items() for golden in found.cases]
IDS = [f"{name}-{golden.case.name}" for name, golden in CASES]

Loader = Callable[[str], Model]


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Loader:
    """Generates, converts and loads the model of a golden set, once."""
    loaded: dict[str, Model] = {}

    def get(name: str) -> Model:
        if name not in loaded:
            folder = tmp_path_factory.mktemp(name)
            checkpoint = SETS[name].write_checkpoint(folder / "checkpoint")
            loaded[name] = Model.load(convert(checkpoint, folder / "model"))
        return loaded[name]

    return get


def _voice(found: GoldenSet, golden: GoldenCase) -> CloneVoice | None:
    if found.xvector is None or found.ref_codes is None:
        return None
    return clone_voice(golden.case, found.xvector, found.ref_codes)


@pytest.mark.parametrize(("name", "golden"), CASES, ids=IDS)
def test_greedy_codes(loader: Loader, name: str, golden: GoldenCase) -> None:
    codes, ended = greedy_codes(loader(name), golden.case, _voice(SETS[name], golden))
    length = min(len(codes), len(golden.codes))
    different = np.argwhere(codes[:length] != golden.codes[:length])
    assert not len(different), f"first difference at frame {different[0][0]}, code {different[0][1]}"
    assert (len(codes), ended) == (len(golden.codes), golden.ended)


@pytest.mark.parametrize(
    ("name", "golden"),
    [pair for pair in CASES if pair[1].prompt is not None],
    ids=[i for i, pair in zip(IDS, CASES, strict=True) if pair[1].prompt is not None],
)
def test_rows_and_states(loader: Loader, name: str, golden: GoldenCase) -> None:
    assert golden.prompt is not None
    assert golden.trailing is not None
    assert golden.hidden is not None
    model, voice = loader(name), _voice(SETS[name], golden)
    rows, trailing = prompt_rows(model, golden.case, voice)
    assert rows.shape == golden.prompt.shape
    assert trailing.shape == golden.trailing.shape
    assert relative_error(golden.prompt, rows) < 1e-5
    assert relative_error(golden.trailing, trailing) < 1e-5
    _, output = model.talker.prefill(rows)
    assert relative_error(golden.hidden[0], output.hidden) < 1e-4


@pytest.mark.parametrize(
    ("name", "golden"),
    [pair for pair in CASES if pair[1].waveform is not None],
    ids=[i for i, pair in zip(IDS, CASES, strict=True) if pair[1].waveform is not None],
)
def test_waveform(loader: Loader, name: str, golden: GoldenCase) -> None:
    assert golden.waveform is not None
    model, frames = loader(name), len(golden.waveform) // 1920
    voice = _voice(SETS[name], golden)
    samples = decode_after_reference(model, golden.case, voice, golden.codes[:frames])
    assert len(samples) == len(golden.waveform)
    assert snr_db(golden.waveform, samples) >= 70


def test_every_kind_topology_and_layout_is_covered() -> None:
    assert {(s.checkpoint["preset"], s.checkpoint["kind"]) for s in SETS.values()} >= {
        (preset, kind)
        for preset in ("tiny", "tiny17", "small")
        for kind in ("base", "custom_voice", "voice_design")
    }
    assert {golden.case.layout for _, golden in CASES} == {"streaming", "full"}
    assert {golden.ended for _, golden in CASES} == {True, False}


def test_a_cap_one_frame_below_the_end_cuts_there(loader: Loader) -> None:
    """The official limit of N + 1 new tokens yields N frames; the end of speech decided after them still counts."""
    name, golden = next((n, g) for n, g in CASES if g.ended and len(g.codes) > 3)
    model, voice = loader(name), _voice(SETS[name], golden)
    for cap, reason in ((len(golden.codes), "eos"), (len(golden.codes) - 1, "length_cap")):
        case = type(golden.case)(**(golden.case.to_json() | {"frames": cap}))
        stream = greedy_stream(model, case, voice)
        assert np.array_equal(np.stack(list(stream)), golden.codes[:cap])
        assert stream.stop_reason == reason


def test_stale_goldens_are_named_as_such(tmp_path: Path) -> None:
    found = SETS["tiny-voice_design"]
    for change, message in (
        ({"generator_version": found.generator_version - 1}, "generator version"),
        ({"checkpoint_sha256": "0" * 64}, "other weights"),
        ({"checkpoint": found.checkpoint | {"seed": 99}}, "other weights"),
    ):
        stale = GoldenSet(**(found.__dict__ | change))
        with pytest.raises(StaleGoldenError, match=message):
            stale.write_checkpoint(tmp_path)
