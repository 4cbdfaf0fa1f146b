"""A checkpoint whose shards are still being written while the next steps are taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from nbkit.runs.ranks import any_rank


class Later(Protocol):
    """Files that a thread of this rank writes."""

    def done(self) -> bool:
        """Whether this rank's are written."""
        ...

    def finish(self) -> None:
        """Wait for them; every rank calls this. What failed is raised."""
        ...


class Unfinished:
    """The folder of such a checkpoint. Until ``settle`` has named it, it does not count.

    Args:
        step: of the checkpoint.
        later: what is being written.
        publish: gives the folder its name; every rank calls it.

    """

    def __init__(self, step: int, later: Later, publish: Callable[[], None]) -> None:
        self.step, self._later, self._publish = step, later, publish

    def settle(self, *, wait: bool) -> bool:
        """Name the folder if all ranks have written; every rank calls this.

        Args:
            wait: for the slowest.

        Returns:
            whether it has its name.

        """
        if not wait and any_rank(not self._later.done()):
            return False
        self._later.finish()
        self._publish()
        return True


Write = Callable[[Path], Later | None]
