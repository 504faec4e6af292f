"""The speaker encoder (ECAPA-TDNN) as an ncnn graph: log-mel frames of a whole clip to an x-vector.

Convolutions have reflected "same" padding; statistics over time are reductions. The attentive pooling's first
convolution reads each frame beside the clip's mean and deviation, which are the same for every frame: its weight is cut
in two, and the clip's part is computed once. The graph is always fp32: a voice is made once and compared by cosine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from rtts_engine.checkpoint import Checkpoint
from rtts_engine.config import SpeakerEncoderConfig
from rtts_engine.errors import CheckpointError
from rtts_engine.graph.writer import Blob, GraphWriter
from rtts_engine.tensors import TensorSource

F32 = npt.NDArray[np.float32]

VARIANCE_FLOOR = 1e-12
_REFLECT = 2
_SUM, _MEAN = 0, 3


def minimum_frames(config: SpeakerEncoderConfig) -> int:
    """Mel frames that the widest reflected padding needs (5 with the released config)."""
    layers = zip(config.kernel_sizes, config.dilations, strict=True)
    return max(dilation * (kernel - 1) // 2 for kernel, dilation in layers) + 1


def write_speaker_encoder(checkpoint: Checkpoint, stem: Path) -> None:
    """Write ``stem.param`` and ``stem.bin``: ``mel`` (mel_dim, 1, frames) to ``xvector`` (enc_dim, 1, 1).

    Raises:
        CheckpointError: the checkpoint has no speaker encoder (only Base models have one), or a tensor is missing or
            has another shape than the config says.
    """
    config = checkpoint.config.speaker_encoder
    if config is None:
        raise CheckpointError(
            f"{checkpoint.path}: a {checkpoint.config.kind} model has no speaker encoder; clone with a Base model"
        )
    with GraphWriter(stem, "fp32") as graph:
        _SpeakerEncoder(graph, checkpoint.main, config).write()


class _SpeakerEncoder:
    """Adds the encoder's layers to a graph, reading one layer's tensors at a time."""

    def __init__(self, graph: GraphWriter, source: TensorSource, config: SpeakerEncoderConfig) -> None:
        self._g = graph
        self._source = source
        self._c = config

    def write(self) -> None:
        c, g = self._c, self._g
        x = self._tdnn(
            g.input("mel"), "blocks.0", c.mel_dim, c.channels[0], c.kernel_sizes[0], c.dilations[0]
        )
        outputs = []
        for block in range(1, len(c.channels) - 1):
            x = self._block(x, block)
            outputs.append(x)
        width = c.channels[-1]
        x = self._tdnn(g.concat(outputs, 0), "mfa", width, width, c.kernel_sizes[-1], c.dilations[-1])
        g.output(self._conv(self._pool(x, width), "fc", 2 * width, c.enc_dim), "xvector")

    # -- layers ------------------------------------------------------------------------------

    def _tensors(self, name: str, inputs: int, outputs: int, kernel: int = 1) -> tuple[F32, F32]:
        weight = self._source.float32(f"speaker_encoder.{name}.weight", (outputs, inputs, kernel))
        return weight, self._source.float32(f"speaker_encoder.{name}.bias", (outputs,))

    def _conv(self, x: Blob, name: str, inputs: int, outputs: int) -> Blob:
        """1 x 1 convolution."""
        return self._g.conv(x, *self._tensors(name, inputs, outputs))

    def _tdnn(self, x: Blob, name: str, inputs: int, outputs: int, kernel: int, dilation: int) -> Blob:
        """Convolution with reflected padding to the same length, ReLU."""
        weight, bias = self._tensors(f"{name}.conv", inputs, outputs, kernel)
        side = dilation * (kernel - 1) // 2
        if side:
            x = self._g.layer("Padding", [x], {2: side, 3: side, 4: _REFLECT})
        return self._relu(self._g.conv(x, weight, bias, dilation=dilation))

    def _relu(self, x: Blob) -> Blob:
        return self._g.layer("ReLU", [x])

    def _over_time(self, x: Blob, operation: int) -> Blob:
        """(C, 1, T) to (C, 1, 1)."""
        return self._g.layer("Reduction", [x], {0: operation, 1: 0, 2: 1.0, 3: [2], 4: 1, 5: 1})

    def _block(self, x: Blob, block: int) -> Blob:
        """SE-Res2Net."""
        c, g, name = self._c, self._g, f"blocks.{block}"
        inputs, width = c.channels[block - 1], c.channels[block]
        h = self._tdnn(x, f"{name}.tdnn1", inputs, width, 1, 1)
        part = width // c.res2net_scale
        groups = g.split_at(h, [part] * c.res2net_scale, 0)
        outputs = [groups[0]]
        for j, group in enumerate(groups[1:]):
            inner = group if j == 0 else g.add(group, outputs[-1])
            layer = f"{name}.res2net_block.blocks.{j}"
            outputs.append(self._tdnn(inner, layer, part, part, c.kernel_sizes[block], c.dilations[block]))
        h = self._tdnn(g.concat(outputs, 0), f"{name}.tdnn2", width, width, 1, 1)
        gate = self._conv(self._over_time(h, _MEAN), f"{name}.se_block.conv1", width, c.se_channels)
        gate = self._conv(self._relu(gate), f"{name}.se_block.conv2", c.se_channels, width)
        return g.add(g.multiply(h, g.layer("Sigmoid", [gate])), x)

    def _deviation(self, x: Blob, mean: Blob, weights: Blob | None) -> Blob:
        """Standard deviation over time, population form, weighted if ``weights`` (C, 1, T) sum to 1."""
        g = self._g
        square = g.unary(g.subtract(x, mean), "square")
        if weights is None:
            variance = self._over_time(square, _MEAN)
        else:
            variance = self._over_time(g.multiply(square, weights), _SUM)
        return g.unary(g.layer("Clip", [variance], {0: VARIANCE_FLOOR, 1: 3e38}), "sqrt")

    def _pool(self, x: Blob, width: int) -> Blob:
        """Attentive statistics: (width, 1, T) to (2 width, 1, 1)."""
        g, inner = self._g, self._c.attention_channels
        weight, bias = self._tensors("asp.tdnn.conv", 3 * width, inner)
        mean = self._over_time(x, _MEAN)
        clip = g.concat([mean, self._deviation(x, mean, None)], 0)
        h = g.add(g.conv(x, weight[:, :width], None), g.conv(clip, weight[:, width:], bias))
        h = g.layer("TanH", [self._relu(h)])
        scores = g.layer("Softmax", [self._conv(h, "asp.conv", inner, width)], {0: 2, 1: 1})
        mean = self._over_time(g.multiply(x, scores), _SUM)
        return g.concat([mean, self._deviation(x, mean, scores)], 0)
