"""Ends a page that computes too long, or not at all: limits on processor time, not on the clock.

A loaded machine is slow and healthy, so the clock says nothing. What counts is the processor time
of a process and all its descendants, and whether it still grows.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import psutil

LIMIT_SECONDS = 360.0
IDLE_SECONDS = 300.0
IDLE_WORK_SECONDS = 1.0
POLL_SECONDS = 2.0


class Usage:
    """The processor time of a process tree, added up as its members come and go."""

    def __init__(self, pid: int) -> None:
        """Take the root of the tree; its time from now on counts, and all of its descendants'."""
        self.seconds = 0.0
        self._pid = pid
        self._own: dict[tuple[int, float], float] = {}
        self._added = 0.0
        self._begin: float | None = None

    def update(self) -> float:
        """Look at the tree; the seconds used so far.

        Two sums are taken and the larger one counts: what each living process says of itself and
        of the children it has waited for, and what was seen of every process, dead ones included.
        """
        living = 0.0
        for process in tree(self._pid):
            if process.pid == os.getpid():
                continue  # watching takes time too
            with suppress(psutil.Error):
                times = process.cpu_times()
                own = times.user + times.system
                living += own + getattr(times, "children_user", 0.0)
                living += getattr(times, "children_system", 0.0)
                key = (process.pid, process.create_time())
                known = self._begin is not None
                before = self._own.get(key, 0.0 if known else own)
                self._added += max(0.0, own - before)
                self._own[key] = own
        if self._begin is None:
            self._begin = living
        self.seconds = max(self.seconds, living - self._begin, self._added)
        return self.seconds


class Watch:
    """Watches a process tree from a thread, until it is left or ends the tree.

    Attributes:
        reason: one sentence once the tree was ended; None before.
        seconds: the processor seconds that the tree has used since the beginning.
    """

    def __init__(
        self,
        pid: int,
        end: Callable[[], None],
        *,
        limit_seconds: float = LIMIT_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Say what to watch.

        Args:
            pid: the root of the tree; this very process does not count, its children do.
            end: ends what is watched; called once at the most, from the watching thread.
            limit_seconds: of processor time, of the whole tree together.
            idle_seconds: of the clock; with less than a second of processor time in so long, the
                tree is taken to hang.
            poll_seconds: of the clock, between two looks.
        """
        self.reason: str | None = None
        self._usage = Usage(pid)
        self._end = end
        self._limit_seconds, self._idle_seconds = limit_seconds, idle_seconds
        self._poll_seconds = poll_seconds
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        """The processor seconds seen so far."""
        return self._usage.seconds

    def __enter__(self) -> "Watch":
        self._usage.update()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        self._thread.join()

    def _watch(self) -> None:
        worked, since = 0.0, time.monotonic()
        while not self._left.wait(self._poll_seconds):
            used = self._usage.update()
            if used - worked >= IDLE_WORK_SECONDS:
                worked, since = used, time.monotonic()
            if used > self._limit_seconds:
                self.reason = (
                    f"it has used {used:.0f} s of processor time, more than its limit of "
                    f"{self._limit_seconds:.0f} s"
                )
            elif time.monotonic() - since >= self._idle_seconds:
                self.reason = (
                    f"it hangs: it has computed for less than {IDLE_WORK_SECONDS:.0f} s in "
                    f"the last {self._idle_seconds:.0f} s"
                )
            if self.reason is not None:
                self._end()
                return


def tree(pid: int) -> list[psutil.Process]:
    """A process and its living descendants; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_descendants(pid: int) -> None:
    """End every living descendant of a process at once, and not the process itself."""
    for process in tree(pid)[1:]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
