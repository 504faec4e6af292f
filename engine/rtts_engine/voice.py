"""Saved voices: an x-vector, perhaps with reference codes and transcript (ICL), as one safetensors file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from rtts_engine.errors import VoiceError
from rtts_engine.files import atomic_path, reason
from rtts_engine.manner import CloneVoice

F32 = npt.NDArray[np.float32]

FORMAT = "rtts-voice-1"


@dataclass(frozen=True, slots=True)
class Voice:
    """A cloned voice and where it came from."""

    name: str
    prompt: CloneVoice
    source_sha256: str
    """``Manifest.source_sha256`` of the model whose encoders made it."""
    key: str
    """``voice_key`` of the clip: the same clip and model give the same key."""

    def save(self, path: Path | str) -> None:
        """Write ``path`` at once or not at all. Raises ``VoiceError`` when the folder cannot be written."""
        path = Path(path)
        tensors: dict[str, npt.NDArray[np.generic]] = {"x_vector": self.prompt.x_vector.astype(np.float32)}
        metadata = {"format": FORMAT, "name": self.name, "source_sha256": self.source_sha256, "key": self.key}
        if self.prompt.ref_codes is not None:
            tensors["ref_codes"] = self.prompt.ref_codes.astype(np.int32)
            metadata["ref_text"] = self.prompt.ref_text or ""
        try:
            data = save(tensors, metadata=metadata)
        except UnicodeEncodeError:
            raise VoiceError(f"{path}: the voice's name or text has no UTF-8 form; give another") from None
        try:
            with atomic_path(path) as temporary:
                temporary.write_bytes(data)
        except OSError as error:
            raise VoiceError(f"{path}: cannot be written ({reason(error)})") from None

    @classmethod
    def load(cls, path: Path | str) -> Voice:
        """Read a saved voice. Whether it fits a model is checked when it speaks.

        Raises:
            VoiceError: no such file, not a voice file, or damaged.
        """
        path = Path(path)
        if not path.is_file():
            raise VoiceError(f"{path}: no such voice file; make one with 'rtts clone REF.wav -o {path.name}'")
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FORMAT:
                    raise VoiceError(
                        f"{path}: not a voice of this project (format {metadata.get('format')!r})"
                    )
                x_vector = np.asarray(file.get_tensor("x_vector"))
                codes = np.asarray(file.get_tensor("ref_codes")) if "ref_codes" in set(file.keys()) else None
            # AttributeError: numpy lacks the 8-bit floats that the format knows.
        except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
            raise VoiceError(f"{path}: damaged voice file ({error}); clone the voice again") from None
        if x_vector.dtype != np.float32 or (codes is not None and codes.dtype != np.int32):
            raise VoiceError(f"{path}: damaged voice file (unexpected dtypes); clone the voice again")
        prompt = CloneVoice(x_vector, codes, metadata.get("ref_text") if codes is not None else None)
        return cls(
            metadata.get("name", path.stem),
            prompt,
            metadata.get("source_sha256", ""),
            metadata.get("key", ""),
        )


def voice_key(samples: F32, transcript: str | None, source_sha256: str) -> str:
    """Hash of what determines a cloned voice: clip (24 kHz float32), transcript and the model's source."""
    digest = hashlib.sha256(f"{FORMAT}\0{source_sha256}\0{transcript or ''}\0".encode())
    digest.update(np.ascontiguousarray(samples, np.float32).data)
    return digest.hexdigest()
