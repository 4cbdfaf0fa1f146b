"""CUDA graphs: a decode step recorded once and replayed without Python.

A decode step of a small model launches a few hundred kernels of a few microseconds each, and
Python cannot launch them that fast. A graph holds the launches with their addresses, and one call
replays them all. So all that a step touches must stay where it is: cache, state and weights do.
"""

from collections.abc import Callable
from typing import Any

import torch

WARM_UP = 2


class GraphedStep:
    """A function without arguments, recorded at its first call and replayed after.

    The function is run a few times before it is recorded (kernels are compiled and chosen then),
    so it must be harmless to run on idle slots.

    Args:
        function: works on fixed tensors of one CUDA device only.
        pool: memory pool that graphs share, of ``torch.cuda.graph_pool_handle``.

    """

    def __init__(self, function: Callable[[], None], pool: Any = None) -> None:
        self._function, self._pool = function, pool
        self._graph: torch.cuda.CUDAGraph | None = None

    def record(self) -> None:
        """Warm up and record; nothing that is recorded is executed by it."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._function()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._function()
        self._graph = graph

    def __call__(self) -> None:
        """Replay."""
        if self._graph is None:
            raise RuntimeError("GraphedStep was replayed before it was recorded; call record()")
        self._graph.replay()
