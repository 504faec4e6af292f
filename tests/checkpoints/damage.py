"""Ways to spoil a checkpoint, one fault each, for tests that expect one clear error.

Every function changes the directory in place; generate a fresh checkpoint, or copy one, per fault.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

MAIN = "model.safetensors"
CODEC = "speech_tokenizer/model.safetensors"


def truncate(checkpoint: Path, file: str = MAIN, keep: float = 0.6) -> None:
    """Cuts a file to a fraction of its size, as an interrupted download leaves it."""
    path = checkpoint / file
    with path.open("r+b") as stream:
        stream.truncate(int(path.stat().st_size * keep))


def remove(checkpoint: Path, file: str) -> None:
    """Deletes one file."""
    (checkpoint / file).unlink()


def remove_tokenizer(checkpoint: Path) -> None:
    """Deletes the vocabulary and the merges."""
    for file in ("vocab.json", "merges.txt"):
        remove(checkpoint, file)


def overwrite(checkpoint: Path, file: str, content: bytes) -> None:
    """Replaces a file by other bytes (an error page saved as JSON, zeros ...)."""
    (checkpoint / file).write_bytes(content)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data section of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    return header, data[8 + length :]


def _write(path: Path, header: dict[str, Any], body: bytes) -> None:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def drop_tensor(checkpoint: Path, name: str, file: str = MAIN) -> None:
    """Removes one tensor, as a different topology would (the format allows no holes: the data moves up)."""
    header, body = _read(checkpoint / file)
    start, end = header.pop(name)["data_offsets"]
    for key, entry in header.items():
        if key != "__metadata__" and entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [offset - (end - start) for offset in entry["data_offsets"]]
    _write(checkpoint / file, header, body[:start] + body[end:])


def reshape_tensor(checkpoint: Path, name: str, shape: tuple[int, ...], file: str = MAIN) -> None:
    """States another shape for a tensor; with the same number of elements the file stays well-formed."""
    header, body = _read(checkpoint / file)
    header[name]["shape"] = list(shape)
    _write(checkpoint / file, header, body)


def retype_tensor(checkpoint: Path, name: str, dtype: str, file: str = MAIN) -> None:
    """States another element type for a tensor ("I16" for "BF16" keeps the size)."""
    header, body = _read(checkpoint / file)
    header[name]["dtype"] = dtype
    _write(checkpoint / file, header, body)


def edit_header(checkpoint: Path, name: str, change: dict[str, Any], file: str = MAIN) -> None:
    """Replaces fields of a tensor's header entry by any values."""
    header, body = _read(checkpoint / file)
    header[name] |= change
    _write(checkpoint / file, header, body)


def edit_config(checkpoint: Path, changes: dict[str, Any], file: str = "config.json") -> None:
    """Sets fields of a JSON file; dots reach into nested objects, a value of ``...`` deletes the field."""
    path = checkpoint / file
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for dotted, value in changes.items():
        *parents, field = dotted.split(".")
        target = config
        for parent in parents:
            target = target[parent]
        if value is ...:
            del target[field]
        else:
            target[field] = value
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")


def wrong_model_type(checkpoint: Path, model_type: str = "qwen3_omni_moe") -> None:
    """Makes the directory claim to be another model family."""
    edit_config(checkpoint, {"model_type": model_type})


def codec_25hz(checkpoint: Path) -> None:
    """Makes the codec the family's other one, which is out of scope."""
    edit_config(checkpoint, {"tokenizer_type": "qwen3_tts_tokenizer_25hz"})
    codec = "speech_tokenizer/config.json"
    edit_config(checkpoint, {"model_type": "qwen3_tts_tokenizer_25hz"}, codec)
