"""A bounded queue of finished groups: oldest first, nothing twice, nothing dropped in silence.

Whoever puts a group in waits while the queue is full: that is the back-pressure. Whoever takes a
batch names the version of the trainer. A group whose oldest token is too far behind is refused
and counted, where the policy is to drop, and its number is kept, so that it can be asked again.
"""

import threading
import time
from typing import Generic, Protocol, TypeVar

from nbkit._inputs import check_choice, check_number

SLICE_S = 1.0  # of a wait; then it is looked whether the queue was closed
POLICIES = ("drop", "keep")


class Queued(Protocol):
    """What stands in the queue."""

    @property
    def number(self) -> int:
        """Of its ticket."""
        ...

    @property
    def oldest(self) -> int:
        """The lowest version of a token."""
        ...


G = TypeVar("G", bound=Queued)


class QueueClosedError(RuntimeError):
    """Nobody will take the group that somebody wanted to put in."""


class GroupQueue(Generic[G]):
    """Finished groups between a thread that receives and one that trains.

    Args:
        capacity: most groups; at least a batch, or nobody could ever take one.
        staleness: most versions that the oldest token of a group may be behind.
        policy: "drop" refuses what is older; "keep" hands it out all the same.

    Attributes:
        received: groups that were put in.
        dropped: groups that were refused because they were too old.
        repeated: groups that were refused because they were there already.
        full: how often somebody had to wait because the queue was full.

    """

    def __init__(self, capacity: int, staleness: int, policy: str = "drop") -> None:
        check_number("capacity", capacity, 1)
        check_number("staleness", staleness, 0)
        check_choice("policy", policy, POLICIES)
        self.capacity, self.staleness, self.policy = capacity, staleness, policy
        self.received = self.dropped = self.repeated = self.full = 0
        self._groups: dict[int, G] = {}
        self._refused: list[int] = []
        self._news = threading.Condition()
        self._woken = self._closed = False

    def __len__(self) -> int:
        with self._news:
            return len(self._groups)

    def numbers(self) -> set[int]:
        """Of the groups that wait here."""
        with self._news:
            return set(self._groups)

    def put(self, group: G, given_up: threading.Event | None = None) -> bool:
        """Put a group in; wait while there is no room.

        Args:
            group: what is put in.
            given_up: set it, and ``wake``, to end the wait; None: only ``close`` ends it.

        Returns:
            False: a group of this number is here already, and this one was refused.

        Raises:
            QueueClosedError: the queue was closed, or there is no room and the wait was given up.

        """
        with self._news:
            if len(self._groups) >= self.capacity:
                self.full += 1
            while len(self._groups) >= self.capacity and not self._closed:
                if given_up is not None and given_up.is_set():
                    raise QueueClosedError(f"there is no room for group {group.number}")
                self._news.wait(SLICE_S)
            if self._closed:
                raise QueueClosedError(f"group {group.number} came after the queue was closed")
            if group.number in self._groups:
                self.repeated += 1
                return False
            self._groups[group.number] = group
            self.received += 1
            self._news.notify_all()
            return True

    def take(self, count: int, version: int, limit_s: float) -> list[G] | None:
        """The `count` oldest groups, by number, as soon as there are so many.

        Args:
            count: groups.
            version: of the trainer.
            limit_s: of the wait.

        Returns:
            None: time was up, or ``wake`` was called; nothing was taken then.

        Raises:
            ValueError: more than fit into the queue.

        """
        if count > self.capacity:
            raise ValueError(
                f"count is {count}, but the queue holds at most {self.capacity} groups: make "
                "capacity at least a batch"
            )
        deadline = time.monotonic() + limit_s
        with self._news:
            while True:
                self._refuse(version)
                if len(self._groups) >= count:
                    chosen = sorted(self._groups)[:count]
                    taken = [self._groups.pop(number) for number in chosen]
                    self._news.notify_all()
                    return taken
                left = deadline - time.monotonic()
                if self._woken or self._closed or left <= 0 or self._refused:
                    self._woken = False
                    return None
                self._news.wait(min(left, SLICE_S))

    def refused(self) -> list[int]:
        """Numbers of groups that were too old, since the last call: ask for them again."""
        with self._news:
            numbers, self._refused = self._refused, []
            return numbers

    def wake(self) -> None:
        """End the wait of ``take``: there is something else to be done."""
        with self._news:
            self._woken = True
            self._news.notify_all()

    def close(self) -> None:
        """End all waits; nothing can be put in any more."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _refuse(self, version: int) -> None:
        if self.policy == "keep":
            return
        old = [n for n, group in self._groups.items() if version - group.oldest > self.staleness]
        for number in sorted(old):
            del self._groups[number]
        self.dropped += len(old)
        self._refused += sorted(old)
        if old:
            self._news.notify_all()
