"""Models that the tests speak with: the shipped one, and a random Base model that clones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtts import store
from rtts_engine.convert import convert
from rtts_engine.model import Model, Threads
from tests.checkpoints import write_checkpoint


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keeps the tests out of the user's own models; the shipped voice is converted into it once."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RTTS_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def shipped(home: Path) -> Model:
    """The loaded shipped voice."""
    return Model.load(store.resolve(), threads=Threads(ar=1, codec=1))


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted random Base model."""
    folder = tmp_path_factory.mktemp("base")
    checkpoint = write_checkpoint(folder / "checkpoint", preset="tiny", kind="base")
    return convert(checkpoint, folder / "base")
