"""Large pages: what is moved, who opts out, and that the contents stay."""

from __future__ import annotations

import mmap
import sys

import numpy as np
import pytest

from rtts_engine import pages

MAPS = """\
55d1ee33d000-55d1ee33e000 r-xp 00000000 08:01 123 /usr/bin/python3
55d1ef000000-55d1f0000000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0001000000 rw-p 00000000 00:00 0 
7f0002000000-7f0002001000 rw-p 00000000 00:00 0 
7f0003000000-7f0004000000 r--p 00000000 00:00 0 
7f0005000000-7f0006000000 rw-p 00000000 08:01 77 /models/tables.safetensors
7ffc00000000-7ffc00800000 rw-p 00000000 00:00 0                          [stack]
"""  # noqa: W291


def test_only_large_anonymous_memory_is_moved() -> None:
    found = list(pages._areas(MAPS))
    assert found == [(0x55D1EF000000, 0x55D1F0000000), (0x7F0000000000, 0x7F0001000000)]


def test_opting_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pages.OPT_OUT, "0")
    assert not pages.wanted()
    monkeypatch.setenv(pages.OPT_OUT, "1")
    assert pages.wanted() == (sys.platform == "linux")


@pytest.mark.skipif(sys.platform != "linux", reason="advice of the Linux kernel")
def test_contents_stay() -> None:
    memory = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    values = np.frombuffer(memory, np.uint32)
    values[:] = np.arange(values.size)
    worker = pages.collapse_in_background()
    worker.join()
    np.testing.assert_array_equal(values, np.arange(values.size))


def test_a_kernel_without_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(pages.ctypes, "CDLL", absent)
    assert pages.collapse() == 0
