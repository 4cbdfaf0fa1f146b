"""What a learner's process may use: processor time, memory, packages. Never the clock."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bookkit.authoring.watch import Usage
from nbkit.rewards._view import View
from nbkit.rewards.sandbox import Limits

# Of the sandbox's clock limit nothing is used here; it also sets each process's own limit on
# processor time, which ends a process that the judge's meter has overlooked.
SPARE_SECONDS = 60.0
IDLE_SECONDS = 180.0  # of the clock, without a second of processor time: it hangs
# A build is written, not imported: these appear empty to the learner's process.
HIDDEN = (
    "Box2D",
    "pettingzoo",
    "gymnasium",
    "gymnasium_robotics",
    "stable_baselines3",
    "trl",
    "mujoco",
    "accelerate",
)


@dataclass(frozen=True)
class Budget:
    """What all of a build may use.

    Attributes:
        processor_seconds: of the learner's process and all that it starts.
        memory_mb: MiB of resident memory, and of address space of each process.
        processes: with threads.

    """

    processor_seconds: float
    memory_mb: int = 6144
    processes: int = 64

    def limits(self) -> Limits:
        """The sandbox's limits."""
        return Limits(
            self.processor_seconds + SPARE_SECONDS,
            self.memory_mb * 2**20,
            processes=self.processes,
            files=512,
        )


@cache
def view() -> View:
    """The installed packages, without those that hold what a build asks for, and without nbkit."""
    packages = Path(np.__file__).parents[1]
    hidden = [packages / name for name in HIDDEN if (packages / name).is_dir()]
    if (packages / "nbkit").is_dir():  # installed as a copy, not in place
        hidden += [packages / "nbkit", packages / "bookkit"]
    return View((str(packages),), tuple(map(str, hidden)))


def paths() -> list[str]:
    """What the learner's process puts on its path."""
    return list(view().shown)


class Meter:
    """The processor seconds of a tree of processes since the meter began.

    Args:
        pid: its root.
        clock: seconds that only grow.

    """

    def __init__(self, pid: int, clock: Callable[[], float]) -> None:
        self._usage, self._clock = Usage(pid), clock
        self._usage.update()
        self._worked, self._since, self._looked = 0.0, clock(), clock()

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        return self._usage.update()

    def hangs(self) -> bool:
        """Whether the tree has computed for less than a second in `IDLE_SECONDS` of the clock."""
        now, used = self._clock(), self._usage.seconds
        if used - self._worked >= 1.0:
            self._worked, self._since = used, now
        return now - self._since >= IDLE_SECONDS

    def begin_to_wait(self) -> None:
        """From here on it may hang; before, nothing was asked of it."""
        self._worked, self._since = self._usage.seconds, self._clock()

    def excuse(self, seconds: float) -> None:
        """It has waited so long for the judge."""
        self._since += seconds

    def due(self, every: float = 0.5) -> bool:
        """Whether it is time for another look; looking takes time too."""
        now = self._clock()
        if now - self._looked < every:
            return False
        self._looked = now
        return True
