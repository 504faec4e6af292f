"""One run at the released 0.6B dimensions (random weights): ``pytest -m oracle_real``.

The two sides are loaded one after the other: 6 GB of memory at most, 7 GB of disk, some minutes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtts_engine.convert import convert
from rtts_engine.model import Model
from tests.checkpoints import write_checkpoint

from .audio import as_pcm16, from_pcm16, speech_like
from .cases import REF_TEXT, Case, cases_of
from .parity import (
    FloatArray,
    Report,
    clone_voice,
    cosine_similarity,
    decode_after_reference,
    first_divergence,
    greedy_codes,
    prompt_rows,
    relative_error,
    snr_db,
)
from .voices import codec_encoder, speaker_encoder

pytestmark = pytest.mark.oracle_real

FRAMES = 8
NAMES = ("xvector_english_streaming", "icl_short_streaming")
CASES = [case for case in cases_of("base", FRAMES) if case.name in NAMES]


@dataclass
class OfficialResults:
    """All that is kept of the official model."""

    clip: FloatArray
    xvector: FloatArray
    ref_codes: NDArray[np.int64]
    runs: dict[str, Any]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("real") / "checkpoint", preset="0.6b")


@pytest.fixture(scope="module")
def results(official_module: Any, checkpoint: Path) -> OfficialResults:
    clip = from_pcm16(as_pcm16(speech_like(24_000, seed=3)))
    official = official_module.Official(checkpoint)
    voice = official.voice(clip, REF_TEXT)
    runs = {case.name: official.generate(case, voice=voice) for case in CASES}
    found = OfficialResults(clip, voice.ref_spk_embedding.numpy(), voice.ref_code.numpy(), runs)
    del official, voice
    gc.collect()
    return found


@pytest.fixture(scope="module")
def model(results: OfficialResults, checkpoint: Path) -> Iterator[Model]:
    """Ours, loaded after the official model was released (``results`` comes first for that reason)."""
    assert results.runs
    yield Model.load(convert(checkpoint, checkpoint.parent / "model"))
    gc.collect()


def test_xvector_and_reference_codes(
    results: OfficialResults, checkpoint: Path, tmp_path: Path, report: Report
) -> None:
    assert np.array_equal(codec_encoder(checkpoint, tmp_path).encode(results.clip), results.ref_codes)
    xvector = speaker_encoder(checkpoint, tmp_path).embed(results.clip)
    assert cosine_similarity(results.xvector, xvector) >= 0.999999
    seconds = f"{len(results.clip) / 24000:.2f} s"
    report.modules[("0.6b", "speaker encoder", seconds)] = relative_error(results.xvector, xvector)
    report.facts["reference codes, 0.6b"] = f"equal for a clip of {seconds}"


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_greedy_codes_and_waveform(
    model: Model, results: OfficialResults, report: Report, case: Case
) -> None:
    run = results.runs[case.name]
    voice = clone_voice(case, results.xvector, results.ref_codes)
    rows, _ = prompt_rows(model, case, voice)
    state, first = model.talker.prefill(rows)
    del state
    report.modules[("0.6b", "prompt", case.name)] = relative_error(run.prompt, rows)
    report.modules[("0.6b", "talker prefill, state", case.name)] = relative_error(run.hidden[0], first.hidden)
    codes, _ = greedy_codes(model, case, voice)
    equal = np.array_equal(codes, run.codes)
    samples = decode_after_reference(model, case, voice, run.codes)
    snr = snr_db(run.waveform, samples)
    length = min(len(samples), len(run.waveform))
    report.modules[("0.6b", "codec decoder", case.name)] = relative_error(
        run.waveform[-length:], samples[-length:]
    )
    report.runs.append(
        {
            "preset": "0.6b",
            "kind": case.kind,
            "case": case.name,
            "frames": len(run.codes),
            "ended": run.ended,
            "equal": equal,
            "snr_db": round(snr, 1),
        }
    )
    assert equal, first_divergence(run.codes, codes, run.logits, run.predictor_logits)
    assert snr >= 70
    assert len(set(run.codes[:, 0].tolist())) > 1
