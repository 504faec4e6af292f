"""A streaming safetensors writer: a header, then the tensors a block at a time. Peak memory is a few blocks."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .randomness import FloatArray
from .tensors import TensorSpec

Dtype = Literal["bfloat16", "float16", "float32"]

_CODES: dict[Dtype, tuple[str, int]] = {"bfloat16": ("BF16", 2), "float16": ("F16", 2), "float32": ("F32", 4)}


def to_bfloat16(values: FloatArray) -> NDArray[np.uint16]:
    """The bit patterns of the nearest bfloat16 values, ties to even (finite input)."""
    bits = values.view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    return np.asarray(rounded >> np.uint32(16), dtype=np.uint16)


def _encode(block: FloatArray, dtype: Dtype) -> bytes:
    if dtype == "bfloat16":
        return to_bfloat16(block).astype("<u2", copy=False).tobytes()
    return block.astype("<f2" if dtype == "float16" else "<f4", copy=False).tobytes()


def stored_bytes(spec: TensorSpec, dtype: Dtype) -> int:
    """Bytes the tensor takes in the file."""
    return spec.size * _CODES[dtype][1]


def write_safetensors(path: Path, specs: Sequence[TensorSpec], dtype: Dtype, seed: int) -> None:
    """Writes the tensors in the given order; the header is padded to 8 bytes as the format's own writer does."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for spec in specs:
        end = offset + stored_bytes(spec, dtype)
        header[spec.name] = {
            "dtype": _CODES[dtype][0],
            "shape": list(spec.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for spec in specs:
            for block in spec.blocks(seed):
                file.write(_encode(block, dtype))


def write_sharded(out: Path, specs: Sequence[TensorSpec], dtype: Dtype, seed: int, shards: int) -> None:
    """``model.safetensors``, or ``model-0000i-of-0000n.safetensors`` of about equal size with their index."""
    if shards == 1:
        write_safetensors(out / "model.safetensors", specs, dtype, seed)
        return
    if not 1 < shards <= len(specs):
        raise ValueError(f"shards must be 1..{len(specs)}, got {shards}")
    total = sum(stored_bytes(spec, dtype) for spec in specs)
    groups: list[list[TensorSpec]] = [[]]
    filled = 0
    for i, spec in enumerate(specs):
        must_split = len(specs) - i <= shards - len(groups)
        if groups[-1] and len(groups) < shards and (must_split or filled >= total * len(groups) / shards):
            groups.append([])
        groups[-1].append(spec)
        filled += stored_bytes(spec, dtype)
    weight_map: dict[str, str] = {}
    for i, group in enumerate(groups, start=1):
        name = f"model-{i:05d}-of-{shards:05d}.safetensors"
        write_safetensors(out / name, group, dtype, seed)
        weight_map |= {spec.name: name for spec in group}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(
        json.dumps(index, indent=2), encoding="utf-8", newline="\n"
    )
