"""The loop of a run whose actors an engine has placed; it holds tickets and futures, and no tensor.

Asked, not yet trained batches wait in order, at most η + 1 of them: the learner issues no more
(``nbkit.asynchronous.capacity``). When the generator is lost, what waits is asked again by the same
tickets, from a generator that was given the newest weights first.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbkit._inputs import check_number
from nbkit.asynchronous.engines.roles import Learned, Order


class GeneratorLostError(RuntimeError):
    """The generator's process is gone, or does not answer."""


class Engine(Protocol):
    """Two actors, a generator and a learner; a call returns at once unless it says otherwise."""

    def issue(self) -> list[list[Order]]:
        """Ask the learner for new orders, and wait for them."""
        ...

    def publish(self) -> None:
        """Send the learner's weights to the generator; orders that are asked later use them."""
        ...

    def ask(self, orders: Sequence[Order]) -> Any:
        """Ask the generator; return what ``receipt`` and ``learn`` take."""
        ...

    def receipt(self, pending: Any) -> list[int]:
        """Wait until the groups are there; return their numbers.

        Raises:
            GeneratorLostError: they will not come.

        """
        ...

    def learn(self, pending: Any) -> Learned:
        """Give the groups to the learner, and wait for its update."""
        ...

    def revive(self) -> None:
        """Wait until there is a generator again, without weights.

        Raises:
            GeneratorLostError: there is none.

        """
        ...


@dataclass
class Report:
    """What happened in a run.

    Attributes:
        updates: in order.
        asked: batches that were asked, those that were asked again included.
        restarts: generators that were lost.
        most_waiting: most batches that were asked and not yet trained.

    """

    updates: list[Learned] = field(default_factory=list)
    asked: int = 0
    restarts: int = 0
    most_waiting: int = 0

    @property
    def numbers(self) -> list[int]:
        """Tickets in the order in which they were trained on."""
        return [number for update in self.updates for number in update.numbers]


def run(
    engine: Engine,
    updates: int,
    *,
    restarts: int = 1,
    after_update: Callable[[int], None] | None = None,
) -> Report:
    """Train for a number of updates.

    Args:
        engine: with its actors.
        updates: how many.
        restarts: generators that may be lost.
        after_update: called with the number of updates that are done, after the weights were
            published and further batches asked for.

    Raises:
        GeneratorLostError: more generators were lost than `restarts`.
        ValueError: no updates, or a receipt that is not of what was asked.

    """
    check_number("updates", updates, 1)
    check_number("restarts", restarts, 0)
    report = Report()
    waiting: deque[tuple[list[Order], Any]] = deque()

    def ask(batches: Sequence[list[Order]]) -> None:
        for orders in batches:
            waiting.append((orders, engine.ask(orders)))
            report.asked += 1
        report.most_waiting = max(report.most_waiting, len(waiting))

    engine.publish()
    ask(engine.issue())
    while len(report.updates) < updates:
        orders, pending = waiting[0]
        try:
            numbers = engine.receipt(pending)
        except GeneratorLostError:
            report.restarts += 1
            if report.restarts > restarts:
                raise
            engine.revive()
            engine.publish()
            again = [batch for batch, _ in waiting]
            waiting.clear()
            ask(again)
            continue
        wanted = [ticket.number for ticket, _ in orders]
        if numbers != wanted:
            raise ValueError(f"groups {numbers} came for the tickets {wanted}")
        report.updates.append(engine.learn(pending))
        waiting.popleft()
        if len(report.updates) < updates:
            engine.publish()
            ask(engine.issue())
        if after_update is not None:
            after_update(len(report.updates))
    return report
