"""Files that are either complete or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well, and vanishes otherwise.

    Raises:
        OSError: the folder cannot be written, the disk is full, or ``path`` is something else than a file.
    """
    check_target(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Refuse what can be known to be no place for a file: a folder, a device, a pipe, or a folder that is closed.

    A rename over a device would replace it, where the user may.

    Raises:
        OSError: with a reason to show.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "Not a regular file", str(path))
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def read_text(path: Path) -> str:
    """The UTF-8 text of a file; from a pipe in its place, reading would wait for ever.

    Raises:
        OSError: it cannot be read, or is something else than a file.
        UnicodeDecodeError: it is not UTF-8.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.read_text(encoding="utf-8")


def reason(error: OSError) -> str:
    """What the system says about a failed operation, without path and number: ``No space left on device``."""
    return error.strerror or str(error) or type(error).__name__
