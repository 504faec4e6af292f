"""What this installation and machine look like, and what to do about each problem.

The engine is imported by the checks that need it: the report must not fail for want of a package that it would name.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import rtts
from rtts.errors import RttsError

Level = Literal["ok", "note", "problem"]

OUR_PACKAGES = ("ncnn", "numpy", "tokenizers", "soundfile", "soxr", "huggingface_hub")
WANTED_X86 = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx512_bf16": "BF16"}
WANTED_ARM = {"asimd": "NEON", "asimdhp": "FP16", "asimddp": "dot product", "i8mm": "I8MM", "bf16": "BF16"}
PROBE_SECONDS = 30

VULKAN_PROBE = """
import json, ncnn
ncnn.create_gpu_instance()
print(json.dumps([ncnn.get_gpu_info(i).device_name() for i in range(ncnn.get_gpu_count())]))
"""
"""Runs in a process of its own: a missing or broken driver writes to stderr, and may crash."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    subject: str
    level: Level
    """``note``: something is missing that only some uses need."""
    detail: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""


def examine() -> Iterator[Finding]:
    """All findings, each as soon as it is known."""
    for check in (
        versions,
        environment,
        cpu,
        gil,
        vulkan,
        sound_devices,
        models_folder,
        models,
        start,
    ):
        try:
            yield from check()
        except Exception as error:  # one broken check must not hide the others
            name = check.__name__.replace("_", " ")
            advice = "reinstall rtts" if isinstance(error, ImportError) else "report it"
            yield Finding(
                name, "problem", f"the check itself failed: {type(error).__name__}: {error}", advice
            )


def versions() -> Iterator[Finding]:
    """Python, this package and what it stands on."""
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    yield Finding("rtts", "ok", f"{rtts.__version__}, {system}")
    found = []
    for name in OUR_PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Finding(name, "problem", "not installed", "reinstall rtts")
    yield Finding("packages", "ok", ", ".join(found))


def environment() -> Iterator[Finding]:
    """Whether the engine accepts this ncnn wheel."""
    from rtts_engine import runtime

    try:
        runtime.check_environment()
    except RttsError as error:
        yield Finding("engine", "problem", str(error), "pip install --upgrade ncnn")
    else:
        yield Finding("engine", "ok", f"ncnn {runtime.ncnn_version()}")


def cpu() -> Iterator[Finding]:
    """Cores this process may use, and the instructions that make ncnn fast."""
    cores = usable_cores()
    flags = cpu_flags()
    wanted = {name: label for name, label in (WANTED_X86 | WANTED_ARM).items() if name in flags}
    yield Finding("cpu", "ok", f"{cores} cores usable; {', '.join(wanted.values()) or 'features unknown'}")
    if flags and platform.machine().lower() in ("x86_64", "amd64") and "avx2" not in flags:
        yield Finding("cpu", "problem", "no AVX2", "expect speech slower than real time; use another machine")
    if cores < 2:
        advice = "the two stages cannot overlap; give this process two cores"
        yield Finding("threads", "note", "one core usable", advice)
    else:
        detail = "default --threads auto: one for each stage, more where a measurement says that they pay"
        yield Finding("threads", "ok", detail)
    if os.environ.get("OMP_NUM_THREADS", "1") != "1":
        value = os.environ["OMP_NUM_THREADS"]
        yield Finding(
            "threads", "note", f"OMP_NUM_THREADS={value} is set", "ncnn does not need it; use --threads"
        )


def gil() -> Iterator[Finding]:
    """Whether Python goes on while ncnn computes."""
    from rtts_engine import runtime

    if runtime.releases_gil():
        yield Finding("GIL", "ok", "released while ncnn computes")
    else:
        detail = "held while ncnn computes (or the machine is very busy): stages cannot overlap"
        yield Finding(
            "GIL", "problem", detail, "pip install --upgrade ncnn; run this again on an idle machine"
        )


def vulkan() -> Iterator[Finding]:
    """GPUs that ncnn sees."""
    try:
        probe = subprocess.run(
            [sys.executable, "-c", VULKAN_PROBE], capture_output=True, timeout=PROBE_SECONDS, check=True
        )
        names = json.loads(probe.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        names = []
    if names:
        yield Finding("Vulkan", "ok", ", ".join(f"{index}: {name}" for index, name in enumerate(names)))
    else:
        advice = "not needed: speech runs on the CPU"
        yield Finding("Vulkan", "note", "no device, or no driver (libvulkan1 and the card's own)", advice)


def sound_devices() -> Iterator[Finding]:
    """Where ``--play`` would play."""
    try:
        sounddevice: Any = importlib.import_module("sounddevice")
    except ImportError:
        yield Finding(
            "sound", "note", "sounddevice is not installed", "to play here: pip install 'rtts[local]'"
        )
        return
    except OSError:
        advice = "to play here, install it (Debian, Ubuntu: apt install libportaudio2)"
        yield Finding("sound", "note", "the PortAudio library is missing", advice)
        return
    try:
        output = sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError):
        yield Finding("sound", "note", "no output device", "write files with -o, or connect a device")
        return
    yield Finding("sound", "ok", f"output: {output['name']}")


def models_folder() -> Iterator[Finding]:
    """Whether a model could be converted on first use."""
    from rtts import store

    for what, folder in (("cache", store.cache_dir()), ("folder", store.models_dir())):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if existing.is_dir() and os.access(existing, os.W_OK):
            yield Finding(what, "ok", str(folder))
        else:
            advice = "set RTTS_HOME to a folder that can be written"
            yield Finding(what, "problem", f"{folder} cannot be written", advice)


def models() -> Iterator[Finding]:
    """What is installed; a damaged model is named. Reads every converted file."""
    from rtts import store

    found = store.entries()
    if not any(entry.name == store.DEFAULT_MODEL for entry in found):
        yield Finding("models", "problem", "the shipped voice is missing", "reinstall rtts")
    for entry in found:
        if entry.kind == "?":
            advice = f"delete {entry.path} and install it again"
            yield Finding("models", "problem", f"{entry.name}: its description cannot be read", advice)
            continue
        damage = _damage(entry.path) if entry.origin == "installed" else None
        if damage is not None:
            advice = f"delete {entry.path} and install it again"
            yield Finding("models", "problem", f"{entry.name}: {damage}", advice)
            continue
        precision = store.precision(entry) or "converted on first use"
        yield Finding("models", "ok", f"{entry.name} ({entry.kind}, {entry.origin}, {precision})")
    for path in store.cached():
        damage = _damage(path)
        if damage is not None and _outdated(path):
            yield Finding("models", "note", f"cache: {path.name} is of another version", f"delete {path}")
        elif damage is not None:
            yield Finding("models", "problem", f"cache: {damage}", f"delete {path}")


def start() -> Iterator[Finding]:
    """How long the shipped voice takes until it is ready to speak, where it has been converted."""
    from rtts import store
    from rtts.stream.engine import ModelEngine
    from rtts.stream.tts import Tts
    from rtts_engine.model import Model

    converted = [path for path in store.cached() if path.name.startswith(f"{store.DEFAULT_MODEL}-")]
    whole = [path for path in converted if store.is_whole(path)]
    if not whole:
        yield Finding("start", "note", "the shipped voice is not converted yet", "its first use does that")
        return
    try:
        model = Model.load(whole[0])
    except RttsError:
        return  # another check names it

    async def warm_up() -> float | None:
        async with Tts(ModelEngine(model), max_sessions=1) as tts:
            await tts.warm_up()
            return tts.warm_up_s

    yield Finding(
        "start", "ok", f"loaded in {model.load_s:.1f} s, warmed up in {asyncio.run(warm_up()):.1f} s"
    )


def _damage(path: Path) -> str | None:
    """What is wrong with a converted model's files."""
    from rtts_engine.manifest import Manifest

    try:
        Manifest.load(path).verify(path)
    except RttsError as error:
        return str(error)
    return None


def _outdated(path: Path) -> bool:
    """Whether a conversion in the cache has another format: this version makes its own beside it."""
    from rtts_engine.manifest import FORMAT, MANIFEST_FILE

    try:
        data = json.loads((path / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] != FORMAT


def usable_cores() -> int:
    """Cores that this process may run on."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def cpu_flags() -> set[str]:
    """Instruction set extensions in Linux' spelling; empty where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {"asimd"} if platform.machine() == "arm64" else set()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()
