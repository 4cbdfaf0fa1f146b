"""How a run is stopped: who asks, what all ranks agree on, the last step that is kept for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from nbkit.runs.last_step import LastStep
from nbkit.runs.preemption import Preempted, Preemption
from nbkit.runs.ranks import any_rank, launched, world_size

Write = Callable[[int, dict[str, Any], dict[str, Any]], None]


class Stopping:
    """Of one run.

    Args:
        stop_file: its existence asks to stop; None: signals only.

    """

    def __init__(self, stop_file: Path | None) -> None:
        self._told = Preemption(stop_file)
        self._last_step: LastStep | None = None

    def begin(self, write: Write) -> None:
        """Take over the signals; a single process also keeps its last step.

        Args:
            write: writes a checkpoint: the step, the state, the random generators' state.

        """
        self._told.install()
        if world_size() == 1:
            self._last_step = LastStep(lambda: self._told.reason is not None, write)
            self._last_step.start()

    def end(self) -> None:
        """Give the signals back."""
        self._told.restore()
        if self._last_step is not None:
            self._last_step.close()

    def ask(self, reason: str) -> None:
        """Ask from inside, as a signal would."""
        self._told.ask(reason)

    def asked(self) -> bool:
        """Whether any rank was asked; every rank calls this."""
        return any_rank(self._told.reason is not None)

    def leave(self, step: int) -> NoReturn:
        """Leave the program; the newest checkpoint is that of a step, 0: there is none."""
        reason = self._told.reason or "another rank was told"
        raise Preempted(reason, step, launched=launched())

    def keep(self, step: int, state: Callable[[], dict[str, Any]]) -> None:
        """Copy the state after a step, where that is done."""
        if self._last_step is not None:
            self._last_step.keep(step, state)

    def write_kept(self) -> None:
        """Write the copy, if there is one."""
        if self._last_step is not None:
            self._last_step.write()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around the writing of a checkpoint, which makes the copy needless."""
        if self._last_step is None:
            yield
            return
        with self._last_step.lock:
            self._last_step.forget()
            yield
