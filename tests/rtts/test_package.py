"""What a user installs: quick to import, with the shipped voice inside."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import rtts
from rtts import store

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "models" / store.DEFAULT_MODEL
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_import_brings_in_nothing_heavy() -> None:
    code = "import sys, rtts; print(*sorted(m for m in ('numpy', 'ncnn', 'typer', 'rich', 'soxr') if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_the_wheel_carries_the_default_model() -> None:
    shipped = re.findall(r'^"models/(\w+)" = "rtts/_models/(\w+)"$', PYPROJECT, re.MULTILINE)
    assert (store.DEFAULT_MODEL, store.DEFAULT_MODEL) in shipped


def test_the_shipped_model_has_a_card_and_a_licence() -> None:
    for name in ("README.md", "LICENSE", "config.json"):
        assert (store.shipped_dir() / store.DEFAULT_MODEL / name).is_file()


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/interfaces.md"]
)
def test_project_files_are_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_version_is_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", rtts.__version__)
    assert 'path = "rtts/__init__.py"' in PYPROJECT


def test_a_wheel_holds_both_packages_and_the_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wheel = tmp_path / build_wheel(str(tmp_path))
    names = set(zipfile.ZipFile(wheel).namelist())
    model = f"rtts/_models/{store.DEFAULT_MODEL}"
    assert {
        "rtts/__init__.py",
        "rtts/py.typed",
        "rtts/text/data/en.txt",
        "rtts_engine/runtime.py",
        "rtts_engine/py.typed",
        *(f"{model}/{file.relative_to(SHIPPED).as_posix()}" for file in SHIPPED.rglob("*") if file.is_file()),
    } <= names
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", f"models/{store.DEFAULT_MODEL}/LICENSE"}
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == {"rtts", "rtts_engine"}
