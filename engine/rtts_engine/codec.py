"""The streaming codec decoder: frames of codes in, 24 kHz samples out, with an explicit state.

A stream is a ``CodecState``. Decoding frames one by one, in chunks or all at once gives the same samples up to
rounding; the samples of a frame are final as soon as the frame is known. States are independent, so that several
streams, each in its own thread, may use one decoder.

Up to rounding means 1e-4 in fp32. In bf16 the products of long and short chunks round differently and a chunking
differs by as much as bf16 differs from fp32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rtts_engine.config import CodecConfig
from rtts_engine.errors import ModelError, RequestError
from rtts_engine.graph.codec_decoder import BOOKS, INITIAL, INPUT, NEXT, conv_context_frames, state_specs
from rtts_engine.positions import MASKED, rope_frequencies, rope_tables
from rtts_engine.runtime import Feed, Handle, Net, owned

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

MAX_RUN_FRAMES = 16
"""Frames of one run of the graph: longer input is cut, so that memory does not grow with it."""
CALIBRATION_CHUNK_FRAMES = 4
REFERENCE_CHUNK_FRAMES = 300
REFERENCE_CONTEXT_FRAMES = 25


@dataclass(slots=True)
class CodecState:
    """Where one stream stands. ``decode`` moves it on; the values inside are never changed, only replaced."""

    frames: int
    """Frames decoded so far."""
    handles: dict[str, Handle]
    nbytes: int
    """Size of the state's values in bytes."""

    def copy(self) -> CodecState:
        """An independent continuation from the same point: cheap, the values are shared."""
        return CodecState(self.frames, dict(self.handles), self.nbytes)


class CodecDecoder:
    """Codes to samples over one loaded graph; holds no stream's state."""

    def __init__(self, net: Net, config: CodecConfig, tables: Mapping[str, F32]) -> None:
        """
        Args:
            net: the graph of ``write_codec_decoder``.
            config: the codec's config.
            tables: what ``codec_tables`` and ``write_codec_decoder`` returned.

        Raises:
            ModelError: the codebooks are missing or do not fit the config.
        """
        c = config.decoder
        self._net = net
        self._config = c
        self.samples_per_frame = config.samples_per_frame
        self.num_quantizers = c.num_quantizers
        self.codebook_size = c.codebook_size
        books = tables.get(BOOKS)
        expected = (c.num_quantizers, c.codebook_size, c.codebook_dim // 2)
        if books is None or books.shape != expected:
            found = "missing" if books is None else f"of shape {list(books.shape)}"
            raise ModelError(
                f"table {BOOKS!r} is {found}, expected {list(expected)}; convert the checkpoint again"
            )
        self._books = books
        self._groups = np.arange(c.num_quantizers)
        self._frequencies = rope_frequencies(c.head_dim, c.rope_theta).astype(np.float64)
        specs = state_specs(c)
        self._front = tuple(spec.name for spec in specs if spec.front)
        self._names = tuple(spec.name for spec in specs)
        self._initial: dict[str, Handle] = {}
        self._state_bytes = 0
        for spec in specs:
            value = np.zeros(spec.shape, np.float32)
            if INITIAL + spec.name in tables:
                value += np.asarray(tables[INITIAL + spec.name], np.float32).reshape(-1, 1, 1)
            self._initial[spec.name] = owned(value)
            self._state_bytes += value.nbytes
        self._context = conv_context_frames(c)

    def init_state(self) -> CodecState:
        """The state before the first frame."""
        return CodecState(0, dict(self._initial), self._state_bytes)

    def decode(self, state: CodecState, codes: npt.ArrayLike) -> F32:
        """Decode the next ``n`` frames of a stream and move ``state`` on; on an error it stays where it was.

        Args:
            state: the stream; one thread at a time may use it.
            codes: (n, num_quantizers) integers in [0, codebook_size).

        Returns:
            (n x samples_per_frame,) float32 in [-1, 1].

        Raises:
            RequestError: codes of another shape or type, or out of range.
        """
        rows = self._checked(codes)
        step = state.copy()
        pieces = [self._run(step, piece) for piece in _cut(rows, MAX_RUN_FRAMES)]
        state.frames, state.handles = step.frames, step.handles
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def prime(self, state: CodecState, codes: npt.ArrayLike) -> None:
        """Move ``state`` over ``codes`` whose samples nobody wants (an ICL voice's reference frames).

        Equal to ``decode`` up to rounding at a fraction of its cost: only the last frames, as many as the convolutions
        see, pass through them.

        Raises:
            RequestError: codes of another shape or type, or out of range.
        """
        rows = self._checked(codes)
        step = state.copy()
        early = max(0, len(rows) - self._context)
        for piece in _cut(rows[:early], MAX_RUN_FRAMES):
            self._run_front(step, piece)
        for piece in _cut(rows[early:], MAX_RUN_FRAMES):
            self._run(step, piece)
        state.frames, state.handles = step.frames, step.handles

    def decode_reference(self, codes: npt.ArrayLike) -> F32:
        """Decode a whole utterance as the official package does: every 300 frames a fresh start behind 25 frames.

        Equal to ``decode`` up to 300 frames; beyond, the official samples differ from one causal pass after each
        restart. For comparisons only.

        Args:
            codes: (n, num_quantizers) integers in [0, codebook_size), ICL reference frames included.

        Returns:
            (n x samples_per_frame,) float32 in [-1, 1].

        Raises:
            RequestError: codes of another shape or type, or out of range.
        """
        rows = self._checked(codes)
        pieces = [np.zeros(0, np.float32)]
        for start in range(0, len(rows), REFERENCE_CHUNK_FRAMES):
            state = self.init_state()
            self.decode(state, rows[max(0, start - REFERENCE_CONTEXT_FRAMES) : start])
            pieces.append(self.decode(state, rows[start : start + REFERENCE_CHUNK_FRAMES]))
        return np.concatenate(pieces)

    def input_ranges(self, codes: npt.ArrayLike, names: Sequence[str]) -> dict[str, float]:
        """The largest magnitude that the convolutions of states ``names`` read while ``codes`` are decoded.

        Args:
            codes: (n, num_quantizers) integers in [0, codebook_size).
            names: in graph order.
        """
        state, found = self.init_state(), dict.fromkeys(names, 0.0)
        for rows in _cut(self._checked(codes), CALIBRATION_CHUNK_FRAMES):
            run = self._net.start()
            run.feed(self._inputs(state, rows) | state.handles)
            for name in names:
                found[name] = float(
                    np.maximum(found[name], np.abs(run.array(name + INPUT)).max())
                )  # NaN stays
            state.handles = {name: run.state(name + NEXT, opaque=False) for name in self._names}
            state.frames += len(rows)
        return found

    def _checked(self, codes: npt.ArrayLike) -> I64:
        try:
            rows = np.asarray(codes)
        except ValueError:
            raise RequestError(
                f"codes are ragged, expected integers (frames, {self.num_quantizers})"
            ) from None
        if rows.shape in ((0,), (0, self.num_quantizers)):
            return np.zeros((0, self.num_quantizers), np.int64)
        if (
            rows.ndim != 2
            or rows.shape[1] != self.num_quantizers
            or not np.issubdtype(rows.dtype, np.integer)
        ):
            raise RequestError(
                f"codes are {rows.dtype} of shape {list(rows.shape)}, expected integers (frames, {self.num_quantizers})"
            )
        wrong = np.argwhere((rows < 0) | (rows >= self.codebook_size))
        if len(wrong):
            frame, group = (int(i) for i in wrong[0])
            raise RequestError(
                f"code {int(rows[frame, group])} at frame {frame}, group {group} is not in "
                f"[0, {self.codebook_size}); end-of-speech and control ids are no codes"
            )
        return rows.astype(np.int64)

    def _inputs(self, state: CodecState, rows: I64) -> dict[str, Feed]:
        """The 12.5 Hz inputs of the graph for the frames after ``state``."""
        n = len(rows)
        entries = self._books[self._groups, rows]  # (n, groups, width)
        latent = np.concatenate([entries[:, 0], entries[:, 1:].sum(axis=1)], axis=1)
        cos, sin = rope_tables(np.arange(state.frames, state.frames + n), self._frequencies)
        past = self._config.sliding_window - 1
        # Columns are the past rows, then this call's: a column stands for frame `key`, which exists from 0 on.
        query, key = np.arange(n)[:, None], np.arange(-past, n)[None, :]
        seen = (key <= query) & (key > query - self._config.sliding_window) & (key >= -state.frames)
        return {
            "latent": np.ascontiguousarray(latent.T)[:, None, :],
            "mask": np.where(seen, np.float32(0), MASKED),
            "cos": cos,
            "sin": sin,
        }

    def _run(self, state: CodecState, rows: I64) -> F32:
        feeds = self._inputs(state, rows) | state.handles
        (samples,), handles = self._net.run(feeds, ["samples"], [name + NEXT for name in self._names])
        state.frames += len(rows)
        state.handles = dict(zip(self._names, handles, strict=True))
        return samples.reshape(-1)

    def _run_front(self, state: CodecState, rows: I64) -> None:
        """The transformer's half alone: nothing that its states do not need is computed."""
        feeds = self._inputs(state, rows) | {name: state.handles[name] for name in self._front}
        _, handles = self._net.run(feeds, [], [name + NEXT for name in self._front])
        state.frames += len(rows)
        state.handles |= dict(zip(self._front, handles, strict=True))


def _cut(rows: I64, size: int) -> list[I64]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]
