"""The last whole step in memory, written if the run is told to stop and the loop does not look.

A loop asks after every step whether it is to stop. An evaluation or a warm-up between two steps may
outlast the grace that Slurm gives (30 s by default), and then everything since the newest
checkpoint is lost. So a copy of the state after the last step is kept in memory, and a thread
writes it as soon as the run is told to stop.

The copy is taken at the end of a step, where the state is whole; a handler of the signal could be
anywhere in an update. It is kept by single processes only: the shards of several can be written
only if all come to the same place.
"""

import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from nbkit.runs.random_state import get_random_state

SHARE = 0.1  # of the time, at most, that copies take
FREE_SECONDS = 0.05  # a copy that is made faster is always made
MAX_BYTES = 4 * 2**30
LOOK_SECONDS = 0.2


class LastStep:
    """A copy of the state after a step, and the thread that writes it when it has to.

    Args:
        told: whether the run has been asked to stop.
        write: writes a checkpoint: the step, the state, the random generators' state.

    Attributes:
        lock: held by whoever writes a checkpoint.

    """

    def __init__(
        self,
        told: Callable[[], bool],
        write: Callable[[int, dict[str, Any], dict[str, Any]], None],
    ) -> None:
        self.lock = threading.Lock()
        self._told, self._write = told, write
        self._kept: tuple[int, bytes, dict[str, Any]] | None = None
        self._cost, self._at = 0.0, time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="last step", daemon=True)

    def start(self) -> None:
        """Begin to watch; the first copy of a process is slow and tells nothing of the others."""
        torch.save(get_random_state(), io.BytesIO())
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it is writing it writes to the end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def keep(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """Copy the state after a step, unless copies take too much time or memory."""
        begun = time.monotonic()
        if self._cost > FREE_SECONDS and begun - self._at < self._cost / SHARE:
            return
        found = state()
        if sum(tensor.nbytes for tensor in _tensors(found)) > MAX_BYTES:
            self.forget()
            self._cost = float("inf")  # it does not become smaller
            return
        copy = io.BytesIO()
        torch.save(found, copy)
        with self.lock:
            self._kept = (step, copy.getvalue(), get_random_state())
        self._at = time.monotonic()
        self._cost = self._at - begun

    def forget(self) -> None:
        """Drop the copy: a newer step is on the disk."""
        self._kept = None

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            if self._told():
                self.write()

    def write(self) -> None:
        """Write the copy, if there is one, as a checkpoint."""
        with self.lock:
            kept, self._kept = self._kept, None
            if kept is not None:
                step, copy, random = kept
                state = torch.load(io.BytesIO(copy), weights_only=True, map_location="cpu")
                self._write(step, state, random)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _tensors(value)
