"""A turn of a session into a file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from rtts.audio import WavStream
from rtts.errors import AudioError
from rtts.stream.session import Session, check_session
from rtts_engine.files import atomic_path, reason


async def write_wav(session: Session, path: str | Path) -> Path:
    """Write the sound of the next turn, or of the one under way, to a 16-bit WAV file; whole or not at all.

    Raises:
        AudioError: the file cannot be written.
        RequestError: that is no session, or somebody takes its sound already.
        StreamError: the turn failed.
    """
    check_session(session)
    target = Path(path)
    try:
        with atomic_path(target) as temporary, temporary.open("w+b") as file:
            stream = WavStream(file)
            async for chunk in session:
                stream.write(chunk.samples)
    except OSError as error:
        raise AudioError(f"{target}: cannot be written ({reason(error)})") from None
    except ValueError as error:  # a NUL in the name
        raise AudioError(f"{str(target)!r}: cannot be written ({error})") from None
    return target


async def write_raw(session: Session, file: BinaryIO) -> None:
    """Write the sound of the next turn to ``file`` as it comes: 24 kHz mono signed 16-bit little-endian.

    Raises:
        OSError: what ``file`` raises.
        StreamError: the turn failed.
    """
    async for chunk in session:
        file.write(chunk.samples.astype("<i2").tobytes())
        file.flush()
