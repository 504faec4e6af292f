"""docs/sinks.md and the examples that end at a sink run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.rtts.sinks.conftest import Pulse

ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(
    r"^```python( no-device)?\n(.*?)^```$",
    (ROOT / "docs/sinks.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("block", [block for flag, block in BLOCKS if not flag])
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/sinks.md", "exec"), {})
    if "hello.wav" in block:
        assert soundfile.info("hello.wav").duration > 0.9


def test_the_block_that_plays(pulse: Pulse) -> None:
    (block,) = [block for flag, block in BLOCKS if flag]
    with pulse.recording() as recording:
        exec(compile(block, "docs/sinks.md", "exec"), {})
    assert np.count_nonzero(recording.samples) > 0.7 * 24_000


def test_llm_to_speaker_plays(pulse: Pulse) -> None:
    with pulse.recording() as recording:
        run_example("llm_to_speaker.py")
    assert np.count_nonzero(np.abs(recording.samples) > 100) > 0.5 * 24_000


def test_llm_to_speaker_writes(tmp_path: Path) -> None:
    run_example("llm_to_speaker.py", str(tmp_path / "a.wav"))
    assert soundfile.info(tmp_path / "a.wav").duration > 1


def test_llm_to_webrtc_is_heard_at_the_far_end(tmp_path: Path) -> None:
    run_example("llm_to_webrtc.py", str(tmp_path / "a.wav"))
    sound, rate_hz = soundfile.read(tmp_path / "a.wav")
    assert rate_hz == 48_000
    assert len(sound) > rate_hz
    assert np.sqrt(np.mean(sound**2)) > 0.005


def run_example(name: str, *args: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / name), *args], check=True, timeout=120)
