"""Memory-mapped safetensors files, sharded or not, and the writer for our own tables.

The ``safetensors`` package cannot give bfloat16 to numpy, and it copies; the format is an 8-byte length, a JSON
header and raw little-endian data, so that a map and a view are enough. Rows are widened to float32 on access.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from rtts_engine.errors import CheckpointError
from rtts_engine.files import read_text, reason

F32 = npt.NDArray[np.float32]

# bfloat16 is kept as its 16 bits: numpy has no such type.
_STORAGE: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}
_FLOATS = ("F32", "F16", "BF16")
_MAX_HEADER_BYTES = 100_000_000
_MAX_AXES = 8
_PIECE_BYTES = 64 << 20


def widen(raw: npt.NDArray[Any], dtype: str) -> F32:
    """Float32 copy of stored values; ``dtype`` is the safetensors name (F32, F16 or BF16). Exact."""
    if dtype == "BF16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor: a read-only view of the mapped file."""

    name: str
    dtype: str
    """The safetensors name: F32, F16, BF16, ..."""
    raw: npt.NDArray[Any]
    file: mmap.mmap
    start: int
    """Where the tensor begins in ``file``, in bytes."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape)

    def rows(self, index: npt.ArrayLike) -> F32:
        """Rows ``index`` of a table as float32 (n, width)."""
        return widen(self.raw[np.asarray(index, dtype=np.int64)], self.dtype)

    def float32(self) -> F32:
        """The whole tensor as float32 (a copy); its pages leave this process's memory again."""
        values = widen(self.raw, self.dtype)
        self._forget()
        return values

    def is_finite(self) -> bool:
        """Whether no value is NaN or infinity; read in pieces, without keeping the pages."""
        values = self.raw.reshape(-1)
        for start in range(0, values.size, _PIECE_BYTES // 4):
            piece = widen(values[start : start + _PIECE_BYTES // 4], self.dtype)
            self._forget()
            if not np.isfinite(piece).all():
                return False
        return True

    def copy_to(self, out: IO[bytes]) -> None:
        """Write the stored bytes to ``out`` in pieces, without keeping the pages."""
        data = self.raw.reshape(-1).view(np.uint8)
        for start in range(0, data.size, _PIECE_BYTES):
            out.write(data[start : start + _PIECE_BYTES].data)
            self._forget()

    def _forget(self) -> None:
        if not hasattr(mmap, "MADV_DONTNEED"):
            return  # Windows trims mapped pages by itself
        first = -(-self.start // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (self.start + self.raw.nbytes - first) // mmap.PAGESIZE * mmap.PAGESIZE
        if length > 0:
            self.file.madvise(mmap.MADV_DONTNEED, first, length)


def _map_file(path: Path) -> dict[str, Tensor]:
    """Every tensor of one safetensors file. Raises ``CheckpointError`` naming file and tensor."""
    try:
        size = path.stat().st_size
        if size < 8:
            raise CheckpointError(f"{path}: {size} bytes, not a safetensors file; download it again")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; the checkpoint is incomplete") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)})") from None
    length = int.from_bytes(mapped[:8], "little")
    if length > min(size - 8, _MAX_HEADER_BYTES):
        raise CheckpointError(
            f"{path}: header of {length} bytes in a file of {size}: truncated or not safetensors"
        )
    try:
        header = json.loads(mapped[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged safetensors header ({error}); download it again") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: damaged safetensors header (not an object); download it again")
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            tensors[name] = _map_tensor(path, name, entry, mapped, 8 + length)
    _check_layout(path, tensors.values(), 8 + length)
    return tensors


def _check_layout(path: Path, tensors: Iterable[Tensor], body: int) -> None:
    """The format allows neither overlaps nor gaps: each would be a header that belongs to other data."""
    expected = body
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.raw.nbytes)):
        if tensor.start != expected:
            raise CheckpointError(
                f"{path}: tensor {tensor.name!r} begins at byte {tensor.start - body}, expected {expected - body}: "
                "damaged safetensors header; download it again"
            )
        expected += tensor.raw.nbytes


def _map_tensor(path: Path, name: str, entry: Any, mapped: mmap.mmap, body: int) -> Tensor:
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        start, end = entry["data_offsets"]
        # numpy cannot shape what is beyond these bounds, not even with no elements.
        sound = len(shape) <= _MAX_AXES and all(
            type(n) is int and abs(n) < 2**48 for n in (*shape, start, end)
        )
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise CheckpointError(f"{path}: damaged header entry for tensor {name!r}; download it again")
    storage = _STORAGE.get(dtype) if isinstance(dtype, str) else None
    if storage is None:
        raise CheckpointError(f"{path}: tensor {name!r} has dtype {dtype!r}; use {', '.join(_STORAGE)}")
    if any(n < 0 for n in shape) or end - start != math.prod(shape) * storage.itemsize or start < 0:
        raise CheckpointError(f"{path}: tensor {name!r}: shape {list(shape)} does not fit its byte range")
    if body + end > len(mapped):
        raise CheckpointError(
            f"{path}: tensor {name!r} ends at byte {end} of {len(mapped) - body}: truncated; download it again"
        )
    values = np.frombuffer(mapped, storage, math.prod(shape), body + start)
    return Tensor(name, dtype, values.reshape(shape), mapped, body + start)


class TensorSource:
    """Named tensors of one model file or of the shards that an index lists."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        self._tensors = dict(tensors)
        self.path = path

    @classmethod
    def open(cls, folder: Path) -> TensorSource:
        """``folder/model.safetensors``, or every shard of ``folder/model.safetensors.index.json``."""
        single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
        if single.exists() or not index.exists():
            return cls(_map_file(single), single)
        try:
            weight_map = json.loads(read_text(index))["weight_map"]
            shards = sorted({str(shard) for shard in weight_map.values()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise CheckpointError(
                f"{index}: damaged shard index (no weight_map); download it again"
            ) from None
        tensors: dict[str, Tensor] = {}
        for shard in shards:
            if Path(shard).name != shard:
                raise CheckpointError(
                    f"{index}: weight_map names {shard!r}, expected a file in the same folder"
                )
            tensors.update(_map_file(folder / shard))
        missing = sorted(set(weight_map) - set(tensors))
        if missing:
            raise CheckpointError(f"{index}: tensor {missing[0]!r} is in no shard ({len(missing)} missing)")
        return cls(tensors, index)

    @classmethod
    def open_file(cls, path: Path) -> TensorSource:
        """One safetensors file of any name."""
        return cls(_map_file(path), path)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def with_prefix(self, prefix: str) -> dict[str, F32]:
        """Every tensor whose name starts with ``prefix``, widened; for files whose shapes are checked later."""
        return {name: t.float32() for name, t in self._tensors.items() if name.startswith(prefix)}

    def extent(self, name: str) -> tuple[tuple[int, ...], int]:
        """Shape and stored bytes of a tensor that exists."""
        tensor = self._tensors[name]
        return tensor.shape, tensor.raw.nbytes

    def get(self, name: str, shape: Sequence[int]) -> Tensor:
        """The float tensor ``name``, which must have exactly ``shape``."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"{self.path}: tensor {name!r} is missing (expected shape {list(shape)})")
        if tensor.shape != tuple(shape):
            raise CheckpointError(
                f"{self.path}: tensor {name!r} has shape {list(tensor.shape)}, expected {list(shape)} from the config"
            )
        if tensor.dtype not in _FLOATS:
            raise CheckpointError(
                f"{self.path}: tensor {name!r} has dtype {tensor.dtype}, expected {', '.join(_FLOATS)}"
            )
        return tensor

    def float32(self, name: str, shape: Sequence[int]) -> F32:
        """``get(name, shape)`` widened to a float32 copy; every value must be finite."""
        values = self.get(name, shape).float32()
        if not np.isfinite(values).all():
            raise self._not_finite(name)
        return values

    def finite(self, name: str, shape: Sequence[int]) -> Tensor:
        """``get(name, shape)`` as it is stored, for a table too large to widen; every value must be finite."""
        tensor = self.get(name, shape)
        if not tensor.is_finite():
            raise self._not_finite(name)
        return tensor

    def _not_finite(self, name: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: tensor {name!r} holds NaN or infinity; the file is damaged")


def write_safetensors(path: Path, tensors: Mapping[str, Tensor | F32], metadata: Mapping[str, str]) -> None:
    """Write tensors as they are stored and arrays as float32 to ``path``, one after another."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, value in tensors.items():
        dtype, raw = (value.dtype, value.raw) if isinstance(value, Tensor) else ("F32", value)
        end = offset + raw.nbytes
        header[name] = {"dtype": dtype, "shape": list(raw.shape), "data_offsets": [offset, end]}
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for value in tensors.values():
            if isinstance(value, Tensor):
                value.copy_to(file)
            else:
                file.write(np.ascontiguousarray(value, "<f4").data)
