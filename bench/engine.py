"""Time of each network of the engine, against what this machine's memory and arithmetic allow.

    OPENBLAS_NUM_THREADS=1 python -m bench.engine [--model DIR ...] [--threads 1,2] [--quick] [--json FILE]

Random weights at real 0.6B dimensions unless ``--model`` names converted models (speed does not depend on values).
All precisions are loaded at once and measured in turn, round after round, so that a ratio is of one time; figures are
medians. A network that reads W bytes of weights and does A multiply-adds cannot be faster than W / bandwidth and
A / peak; both bounds are measured in the same rounds, and the best of them counts. ``share`` is the larger bound over
the measured time. With one thread, times and bounds are CPU time, which other processes disturb less; with more they
are wall time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import codec_layers, machine
from bench.codec_layers import layers, phases
from bench.probe import BUFFER_BYTES, ProductProbe, read_bandwidth
from rtts_engine.convert import convert
from rtts_engine.graph.writer import PRECISIONS, Precision
from rtts_engine.manifest import CODEC_DECODER, PREDICTOR, TALKER
from rtts_engine.model import Model, Threads
from rtts_engine.runtime import Net
from rtts_engine.sampling import Draw, choose
from tests.checkpoints import write_checkpoint

BYTES: dict[Precision, float] = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0}
PASTS = (50, 200, 500, 1000)
CHUNKS = (1, 4, 12)
STREAMS = (1, 2, 4, 8)
_SLOW_S = 2.0
"""A case is not repeated inside a round beyond this."""


@dataclass
class Case:
    """One network in one state, and what it reads and computes per call."""

    network: str
    detail: str
    call: Callable[[], object]
    weights: float
    macs: float
    frames: int = 1
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    """Of the calling thread: what one of several threads spends, spinning included."""

    def measure(self, repeats: int) -> None:
        """Some calls in a row, of which the first is not counted in the first round."""
        if not self.wall_s:
            self.call()
        for _ in range(repeats):
            cpu, wall = time.thread_time(), time.perf_counter()
            self.call()
            self.wall_s.append(time.perf_counter() - wall)
            self.cpu_s.append(time.thread_time() - cpu)
            if self.wall_s[-1] > _SLOW_S:
                break


def matrix_weights(graph: Path, heads: int | None = None) -> float:
    """Weights of all matrix products, with only one of ``heads`` heads."""
    sizes = []
    for kind, params in layers(graph):
        if kind == "Gemm" and params.get("5") == "1":  # a constant matrix
            sizes.append(int(params["8"]) * int(params["9"]))
        elif kind == "InnerProduct":
            sizes.append(int(params["2"]))
    if heads:
        sizes = sizes[: len(sizes) - heads + 1]
    return float(sum(sizes))


def codec_work(graph: Path, frames: int) -> tuple[float, float]:
    """Weights and multiply-adds of the codec decoder for so many frames."""
    columns, weights, macs = frames, 0.0, 0.0
    for kind, params in layers(graph):
        size = 0
        if kind in ("Convolution", "ConvolutionDepthWise"):
            size = int(params["6"])
        elif kind == "Gemm":
            size = int(params["8"]) * int(params["9"])
        elif kind == "InnerProduct":
            size = int(params["2"])
        columns *= phases(kind, params)
        weights += size
        macs += size * columns
    return weights, macs


DRAW = Draw()


def sample(_book: int, logits: np.ndarray) -> int:
    """A draw as in speech."""
    return choose(logits, DRAW, 0.5)


def cases(
    model: Model, pasts: tuple[int, ...], chunks: tuple[int, ...], streams: tuple[int, ...]
) -> Iterator[Case]:
    """Every network of a loaded model."""
    config = model.manifest.config.talker
    rng = np.random.default_rng(0)

    def rows(count: int) -> np.ndarray:
        return rng.normal(0, 0.3, (count, config.stack.hidden_size)).astype(np.float32)

    talker = matrix_weights(model.path / TALKER)
    for past in pasts:
        state, output = model.talker.prefill(rows(past))
        row = rows(1)[0]

        def step(state: Any = state, row: np.ndarray = row) -> object:
            return model.talker.step(state, row)

        # Attention reads past keys and values: all layers, both, fp32.
        yield Case("talker step", f"past {past}", step, talker, talker)
    groups = config.num_code_groups
    one_pass = matrix_weights(model.path / PREDICTOR, heads=groups - 1)

    def frame() -> object:
        return model.predictor.frame(output.hidden, 1, sample)

    yield Case("predictor frame", "", frame, (groups - 1) * one_pass, groups * one_pass)
    for count in streams:
        states = [model.talker.prefill(rows(50))[0] for _ in range(count)]
        inputs = rows(count)

        def together(states: Any = states, inputs: np.ndarray = inputs) -> object:
            outputs = model.talker.step_together(states, inputs)
            hidden = np.stack([o.hidden for o in outputs])
            return model.predictor.frames(hidden, [1] * len(states), [sample] * len(states))

        weights = talker + (groups - 1) * one_pass
        macs = count * (talker + groups * one_pass)
        yield Case("talker and predictor", f"{count} streams", together, weights, macs, count)
    for chunk in chunks:
        codes = rng.integers(0, model.codec.codebook_size, (chunk, groups))
        codec = model.codec.init_state()

        def decode(state: Any = codec, codes: np.ndarray = codes) -> object:
            return model.codec.decode(state, codes)

        weights, macs = codec_work(model.path / CODEC_DECODER, chunk)
        yield Case("codec frame", f"chunk {chunk}", decode, weights, macs, chunk)


class TimedExtractor:
    """An extractor that knows how long it computed. Taking caches out of it computes nothing."""

    def __init__(self, extractor: Any, spent: list[float]) -> None:
        self._extract = extractor.extract
        self._spent = spent
        self.input = extractor.input
        self.set_kvcache_max_seqlen_hint = extractor.set_kvcache_max_seqlen_hint

    def extract(self, *args: Any) -> Any:
        if len(args) == 3:
            return self._extract(*args)
        start = time.thread_time()
        found = self._extract(*args)
        self._spent.append(time.thread_time() - start)
        return found


class TimedNet:
    """An ncnn net whose extractors are timed."""

    def __init__(self, net: Any, spent: list[float]) -> None:
        self._net = net
        self._spent = spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def create_extractor(self) -> TimedExtractor:
        return TimedExtractor(self._net.create_extractor(), self._spent)


def python_ms(model: Model) -> float:
    """Milliseconds of CPU per frame of talker and predictor that ncnn does not compute in."""
    spent: list[float] = []
    rng = np.random.default_rng(0)
    width = model.manifest.config.talker.stack.hidden_size
    nets: list[Net] = [model.talker._stack._net, model.predictor._stack._net]
    originals = [net._net for net in nets]
    for net in nets:
        net._net = TimedNet(net._net, spent)
    times = []
    try:
        state, output = model.talker.prefill(rng.normal(0, 0.3, (20, width)).astype(np.float32))
        for _ in range(12):
            spent.clear()
            start = time.thread_time()
            codes = model.predictor.frame(output.hidden, 1, sample)
            output = model.talker.step(state, model.tables.frames(codes[None])[0])
            times.append(time.thread_time() - start - sum(spent))
    finally:
        for net, original in zip(nets, originals, strict=True):
            net._net = original
    return median(times[2:]) * 1e3


def measure(models: dict[str, Path], threads: list[int], quick: bool) -> dict[str, Any]:
    """Rows and bounds for every model and thread count."""
    shapes = (PASTS[:2], CHUNKS[:2], STREAMS[::3]) if quick else (PASTS, CHUNKS, STREAMS)
    rounds, repeats = (3, 3) if quick else (7, 3)
    loaded = {}
    for label, path in models.items():
        for count in threads:
            start = time.perf_counter()
            model = Model.load(path, threads=Threads(ar=count, codec=count))
            loaded[label, count] = (model, time.perf_counter() - start, list(cases(model, *shapes)))
            print(f"{label}, {count} threads: loaded in {loaded[label, count][1]:.1f} s", flush=True)
    precisions = {(model.manifest.precision, count) for (_, count), (model, _, _) in loaded.items()}
    probes = {key: ProductProbe(*key) for key in sorted(precisions)}
    buffer = np.ones(BUFFER_BYTES // 8, np.uint64)
    peaks: dict[tuple[str, int], list[float]] = {key: [] for key in probes}
    bandwidth: dict[int, list[float]] = {count: [] for count in threads}
    for _ in range(rounds):
        for count in threads:
            bandwidth[count] += [read_bandwidth(count, buffer) for _ in range(repeats)]
        for key, probe in probes.items():
            peaks[key].append(probe.gmac_per_s())
        for _, _, items in loaded.values():
            for case in items:
                case.measure(repeats)
    # The best of all rounds: what the machine can do when nobody else wants it.
    read = {count: max(values) for count, values in bandwidth.items()}
    peak = {key: max(values) for key, values in peaks.items()}
    rows = []
    for (label, count), (model, _, items) in loaded.items():
        precision = model.manifest.precision
        for case in items:
            wall_ms, cpu_ms = (median(times) * 1e3 / case.frames for times in (case.wall_s, case.cpu_s))
            bytes_ms = case.weights * BYTES[precision] / read[count] / 1e6 / case.frames
            compute_ms = case.macs / peak[precision, count] / 1e6 / case.frames
            rows.append(
                {
                    "model": label,
                    "precision": precision,
                    "threads": count,
                    "network": case.network,
                    "detail": case.detail,
                    "ms": round(cpu_ms if count == 1 else wall_ms, 2),
                    "wall_ms": round(wall_ms, 2),
                    "bytes_bound_ms": round(bytes_ms, 2),
                    "compute_bound_ms": round(compute_ms, 2),
                    "share": round(max(bytes_ms, compute_ms) / (cpu_ms if count == 1 else wall_ms), 3),
                }
            )
    return {
        "codec_layers": codec_rows({label: model for (label, _), (model, _, _) in loaded.items()}, quick),
        "bandwidth_gb_per_s": {str(count): round(value, 1) for count, value in read.items()},
        "peak_gmac_per_s": {f"{p} x{count}": round(value, 1) for (p, count), value in peak.items()},
        "rows": rows,
        "load_s": {f"{label} x{count}": round(entry[1], 2) for (label, count), entry in loaded.items()},
        "python_ms_per_frame": {
            label: round(python_ms(model), 2)
            for (label, count), (model, _, _) in loaded.items()
            if count == 1
        },
    }


def codec_rows(models: dict[str, Model], quick: bool) -> dict[str, Any]:
    """Each model's codec decoder layer by layer, one frame and several at a time."""
    forms: dict[Precision, ProductProbe] = {}
    found: dict[str, Any] = {}
    for label, model in models.items():
        precision = model.manifest.precision
        for form in {precision, "fp32" if precision == "int8" else precision}:
            forms.setdefault(form, ProductProbe(form, 1))
        peaks = {form: max(probe.gmac_per_s() for _ in range(3)) for form, probe in forms.items()}
        for frames in CHUNKS[:2]:
            found[f"{label}, chunk {frames}"] = codec_layers.measure(
                model.path / CODEC_DECODER, precision, frames, peaks, 5 if quick else 15
            )
    return found


def plot(result: dict[str, Any], path: Path) -> None:
    """Measured time and its larger bound, one panel a network."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    networks = list(dict.fromkeys(row["network"] for row in result["rows"]))
    figure, axes = plt.subplots(1, len(networks), figsize=(4.5 * len(networks), 4), squeeze=False)
    for axis, network in zip(axes[0], networks, strict=True):
        rows = [row for row in result["rows"] if row["network"] == network]
        names = [f"{row['model']} x{row['threads']}\n{row['detail']}" for row in rows]
        axis.barh(names, [row["ms"] for row in rows], color="C0", label="measured")
        bounds = [max(row["bytes_bound_ms"], row["compute_bound_ms"]) for row in rows]
        axis.barh(names, bounds, height=0.3, color="C1", label="bound")
        axis.invert_yaxis()
        axis.tick_params(axis="y", labelsize=6)
        axis.set_title(network)
        axis.set_xlabel("ms per frame")
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of each network against this machine's bounds.")
    parser.add_argument("--model", type=Path, action="append", help="a converted model; may be repeated")
    parser.add_argument("--precision", choices=PRECISIONS, action="append", help="of random 0.6B weights")
    parser.add_argument("--threads", default="1", help="thread counts, for example 1,2")
    parser.add_argument("--quick", action="store_true", help="fewer states and rounds")
    parser.add_argument("--work", type=Path, help="folder for temporary files (up to 12 GB)")
    parser.add_argument("--json", type=Path, help="default: bench/results/engine.json")
    parser.add_argument("--plot", type=Path, help="default: beside the JSON")
    arguments = parser.parse_args()
    threads = [int(count) for count in arguments.threads.split(",")]
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        models = {path.name: path for path in arguments.model or []}
        if not models:
            checkpoint = write_checkpoint(Path(folder) / "checkpoint", preset="0.6b", kind="base")
            for precision in arguments.precision or PRECISIONS:
                models[precision] = convert(checkpoint, Path(folder) / precision, precision)
        result = measure(models, threads, arguments.quick)
    for row in result["rows"]:
        print(
            f"{row['model']:12} x{row['threads']} {row['network']:16} {row['detail']:10} {row['ms']:8.2f} ms, "
            f"bounds: bytes {row['bytes_bound_ms']:6.1f}, arithmetic {row['compute_bound_ms']:6.1f}, "
            f"share {row['share']:.2f}"
        )
    for label, codec in result["codec_layers"].items():
        print(f"codec layers of {label}: peak {codec['peak_gmac_per_s']} GMAC/s")
        for row in codec["rows"]:
            rate = (
                "" if row["share"] is None else f"{row['gmac_per_s']:7.1f} GMAC/s, share {row['share']:.2f}"
            )
            name = f"{row['layer']} {row['form']}"
            print(
                f"  {name:34} x{row['count']:<2} {row['columns']:5} columns {row['ms_per_frame']:8.3f} ms {rate}"
            )
        print(
            f"  products {codec['products_ms']} ms, bound {codec['products_bound_ms']}, share {codec['share']}; "
            f"SnakeBeta {codec['snake_ms']} ms"
        )
    print(f"bandwidth {result['bandwidth_gb_per_s']} GB/s, peak {result['peak_gmac_per_s']} GMAC/s")
    print(f"outside ncnn per frame: {result['python_ms_per_frame']} ms")
    path = machine.write("engine", machine.invocation("bench.engine"), result, arguments.json)
    plot(json.loads(path.read_text()), arguments.plot or path.with_suffix(".png"))
    print(f"written to {path}")


if __name__ == "__main__":
    main()
