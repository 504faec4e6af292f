"""Training steps as CUDA graphs: one launch instead of thousands. On a CPU the step simply runs."""

import logging
from collections.abc import Callable

import torch

log = logging.getLogger(__name__)


class Step:
    """A training step that is recorded on its first calls and replayed afterwards.

    `run` must read its inputs from fixed tensors, use fixed shapes, and call no function that waits for the device.
    `clear` drops the gradients; the gradients of the recording become part of the graph.
    """

    def __init__(
        self, run: Callable[[], None], clear: Callable[[], None], device: torch.device, warm_up: int = 3
    ) -> None:
        self._run, self._clear, self._cuda, self._warm_up = run, clear, device.type == "cuda", warm_up
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if not self._cuda:
            self._clear()
            self._run()
            return
        if self._graph is None:
            self._record()
        else:
            self._graph.replay()

    def _record(self) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self._warm_up):
                self._clear()
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._clear()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._run()
        except RuntimeError:
            log.exception("the step cannot be recorded and runs step by step")
            torch.cuda.synchronize()
            self._cuda = False
            self._clear()
            return
        self._graph = graph
        graph.replay()
        log.info("graph recorded, %.1f GB in use", torch.cuda.max_memory_allocated() / 1e9)
