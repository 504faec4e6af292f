"""The one module that calls ncnn, and the rules that keep it from crashing or lying.

1. A Mat made from a numpy array borrows its memory without keeping it alive, and a layer that works in place on a
   borrowed Mat crashes the process: arrays are held and cloned into owned Mats before they are fed.
2. A key/value cache is opaque: it is extracted with ``type=1`` and fed back untouched, and one cache may not be
   continued twice.
3. Extracting an intermediate that a light-mode run has already consumed crashes: a run asks only for graph outputs,
   each once a pass.
4. The wheels before 1.0.20261020 hold the GIL while they compute, so that threads cannot overlap; see
   ``check_environment``.
5. A net's thread count is fixed when its weights are loaded.
6. ncnn finds a blob's name by comparing it with all others: blobs go by number. An extractor is an array of all blobs:
   a loop over one net keeps it (``Run.again``).

Between two passes everything is out of the processor's caches, weights have gone through them: there, each kind of call
costs some 20 microseconds, whatever it does. What happens once a code is written with few of them.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import ncnn
import numpy as np
import numpy.typing as npt

from rtts_engine.errors import ModelError, RuntimeSetupError, not_finite
from rtts_engine.graph.writer import Precision

F32 = npt.NDArray[np.float32]

MINIMUM_NCNN = 20261020
"""First ncnn wheel that releases the GIL in ``extract`` (measured); the build date in its version."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A value that stays inside ncnn: a cache, or a state that goes back in as it came out."""

    mat: Any


class Row:
    """A graph input of fixed shape that is filled anew before every pass.

    A layer that works in place copies a value that others hold too, so that ncnn never writes here.
    """

    __slots__ = ("mat", "values")

    def __init__(self, rows: int, width: int) -> None:
        self.mat: Any = owned(np.zeros((rows, width), np.float32)).mat
        self.values: F32 = np.asarray(self.mat)
        """(rows, width): write here."""


Feed = F32 | Handle | Row
Numbered = tuple[tuple[int, Any], ...]
"""Numbers of blobs, and the values for them; see ``Net.numbered``."""


def owned(array: npt.ArrayLike) -> Handle:
    """An owned copy of a float32 array of 1 to 3 axes."""
    held = np.ascontiguousarray(array, dtype=np.float32)
    return Handle(ncnn.Mat(held).clone())


def to_numpy(handle: Handle) -> F32:
    """A copy of the plain value behind a handle (not for caches)."""
    return np.array(handle.mat)


_X86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")

EMPTY = Handle(ncnn.Mat())
"""The cache before the first position."""


def empty_caches(count: int) -> list[Handle]:
    """So many caches before the first position, for ``Run.advance``."""
    return [Handle(ncnn.Mat()) for _ in range(count)]


class Net:
    """One loaded graph. Runs are independent, so several threads may run one net at the same time."""

    def __init__(
        self, stem: Path, *, precision: Precision = "fp32", threads: int = 1, packing: bool = True
    ) -> None:
        """Load ``stem.param`` and ``stem.bin``.

        Args:
            stem: path without suffix.
            precision: how weights are kept and multiplied; must be the one that the graph was written with.
            threads: number of threads of every run.
            packing: ncnn may lay out four or eight rows side by side. Without, a row is computed in the same order
                whatever stands beside it.

        Raises:
            ModelError: a file is absent or ncnn refuses it.
        """
        self.stem = stem
        self.threads = threads
        self._net = ncnn.Net()
        option = self._net.opt
        option.num_threads = threads
        option.use_vulkan_compute = False
        option.lightmode = True
        option.use_packing_layout = packing
        # fp16 arithmetic loses accuracy where it exists; fp16 storage is what precision="fp16" asks for.
        option.use_fp16_arithmetic = False
        option.use_fp16_packed = False
        # Products of an int8 graph that are wider want it, too; only on x86 does it leave all other layers alone.
        option.use_fp16_storage = precision == "fp16" or (precision == "int8" and _X86)
        option.use_bf16_storage = precision == "bf16"
        option.use_bf16_packed = precision == "bf16"
        graph, weights = stem.with_suffix(".param"), stem.with_suffix(".bin")
        for path in (graph, weights):
            if not path.is_file():
                raise ModelError(f"{path}: no such file; convert the checkpoint again")
        if self._net.load_param(_native(graph)) != 0:
            raise ModelError(f"{graph}: ncnn cannot read this graph; convert the checkpoint again")
        if self._net.load_model(_native(weights)) != 0:
            raise ModelError(
                f"{weights}: ncnn cannot read these weights; free memory, or convert the checkpoint again"
            )
        self.numbers: dict[str, int] = {blob.name: i for i, blob in enumerate(self._net.blobs())}
        """Of every blob, by name."""
        self._stale: dict[str, list[int]] = {}

    def number(self, name: str) -> int:
        """Of a blob. Raises ModelError: there is none of this name."""
        found = self.numbers.get(name)
        if found is None:
            raise self.unknown(name)
        return found

    def unknown(self, name: str) -> ModelError:
        """The error for a blob that is not there."""
        return ModelError(f"{self.stem}: no blob {name!r} in the graph; convert the checkpoint again")

    def stale(self, name: str) -> list[int]:
        """Blobs that an earlier pass of the same ``Run`` may have left, and that ``name`` would be computed from.

        Light mode drops a blob when it was read. What is left is ``name`` itself, and branches that only lead to other
        outputs: the next pass would take those for its own.
        """
        if name not in self._stale:
            layers, blobs = self._net.layers(), self._net.blobs()
            needed, found, path = set(), [self.number(name)], [self.number(name)]
            while path:
                producer = blobs[path.pop()].producer
                if producer not in needed:
                    needed.add(producer)
                    path += layers[producer].bottoms
            for layer in (layers[i] for i in needed):
                branches = [blobs[top].consumer in needed for top in layer.tops]
                if layer.type == "Split" and not all(branches):
                    found += [top for top, ours in zip(layer.tops, branches, strict=True) if ours]
            self._stale[name] = found
        return self._stale[name]

    def numbered(self, feeds: Mapping[str, Handle | Row]) -> Numbered:
        """``feeds`` for ``Run.put`` and ``Run.advance``: what goes in again and again is looked up once."""
        return tuple((self.number(name), feed.mat) for name, feed in feeds.items())

    def start(self, *, cache_capacity: int = 0) -> Run:
        """A pass in steps; ``cache_capacity`` as in ``run``."""
        return Run(self, cache_capacity)

    def run(
        self,
        feeds: Mapping[str, Feed],
        outputs: Sequence[str] = (),
        states: Sequence[str] = (),
        *,
        opaque: bool = False,
        cache_capacity: int = 0,
    ) -> tuple[list[F32], list[Handle]]:
        """One pass.

        Args:
            feeds: every graph input by name.
            outputs: graph outputs wanted as numpy arrays; only the layers they need are computed.
            states: graph outputs wanted as handles, to be fed back.
            opaque: states are key/value caches in ncnn's private layout.
            cache_capacity: positions to reserve in a cache that this run creates.

        Returns:
            Arrays in the order of ``outputs``, handles in the order of ``states``.

        Raises:
            ModelError: the graph has no such input, ran out of memory, or gave NaN or infinity.
        """
        run = self.start(cache_capacity=cache_capacity)
        run.feed(feeds)
        arrays = []
        for name in outputs:
            array = run.array(name)
            if not np.isfinite(array).all():
                raise not_finite(f"{self.stem}: output {name!r}")
            arrays.append(array)
        return arrays, [run.state(name, opaque=opaque) for name in states]


class Run:
    """A pass in steps: feed, compute up to a blob, feed what comes in its place, go on.

    Only the layers that a wanted blob needs are computed, each once. A blob may be asked for until a layer that reads
    it was computed (rule 3), and each graph output once. ``again`` begins the next pass.
    """

    def __init__(self, net: Net, cache_capacity: int) -> None:
        """Use ``Net.start``."""
        self._net = net
        self._extractor = net._net.create_extractor()
        if cache_capacity:
            self._extractor.set_kvcache_max_seqlen_hint(cache_capacity)

    def again(self, outputs: Sequence[str]) -> None:
        """Begin another pass for ``outputs``: every graph input has to be fed anew."""
        for name in outputs:
            for number in self._net.stale(name):
                self._extractor.input(number, EMPTY.mat)

    def feed(self, feeds: Mapping[str, Feed]) -> None:
        """Set graph inputs, or blobs in place of the layers that would compute them. Raises ModelError: unknown."""
        put, numbers = self._extractor.input, self._net.numbers
        try:
            for name, feed in feeds.items():
                # The extractor holds a value that has been put in.
                put(numbers[name], owned(feed).mat if isinstance(feed, np.ndarray) else feed.mat)
        except KeyError:
            raise self._net.unknown(name) from None

    def array(self, name: str) -> F32:
        """A blob, which may hold NaN or infinity; not to be written to. Raises ModelError: out of memory."""
        code, mat = self._extractor.extract(self._net.number(name))
        if code != 0:
            raise self._failed(name, code)
        return np.asarray(mat)

    def state(self, name: str, *, opaque: bool) -> Handle:
        """A blob as a handle; ``opaque``: a cache in ncnn's private layout. Raises ModelError: out of memory."""
        mat = ncnn.Mat()
        code = self._extractor.extract(self._net.number(name), mat, 1 if opaque else 0)
        if code != 0:
            raise self._failed(name, code)
        return Handle(mat)

    def put(self, inputs: Numbered) -> None:
        """``feed`` of what has been numbered."""
        put = self._extractor.input
        for number, mat in inputs:
            put(number, mat)

    def advance(self, caches: Numbered) -> None:
        """Caches, which were fed to this pass, become those that it gave as these blobs; they are the caller's own.

        Raises ModelError: out of memory.
        """
        extract = self._extractor.extract
        for number, mat in caches:
            code = extract(number, mat, 1)
            if code != 0:
                raise self._failed(f"number {number}", code)

    def _failed(self, name: str, code: int) -> ModelError:
        return ModelError(f"{self._net.stem}: blob {name!r} failed with ncnn code {code} (out of memory?)")


def _native(path: Path) -> str | bytes:
    """A path as ncnn takes it: where names are bytes, any bytes."""
    return str(path) if os.name == "nt" else os.fsencode(path)


def ncnn_version() -> str:
    """Version of the installed wheel, for example ``1.0.20261020``."""
    try:
        return metadata.version("ncnn")
    except metadata.PackageNotFoundError:  # built from source and put on the path
        return str(ncnn.__version__)


def check_environment() -> None:
    """Make sure that this ncnn lets other threads run while it computes.

    Raises:
        RuntimeSetupError: the wheel is older than ``MINIMUM_NCNN`` and the self-check confirms that it does not.
    """
    version = ncnn_version()
    build = version.rsplit(".", 1)[-1]
    if build.isdigit() and int(build) >= MINIMUM_NCNN:
        return
    if not releases_gil():
        raise RuntimeSetupError(
            f"ncnn {version} keeps Python's interpreter lock while it computes, so sound would stutter; "
            f"install a newer one: pip install 'ncnn>=1.0.{MINIMUM_NCNN}'"
        )


def releases_gil() -> bool:
    """Whether another Python thread gets to run while a net computes (some tenths of a second)."""
    # Long enough on a fast machine for several turns of a thread that Windows wakes every 16 ms.
    size, depth = 512, 64
    lines = ["7767517", f"{depth + 1} {depth + 1}", "Input x 0 1 b0"]
    gemm = f"2=0 3=1 4=0 5=1 6=1 7=0 8={size} 9={size} 10=-1"
    lines += [f"Gemm g{i} 1 1 b{i} b{i + 1} {gemm}" for i in range(depth)]
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.load_param_mem("\n".join(lines) + "\n")
    net.load_model(ncnn.DataReaderFromEmpty())
    feed = owned(np.zeros((size, size), np.float32))
    turns, stop, running = 0, threading.Event(), threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            running.set()
            time.sleep(1e-4)

    counter = threading.Thread(target=count, name="rtts-gil-check", daemon=True)
    counter.start()
    try:
        running.wait()
        extractor = net.create_extractor()
        extractor.input("b0", feed.mat)
        before = turns
        extractor.extract(f"b{depth}")
        return turns - before >= 3
    finally:
        stop.set()
        counter.join()
