"""Sound as float32 arrays: read from any common file, written whole or as it grows.

Everything inside the project is mono at 24 kHz; this module is where other rates and channel counts end.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from rtts.errors import AudioError
from rtts_engine.config import SAMPLE_RATE_HZ as SAMPLE_RATE_HZ
from rtts_engine.files import atomic_path, reason

F32 = npt.NDArray[np.float32]
I16 = npt.NDArray[np.int16]

READ_BLOCK_SAMPLES = 1 << 18
"""Of all channels together."""
WRITE_BLOCK_SAMPLES = 1 << 16
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
WAV_HEADER_BYTES = 44
WAV_SIZE_LIMIT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """A piece of mono sound."""

    samples: F32
    """(n,) float32, full scale at 1.0."""
    sample_rate_hz: int = SAMPLE_RATE_HZ

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate_hz

    def write(self, path: str | Path) -> Path:
        """Write a 16-bit WAV or FLAC, or Ogg Vorbis, by the suffix of ``path``; whole or not at all.

        Raises:
            AudioError: the suffix is unknown or the file cannot be written.
        """
        target = Path(path)
        kind = FORMATS.get(target.suffix.lower())
        if kind is None:
            raise AudioError(f"{target}: unknown sound format {target.suffix!r}; use {', '.join(FORMATS)}")
        encoded = self._encoded(target, kind)
        try:
            with atomic_path(target) as temporary:
                temporary.write_bytes(encoded.getbuffer())
        except OSError as error:
            raise AudioError(f"{target}: cannot be written ({reason(error)})") from None
        except ValueError as error:  # a NUL in the name
            raise AudioError(f"{str(target)!r}: cannot be written ({error})") from None
        return target

    def _encoded(self, target: Path, kind: str) -> io.BytesIO:
        """The file's contents; in memory, because libsndfile would hide why a write to disk failed."""
        if np.ndim(self.samples) != 1 or not np.isfinite(self.samples).all():
            raise AudioError(
                f"{target}: not written: samples must be (n,) finite numbers; make the sound again"
            )
        subtype = "VORBIS" if kind == "OGG" else "PCM_16"
        data: F32 | I16 = self.samples if kind == "OGG" else to_pcm16(self.samples)
        encoded = io.BytesIO()
        try:
            with soundfile.SoundFile(
                encoded, "w", self.sample_rate_hz, 1, format=kind, subtype=subtype
            ) as file:
                # The Vorbis encoder keeps a whole write on its stack: a minute or two of it crash the process.
                for start in range(0, len(data), WRITE_BLOCK_SAMPLES):
                    file.write(data[start : start + WRITE_BLOCK_SAMPLES])
        except soundfile.SoundFileError as error:
            raise AudioError(
                f"{target}: {kind} at {self.sample_rate_hz} Hz cannot be made ({_detail(error)}); use a .wav file"
            ) from None
        return encoded


def to_pcm16(samples: F32) -> I16:
    """Float samples as 16-bit integers, clipped at full scale."""
    pcm: I16 = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
    return pcm


def read_audio(path: str | Path, *, max_seconds: float = 3600.0) -> F32:
    """Read a WAV, FLAC or Ogg file (or what else libsndfile knows) as mono 24 kHz.

    Channels are averaged; other rates are resampled with soxr's high quality. Memory follows the result, not the
    file: a long file at a high rate is read in blocks.

    Args:
        path: the file.
        max_seconds: longer files are refused before they are read.

    Returns:
        (n,) float32 with n >= 1, full scale at 1.0.

    Raises:
        AudioError: no such file, not a sound file, no samples, too long, or samples that are not numbers.
    """
    source = Path(path)
    try:
        if not source.exists():
            raise AudioError(f"{source}: no such file")
        if not source.is_file():
            raise AudioError(f"{source}: not a file; give a WAV, FLAC or Ogg file")
        with soundfile.SoundFile(source) as file:
            return _read(source, file, max_seconds)
    except soundfile.SoundFileError as error:
        raise AudioError(
            f"{source}: not a readable sound file ({_detail(error)}); use WAV, FLAC or Ogg"
        ) from None
    except OSError as error:
        raise AudioError(f"{source}: cannot be read ({reason(error)})") from None
    except TypeError:  # what soundfile raises for the name of a headerless file
        raise AudioError(f"{source}: raw samples without a header; use WAV, FLAC or Ogg") from None
    except ValueError as error:  # a NUL or a byte that is not UTF-8 in the name
        raise AudioError(f"{str(source)!r}: cannot be read ({error}); rename the file") from None


def _read(source: Path, file: soundfile.SoundFile, max_seconds: float) -> F32:
    rate_hz = int(file.samplerate)
    if not 4_000 <= rate_hz <= 384_000:
        raise AudioError(f"{source}: sample rate {rate_hz} Hz, expected 4000 to 384000")
    if file.frames / rate_hz > max_seconds:
        raise AudioError(
            f"{source}: {file.frames / rate_hz:.0f} s long, at most {max_seconds:.0f} s are taken; cut it"
        )
    stream = (
        None if rate_hz == SAMPLE_RATE_HZ else soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, quality="HQ")
    )
    parts: list[F32] = []
    frames = max(1, READ_BLOCK_SAMPLES // file.channels)
    while True:
        block = file.read(frames, dtype="float32", always_2d=True)
        if not np.isfinite(block).all():
            raise AudioError(
                f"{source}: holds samples that are not numbers (NaN or infinity); export it again"
            )
        mono = block.mean(axis=1, dtype=np.float32)
        last = len(block) < frames
        parts.append(mono if stream is None else stream.resample_chunk(mono, last=last))
        if last:
            break
    samples = np.concatenate(parts)
    if not len(samples):
        raise AudioError(f"{source}: holds no samples")
    return samples


def _detail(error: Exception) -> str:
    """libsndfile's words without the path, which it repeats."""
    return str(getattr(error, "error_string", error)).strip().rstrip(".")


class WavStream:
    """A 16-bit mono WAV file that is valid after every write, so that a player may follow it."""

    def __init__(self, file: BinaryIO, sample_rate_hz: int = SAMPLE_RATE_HZ) -> None:
        """Write the header of an empty file to ``file`` (seekable)."""
        self._file = file
        self._rate_hz = sample_rate_hz
        self._bytes = 0
        file.write(self._header())

    def write(self, samples: F32 | I16) -> None:
        """Append (n,) float or 16-bit samples and bring the header up to date."""
        pcm = samples if samples.dtype == np.int16 else to_pcm16(samples.astype(np.float32, copy=False))
        data = pcm.astype("<i2").tobytes()
        self._file.seek(0, 2)
        self._file.write(data)
        self._bytes += len(data)
        self._file.seek(0)
        self._file.write(self._header())
        self._file.flush()

    def _header(self) -> bytes:
        data_bytes = min(self._bytes, WAV_SIZE_LIMIT - WAV_HEADER_BYTES)
        return struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF",
            data_bytes + WAV_HEADER_BYTES - 8,
            b"WAVE",
            b"fmt ",
            16,
            1,
            1,
            self._rate_hz,
            2 * self._rate_hz,
            2,
            16,
            b"data",
            data_bytes,
        )
