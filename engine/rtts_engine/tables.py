"""Embedding look-ups: memory-mapped rows, widened to float32 when read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rtts_engine.config import TalkerConfig
from rtts_engine.runtime import Net
from rtts_engine.tensors import TensorSource

F32 = npt.NDArray[np.float32]

TEXT_TABLE = "talker.model.text_embedding.weight"
CODEC_TABLE = "talker.model.codec_embedding.weight"


def acoustic_table(index: int) -> str:
    """Name of the predictor's table for codebook ``index + 1``."""
    return f"talker.code_predictor.model.codec_embedding.{index}.weight"


def table_shapes(config: TalkerConfig) -> dict[str, tuple[int, int]]:
    """Every look-up table of a checkpoint's language model with its shape."""
    width = config.stack.hidden_size
    shapes = {
        TEXT_TABLE: (config.text_vocab_size, config.text_hidden_size),
        CODEC_TABLE: (config.vocab_size, width),
    }
    for i in range(config.num_code_groups - 1):
        shapes[acoustic_table(i)] = (config.predictor.vocab_size, width)
    return shapes


class Tables:
    """TXT, COD and the acoustic tables of one model (semantics 2.3, 3.2). Implements ``prompt.Embedder``."""

    def __init__(self, source: TensorSource, projection: Net, config: TalkerConfig) -> None:
        self.hidden_size = config.stack.hidden_size
        self._projection = projection
        shapes = table_shapes(config)
        self._text = source.get(TEXT_TABLE, shapes[TEXT_TABLE])
        # The code tables are read 16 times a frame and are small: keep them widened.
        self._codec_rows = source.float32(CODEC_TABLE, shapes[CODEC_TABLE])
        self._acoustic_rows = [
            source.float32(acoustic_table(i), shapes[acoustic_table(i)])
            for i in range(config.num_code_groups - 1)
        ]

    def text(self, ids: Sequence[int]) -> F32:
        """TXT of text ids: (n, D)."""
        if not len(ids):
            return np.zeros((0, self.hidden_size), np.float32)
        (rows,), _ = self._projection.run({"x": self._text.rows(ids)}, ["y"])
        return rows

    def codec(self, ids: Sequence[int]) -> F32:
        """COD of codec ids: (n, D)."""
        return self._codec_rows[np.asarray(ids, np.int64)]

    def write_acoustic(self, index: int, codes: Sequence[int], out: F32) -> None:
        """Put rows of the table for codebook ``index + 1`` into ``out`` (n, D)."""
        table = self._acoustic_rows[index]
        for row, code in enumerate(codes):
            out[row] = table[code]

    def frames(self, codes: npt.NDArray[np.int32]) -> F32:
        """Frame embeddings f (R, D) of codes (R, 16): the sum of all 16 rows."""
        total: F32 = self._codec_rows[codes[:, 0]].copy()
        for i, table in enumerate(self._acoustic_rows):
            total += table[codes[:, i + 1]]
        return total
