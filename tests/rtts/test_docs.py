"""What the documentation shows runs: every Python block, every example, and the commands of the README."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from rtts.cli import main

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/interfaces.md"]
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {})
    assert [path for path in tmp_path.iterdir() if soundfile.info(path).frames > 0]


def test_the_readme_has_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 'python -m pip install . && rtts say "Hello there." -o hello.wav' in text
    assert 'python -m pip install -e ".[test]" && python -m pytest' in text


def test_the_readmes_first_words_make_a_wav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = re.search(
        r"&& rtts (say .*-o hello\.wav)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert command is not None
    assert main(shlex.split(command[1])) == 0
    assert soundfile.info("hello.wav").duration > 0.4


def test_example_say(tmp_path: Path) -> None:
    run_example("say.py", "Good morning.", str(tmp_path / "a.wav"))
    assert soundfile.info(tmp_path / "a.wav").frames > 0


def test_example_batch(tmp_path: Path) -> None:
    run_example("batch.py", str(tmp_path), text="One.\n\nTwo.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.wav", "0002.wav"]


def test_example_latency() -> None:
    run_example("latency.py")


def test_example_barge_in() -> None:
    run_example("barge_in.py")


def test_every_example_has_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    tested = set(re.findall(r'run_example\("(\w+\.py)"', tests))
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == tested


def run_example(name: str, *args: str, text: str = "") -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *args], input=text, text=True, check=True, timeout=120
    )


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md", "models/lark/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
