"""Reference audio to codes: what an ICL voice is made of.

Runs offline, but in pieces, so that memory hardly grows with the clip: the convolutions are causal with a short
memory, the transformer keeps its keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rtts_engine.clip import checked_clip
from rtts_engine.config import CodecConfig
from rtts_engine.errors import ModelError
from rtts_engine.graph.codec_encoder import (
    BOOKS,
    DOWNSAMPLE,
    DOWNSAMPLE_KERNEL,
    DOWNSAMPLE_STRIDE,
    PROJECTIONS,
    context_samples,
    stages,
)
from rtts_engine.positions import causal_mask, rope_frequencies, rope_tables
from rtts_engine.runtime import EMPTY, Handle, Net

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

PIECE_COLUMNS = 50
"""25 Hz columns of one run: 2 s of audio, some 50 MB in the first convolutions at the released sizes."""


class CodecEncoder:
    """Clips to codes over one loaded graph; clips are independent, so threads may share it."""

    def __init__(self, net: Net, config: CodecConfig, tables: Mapping[str, F32]) -> None:
        """
        Args:
            net: the graph of ``write_codec_encoder``, loaded as fp32.
            config: the codec's config.
            tables: what ``codec_encoder_tables`` returned.

        Raises:
            ModelError: a table is missing or does not fit the config.
        """
        c = config.encoder
        width = c.vector_quantization_hidden_dimension
        for name, shape in (
            (DOWNSAMPLE, (c.hidden_size, c.hidden_size, DOWNSAMPLE_KERNEL)),
            (PROJECTIONS, (2, width, c.hidden_size)),
            (BOOKS, (config.num_quantizers, c.codebook_size, width)),
        ):
            if name not in tables or tables[name].shape != shape:
                found = list(tables[name].shape) if name in tables else "missing"
                raise ModelError(
                    f"table {name!r} is {found}, expected {list(shape)}; convert the checkpoint again"
                )
        self.samples_per_frame = config.samples_per_frame
        self.num_quantizers = config.num_quantizers
        self._net = net
        self._config = c
        self._tables = tables
        self._stages = tuple(stages(c))
        self._hop = math.prod(c.upsampling_ratios)
        self._context_columns = -(-context_samples(c) // self._hop)
        self._frequencies = rope_frequencies(c.head_dim, c.rope_theta).astype(np.float64)

    def encode(self, samples: npt.ArrayLike) -> I32:
        """Codes of a clip: the official encoder's, but for exact near-ties that its float32 rounding decides.

        Args:
            samples: (n,) float, mono 24 kHz, up to ``clip.MAX_CLIP_SECONDS``. It need not be a whole number of frames:
                the last one is coded as the official package does, with zeros behind every layer's input.

        Returns:
            (ceil(n / samples_per_frame), num_quantizers) int32.

        Raises:
            AudioError: the clip is empty, too long, not mono float, or holds NaN or infinity.
        """
        clip = checked_clip(samples, 1)
        columns = -(-len(clip) // self._hop)
        caches: dict[str, Handle] = {}
        rows = []
        for start in range(0, columns, PIECE_COLUMNS):
            latent = self._convolve(clip, start, min(columns, start + PIECE_COLUMNS))
            rows.append(self._attend(latent, start, columns, caches))
        return self._quantise(self._downsample(np.concatenate(rows)))

    def _convolve(self, clip: F32, start: int, stop: int) -> F32:
        """25 Hz columns ``start`` to ``stop`` of the convolution stack: (stop - start, hidden)."""
        first = max(0, start - self._context_columns)
        piece = clip[first * self._hop : stop * self._hop]
        feeds: dict[str, F32 | Handle] = {"samples": piece[None, None, :]}
        length = len(piece)
        for i, stage in enumerate(self._stages):
            right = -length % stage.ratio
            feeds[f"pad{i}"] = np.zeros((stage.width, 1, stage.ratio + right), np.float32)
            length = (length + right) // stage.ratio
        (latent,), _ = self._net.run(feeds, ["latent"])
        return latent[start - first :]

    def _attend(self, x: F32, past: int, total: int, caches: dict[str, Handle]) -> F32:
        """The transformer over the next columns (n, hidden); ``caches`` move on."""
        n = len(x)
        cos, sin = rope_tables(np.arange(past, past + n), self._frequencies)
        feeds: dict[str, F32 | Handle] = {
            "x": x,
            "mask": causal_mask(n, past),
            "cos": cos,
            "sin": sin,
        }
        names = [f"{kind}{layer}" for layer in range(self._config.num_layers) for kind in "kv"]
        feeds |= {f"p{name}": caches.get(name, EMPTY) for name in names}
        outputs = [f"c{name}" for name in names]
        (y,), handles = self._net.run(feeds, ["y"], outputs, opaque=True, cache_capacity=total)
        caches.update(zip(names, handles, strict=True))
        return y

    def _downsample(self, x: F32) -> F32:
        """25 to 12.5 Hz (frames, hidden): the edges are padded by repetition (the only such layer)."""
        left = DOWNSAMPLE_KERNEL - DOWNSAMPLE_STRIDE
        padded = np.pad(x, ((left, -len(x) % DOWNSAMPLE_STRIDE), (0, 0)), mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, DOWNSAMPLE_KERNEL, axis=0)
        windows = windows[::DOWNSAMPLE_STRIDE]  # (frames, hidden, 4)
        kernel = self._tables[DOWNSAMPLE]
        frames: F32 = windows.reshape(len(windows), -1) @ kernel.reshape(len(kernel), -1).T
        return frames

    def _quantise(self, latent: F32) -> I32:
        """Split residual quantisation (frames, hidden) -> codes; distances in float64, the first entry on ties."""
        codes = np.empty((len(latent), self.num_quantizers), np.int32)
        residual = latent
        for group in range(self.num_quantizers):
            if group < 2:  # the semantic book, then the first acoustic one, start from the latent itself
                residual = latent @ self._tables[PROJECTIONS][group].T
            book = self._tables[BOOKS][group]
            codes[:, group] = nearest(residual, book)
            residual = residual - book[codes[:, group]]
        return codes


def nearest(vectors: F32, book: F32) -> I32:
    """Index of the entry of ``book`` (C, width) at the least Euclidean distance to each of ``vectors`` (n, width)."""
    wide = book.astype(np.float64)
    distances = (wide**2).sum(axis=1) - 2.0 * (vectors.astype(np.float64) @ wide.T)
    indices: I32 = distances.argmin(axis=1).astype(np.int32)
    return indices
