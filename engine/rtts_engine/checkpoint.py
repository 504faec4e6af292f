"""A Qwen3-TTS checkpoint directory in the hub's layout: validated config and mapped tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rtts_engine.config import ModelConfig
from rtts_engine.config_json import parse_config, read_json
from rtts_engine.errors import CheckpointError
from rtts_engine.tensors import TensorSource

TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Config and tensors of one checkpoint; tensors are views of mapped files, nothing is loaded."""

    path: Path
    config: ModelConfig
    main: TensorSource
    """Talker, code predictor and (Base) speaker encoder."""
    codec: TensorSource
    """``speech_tokenizer/model.safetensors``: decoder and encoder."""

    @classmethod
    def open(cls, path: Path | str) -> Checkpoint:
        """Open a checkpoint directory.

        Raises:
            ConfigError: a config field is missing or unusable, or the model type is not supported.
            CheckpointError: a file is missing, truncated or damaged.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise CheckpointError(f"{folder}: not a directory; give the folder that holds config.json")
        generation = folder / "generation_config.json"
        names = (folder / "config.json", folder / "speech_tokenizer" / "config.json", generation)
        config = parse_config(
            read_json(names[0]),
            read_json(names[1]),
            read_json(generation) if generation.exists() else {},
            where=(str(names[0]), str(names[1]), str(names[2])),
        )
        if not (folder / "tokenizer.json").exists():
            for name in TOKENIZER_FILES:
                if not (folder / name).exists():
                    raise CheckpointError(
                        f"{folder / name}: no such file; the checkpoint has no text tokenizer"
                    )
        return cls(folder, config, TensorSource.open(folder), TensorSource.open(folder / "speech_tokenizer"))
