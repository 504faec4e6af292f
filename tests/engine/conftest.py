"""Small random models that the engine's tests share, generated and converted once a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rtts_engine.convert import convert
from rtts_engine.model import Model
from tests.checkpoints import Kind, write_checkpoint


class Models:
    """Generated checkpoints and their converted, loaded form, by preset and kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[tuple[str, Kind], Model] = {}

    def checkpoint(self, preset: str = "tiny", kind: Kind = "base") -> Path:
        path = self._folder / f"{preset}-{kind}"
        return path if path.exists() else write_checkpoint(path, preset=preset, kind=kind)

    def get(self, preset: str = "tiny", kind: Kind = "base") -> Model:
        key = (preset, kind)
        if key not in self._loaded:
            out = self._folder / f"{preset}-{kind}-ncnn"
            self._loaded[key] = Model.load(convert(self.checkpoint(preset, kind), out))
        return self._loaded[key]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def checkpoint(models: Models, tmp_path: Path) -> Path:
    """A fresh copy of the tiny Base checkpoint that the test may damage."""
    return Path(shutil.copytree(models.checkpoint(), tmp_path / "checkpoint"))
