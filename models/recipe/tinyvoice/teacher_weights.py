"""The teacher's weights as plain tensors: from the int8 ONNX export that packages carry to one compact file.

Kokoro-82M (Apache-2.0) is on the package index only as a dynamically quantised ONNX graph. Its integers, scales and
zero points are read from the graph and named as in the PyTorch modules; `load` gives float tensors back. The file is a
set of independently compressed blocks, so that it opens in a second or two on a machine with several cores.
"""

import lzma
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
_BLOCK = 6 << 20
_FLOATS = re.compile(
    r"(bias|gamma|beta|alpha[12]\.\d|LayerNorm\.weight|layer_norm\.weight|noise_convs\.\d\.weight|_proj\.weight)$"
)


@dataclass(frozen=True)
class Quantised:
    """value = (codes - zero) * scale; scale and zero are one number or one per output row."""

    codes: Array
    scale: Array
    zero: Array

    @classmethod
    def by_column(
        cls, codes: Array, scale: Array, zero: Array, rows: Callable[[Array], Array] = lambda x: x
    ) -> "Quantised":
        """From a graph's (in, out) matrix to (out, in); `rows` then rearranges the output rows."""
        scale, zero = (rows(x[:, None]) if np.size(x) > 1 else np.reshape(x, ()) for x in (scale, zero))
        return cls(np.ascontiguousarray(rows(codes.T)), scale, zero)

    def values(self) -> torch.Tensor:
        """float32 tensor."""
        codes, zero, scale = (
            torch.from_numpy(np.array(x)).float() for x in (self.codes, self.zero, self.scale)
        )
        return (codes - zero) * scale


def _module_path(node_name: str) -> str:
    """`/encoder/x/x.1/Conv` -> `x.1`, with the prosody predictor's prefix put back."""
    parts = node_name.strip("/").split("/")[1:-1]
    kept = [p for i, p in enumerate(parts) if not (i + 1 < len(parts) and parts[i + 1].startswith(p + "."))]
    path = ".".join(kept)
    prosody = re.match(r"(F0|N|lstm|shared|F0_proj|N_proj|duration_proj)(\.|$)", path)
    return f"predictor.{path}" if prosody else path


def _gates(w: Array) -> Array:
    """ONNX gate order i, o, f, c to PyTorch's i, f, c, o, along the first axis."""
    i, o, f, c = np.split(w, 4, axis=0)
    return np.concatenate([i, f, c, o], 0)


def extract(onnx_file: Path) -> dict[str, Quantised | Array]:
    """State dict of the teacher (names of the `kokoro` package's modules)."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(onnx_file)).graph
    data = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    producer = {out: n for n in graph.node for out in n.output}
    consumers: dict[str, list[Any]] = {}
    for n in graph.node:
        for name in n.input:
            consumers.setdefault(name, []).append(n)

    def weight_scale(node: Any) -> Array:
        """The graph computes Cast(ConvInteger) * (input scale * weight scale)."""
        following: list[Any] = []
        for c in consumers[node.output[0]]:
            following += consumers[c.output[0]] if c.op_type == "Add" else [c]
        for cast in (c for c in following if c.op_type == "Cast"):
            for product in (c for c in consumers[cast.output[0]] if c.op_type == "Mul"):
                other = next(i for i in product.input if i != cast.output[0])
                return next(data[i] for i in producer[other].input if i in data)
        raise KeyError(node.name)

    out: dict[str, Quantised | Array] = {}
    for n in graph.node:
        if n.op_type == "ConvInteger":
            out[_module_path(n.name) + ".weight"] = Quantised(
                data[n.input[1]], weight_scale(n), data[n.input[3]]
            )
        elif n.op_type in ("Conv", "ConvTranspose", "MatMul") and n.input[1] in data:
            w = data[n.input[1]]
            out[_module_path(n.name) + ".weight"] = w.T if n.op_type == "MatMul" else w
        elif n.op_type == "MatMulInteger" and n.input[1] in data:
            name = re.sub(r"_\d+$", "", _module_path(n.name)) + ".weight"
            out.setdefault(name, Quantised.by_column(data[n.input[1]], weight_scale(n), data[n.input[3]]))
        elif n.op_type == "DequantizeLinear":
            source = producer[n.input[0]].input[0]
            name = re.sub("^encoder\\.", "", source).replace("_quantized", "")
            out[name] = Quantised(data[source], data[n.input[1]], data[n.input[2]])
    for n in (n for n in graph.node if n.op_type == "DynamicQuantizeLSTM"):
        path = _module_path(n.name)
        bias = data[n.input[3]]
        for d, suffix in ((0, ""), (1, "_reverse")):
            for name, codes, scale, zero in (("ih", 1, 8, 9), ("hh", 2, 10, 11)):
                w, s, z = (data[n.input[i]][d] for i in (codes, scale, zero))
                out[f"{path}.weight_{name}_l0{suffix}"] = Quantised.by_column(w, s, z, _gates)
            half = bias.shape[1] // 2
            out[f"{path}.bias_ih_l0{suffix}"] = _gates(bias[d][:half])
            out[f"{path}.bias_hh_l0{suffix}"] = _gates(bias[d][half:])
    for name, w in data.items():
        if name.startswith(("encoder.", "decoder.")) and _FLOATS.search(name):
            out.setdefault(re.sub(r"^(encoder|decoder)\.", "", name), w)
    return {
        k: v if isinstance(v, Quantised) else np.ascontiguousarray(v, dtype=np.float32)
        for k, v in out.items()
    }


def save(weights: dict[str, Quantised | Array], path: Path) -> None:
    """Write the compact file."""
    plain = {k: (v.codes, v.scale, v.zero) if isinstance(v, Quantised) else v for k, v in weights.items()}
    raw = pickle.dumps(plain, protocol=5)
    blocks = [raw[i : i + _BLOCK] for i in range(0, len(raw), _BLOCK)]
    with ThreadPoolExecutor(2) as pool:
        packed = list(pool.map(lambda b: lzma.compress(b, preset=6), blocks))
    path.write_bytes(pickle.dumps(packed))


def load(path: Path, threads: int = 16) -> dict[str, torch.Tensor]:
    """float32 state dict from what `save` wrote. Only for files made here: the container is a pickle."""
    with ThreadPoolExecutor(threads) as pool:
        raw = b"".join(pool.map(lzma.decompress, pickle.loads(path.read_bytes())))
    return {
        k: Quantised(*v).values() if isinstance(v, tuple) else torch.from_numpy(v.copy())
        for k, v in pickle.loads(raw).items()
    }
