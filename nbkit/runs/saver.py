"""Writes the checkpoints of a run, one after the other, and names each when it is whole."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbkit.runs.checkpoints import write_folder
from nbkit.runs.unfinished import Unfinished, Write


class Saver:
    """Of one run; every rank makes one and calls it together with the others.

    Args:
        parent: of the checkpoint folders.
        config: of the run; compared when a checkpoint is read.
        saved: called with `step` for each checkpoint that is whole.

    """

    def __init__(self, parent: Path, config: Mapping[str, Any], saved: Callable[..., None]) -> None:
        self._parent, self._config, self._saved = parent, dict(config), saved
        self._unfinished: Unfinished | None = None

    def save(
        self,
        step: int,
        *,
        state: Callable[[], dict[str, Any]] | None,
        write: Write | None = None,
        random: dict[str, Any] | None = None,
    ) -> None:
        """Write the checkpoint of a step, see ``write_folder``; the one before is whole then."""
        self.settle(wait=True)
        self._unfinished = write_folder(
            self._parent, step, self._config, state=state, write=write, random=random
        )
        if self._unfinished is None:
            self._saved(step=step)

    def settle(self, *, wait: bool) -> None:
        """Name a checkpoint that was still being written, if all ranks have, or ``wait`` for it."""
        if self._unfinished is not None and self._unfinished.settle(wait=wait):
            self._saved(step=self._unfinished.step)
            self._unfinished = None
