"""Imports point downwards only: adapters and server -> rtts -> rtts_engine, and nothing needs torch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "rtts").rglob("*.py"), *(ROOT / "engine" / "rtts_engine").rglob("*.py")])

NEVER = {"torch", "torchaudio", "transformers", "qwen_tts", "pnnx", "librosa"}
"""The oracle's packages: tests and bench only."""
NOT_IN_ENGINE = {
    # the layers above
    "rtts", "typer", "rich",
    # concurrency of the event loop, devices, network
    "asyncio", "sounddevice", "aiortc", "av", "webrtcvad", "socket", "ssl", "http", "urllib", "requests", "httpx",
    "aiohttp", "websockets", "huggingface_hub", "fastapi", "uvicorn", "wyoming",
}  # fmt: skip
GRAPH_MAY_USE = {"numpy", "rtts_engine.graph", "rtts_engine.config", "rtts_engine.tensors", "rtts_engine.checkpoint",
                 "rtts_engine.errors"}  # fmt: skip
ONLY_RUNTIME_CALLS_NCNN = {Path("engine/rtts_engine/runtime.py")}


def imports(path: Path) -> Iterator[str]:
    """Every dotted module name that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; name the package"
            yield node.module or ""


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def rule_broken(path: Path, module: str) -> str | None:
    """What is wrong with ``path`` (relative to the project) importing ``module``."""
    top = module.partition(".")[0]
    if top in NEVER:
        return "the packages never need the official implementation"
    if path.is_relative_to("engine"):
        if top in NOT_IN_ENGINE:
            return "the engine is synchronous and knows no layer above it, no device and no network"
        standard = top in sys.stdlib_module_names
        if path.is_relative_to("engine/rtts_engine/graph") and not (
            standard or within(module, GRAPH_MAY_USE)
        ):
            return "graphs are written with numpy alone"
    if top == "ncnn" and path not in ONLY_RUNTIME_CALLS_NCNN:
        return "one module owns every ncnn call (rtts_engine.runtime)"
    upper = within(module, {"rtts.server", "rtts.adapters", "rtts.cli"})
    shells = [Path("rtts") / name for name in ("server", "adapters", "cli", "__main__.py")]
    if upper and not any(path.is_relative_to(shell) for shell in shells):
        return "the component does not know its server, adapters and command line"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_import_direction(path: Path) -> None:
    relative = path.relative_to(ROOT)
    broken = {module: why for module in imports(path) if (why := rule_broken(relative, module))}
    assert not broken


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("engine/rtts_engine/talker.py", "rtts.audio"),
        ("engine/rtts_engine/talker.py", "asyncio"),
        ("engine/rtts_engine/codec.py", "sounddevice"),
        ("engine/rtts_engine/convert.py", "huggingface_hub.errors"),
        ("engine/rtts_engine/convert.py", "torch.nn"),
        ("engine/rtts_engine/talker.py", "ncnn"),
        ("engine/rtts_engine/graph/talker.py", "rtts_engine.runtime"),
        ("engine/rtts_engine/graph/talker.py", "tokenizers"),
        ("rtts/speech.py", "transformers"),
        ("rtts/speech.py", "rtts.cli"),
    ],
)
def test_the_rule_sees_a_breach(path: str, module: str) -> None:
    assert rule_broken(Path(path), module)


def test_both_packages_are_looked_at() -> None:
    names = {str(path.relative_to(ROOT).as_posix()) for path in SOURCES}
    assert {"rtts/__init__.py", "engine/rtts_engine/runtime.py"} <= names
