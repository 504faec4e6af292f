"""Oracle tests: ``pytest -m oracle`` (8 minutes); ``pytest -m oracle_real`` (released dimensions, 2 minutes, 6 GB).

The ordinary run deselects them and does not import torch: test modules reach the official package through the
fixtures below only. A whole run that passed rewrites docs/parity.md and its part of bench/results.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtts_engine.convert import convert
from rtts_engine.model import Model
from tests.checkpoints import Kind, write_checkpoint

from .audio import from_pcm16, reference_pcm16
from .cases import REF_TEXT
from .parity import FloatArray, Report, parity_page

if TYPE_CHECKING:
    from .official import Official

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/parity.md"
RESULTS = {
    "oracle": REPOSITORY / "bench/results/parity.json",
    "oracle_real": REPOSITORY / "bench/results/parity_real.json",
}
"""By the marker that selects the run."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "oracle_real: parity at released 0.6B dimensions; 2 minutes, 6 GB of memory"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = "oracle_real" in str(config.getoption("markexpr", ""))
    skip = pytest.mark.skip(reason="released dimensions: run with -m oracle_real")
    for item in items:
        if not asked and item.get_closest_marker("oracle_real"):
            item.add_marker(skip)


@dataclass
class Pair:
    """One checkpoint, loaded by both sides."""

    preset: str
    checkpoint: Path
    official: Official
    model: Model
    voice: Any
    """Official clone prompt item of the reference clip; None unless the kind is base."""


class Pairs:
    """Generates, converts and loads each checkpoint once a session."""

    def __init__(self, folder: Path, module: Any) -> None:
        self._folder = folder
        self._module = module
        self._loaded: dict[tuple[str, Kind, int], Pair] = {}
        self.clip = from_pcm16(reference_pcm16())

    def get(self, preset: str, kind: Kind, seed: int = 0) -> Pair:
        key = (preset, kind, seed)
        if key not in self._loaded:
            name = f"{preset}-{kind}-{seed}"
            path = write_checkpoint(self._folder / name, preset=preset, kind=kind, seed=seed)
            official = self._module.Official(path)
            voice = official.voice(self.clip, REF_TEXT) if kind == "base" else None
            model = Model.load(convert(path, self._folder / f"{name}-ncnn"))
            self._loaded[key] = Pair(preset, path, official, model, voice)
        return self._loaded[key]


@pytest.fixture(scope="session")
def official_module() -> Any:
    """``tests.oracle.official``, or a skip where the oracle extra is not installed."""
    pytest.importorskip("torch", reason="the oracle extra is not installed")
    return importlib.import_module("tests.oracle.official")


@pytest.fixture(scope="session")
def pairs(official_module: Any, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return Pairs(tmp_path_factory.mktemp("oracle"), official_module)


@pytest.fixture(scope="session")
def clip(pairs: Pairs) -> FloatArray:
    """The reference clip, 24 kHz, 2.13 s."""
    return pairs.clip


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Collects figures; kept in the repository when a whole ``-m oracle`` or ``-m oracle_real`` run passed."""
    found = Report()
    yield found
    option = request.config.option
    selective = option.keyword or any(".py" in argument for argument in request.config.args)
    if option.markexpr not in RESULTS or selective or request.session.testsfailed or not found.runs:
        return
    versions = {"Python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in ("ncnn", "torch", "transformers", "qwen-tts")
    }
    text = json.dumps(found.to_json(versions), indent=1, ensure_ascii=False) + "\n"
    RESULTS[option.markexpr].parent.mkdir(parents=True, exist_ok=True)
    RESULTS[option.markexpr].write_text(text, encoding="utf-8", newline="\n")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.values() if path.exists()]
    PAGE.write_text(parity_page(results), encoding="utf-8", newline="\n")
