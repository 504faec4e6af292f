"""What a result was measured on and with, and the one way results are written."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rtts_engine.files import atomic_path


def facts() -> dict[str, Any]:
    """Processor, cores, memory, system and the versions that decide speed."""
    versions = {"python": platform.python_version()}
    for package in ("ncnn", "numpy"):
        versions[package] = metadata.version(package)
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": platform.platform(terse=True),
        "load_average_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)


def peak_memory_mb() -> float | None:
    """Most memory that this process ever held (resident); None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


def write(path: Path, command: str, result: Mapping[str, Any]) -> Path:
    """Write a JSON file, complete or not at all: the command, the machine and the figures.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"command": command, "machine": facts(), **result}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return path
