"""The loop on PyTorch Monarch: a generator and a learner as actors, each in a process mesh of one.

Groups and weights pass through the controller. A generator that dies fails what was asked of it; a
new one is spawned in a new process.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from nbkit._inputs import check_number
from nbkit.asynchronous.engines.controller import GeneratorLostError
from nbkit.asynchronous.engines.roles import (
    GeneratorRole,
    Learned,
    LearnerRole,
    MakeLearner,
    Order,
)


class MonarchEngine:
    """Two actors on Monarch; use it in a ``with`` statement, or close it.

    While it is open, a process that dies fails the calls that wait for it, and not this program,
    which is what Monarch does otherwise.

    Args:
        make: an importable function that returns a ``TicketTrainer``.
        arguments: of `make`.
        limit_s: of every wait.

    Raises:
        ModuleNotFoundError: Monarch is not installed.

    """

    def __init__(
        self, make: MakeLearner, arguments: Mapping[str, Any], *, limit_s: float = 600.0
    ) -> None:
        check_number("limit_s", limit_s, 0.0, open_low=True)
        self._monarch: Any = monarch_actor()
        self._limit_s = limit_s
        self._meshes: list[Any] = []
        self._loads: list[Any] = []  # futures: one that failed is told by the receipt after it
        self._hook = self._monarch.unhandled_fault_hook
        self._monarch.unhandled_fault_hook = told_by_the_call
        try:
            self._learner = self._spawn(LearnerRole, make, dict(arguments))
            self._task = self._get(self._learner.call.call_one("task"))
            self.generator = self._spawn(GeneratorRole, self._task)
        except BaseException:
            self.close()
            raise

    def _spawn(self, role: type, *arguments: Any) -> Any:
        """One actor of a role, in a process of its own."""
        mesh = self._monarch.this_host().spawn_procs(per_host={"procs": 1})
        self._meshes.append(mesh)
        name = f"{role.__name__.lower()}_{len(self._meshes)}"
        return mesh.spawn(name, forwarding_actor(self._monarch), role, *arguments)

    def issue(self) -> list[list[Order]]:
        """As in ``Engine``."""
        return self._get(self._learner.call.call_one("issue"))

    def publish(self) -> None:
        """As in ``Engine``; an actor handles its messages in the order in which they were sent."""
        self._loads = [self.generator.call.call_one("load", self.weights())]

    def ask(self, orders: Sequence[Order]) -> Any:
        """As in ``Engine``: a future, and a place for what it brings."""
        return {"future": self.generator.call.call_one("answer", list(orders)), "groups": None}

    def receipt(self, pending: Any) -> list[int]:
        """As in ``Engine``."""
        try:
            numbers, pending["groups"] = self._get(pending["future"])
        except supervision_error() as error:
            raise GeneratorLostError(f"the generator is gone: {error}") from error
        return numbers

    def learn(self, pending: Any) -> Learned:
        """As in ``Engine``."""
        return self._get(self._learner.call.call_one("learn", pending["groups"]))

    def revive(self) -> None:
        """As in ``Engine``: a new process, with a new actor."""
        self.generator = self._spawn(GeneratorRole, self._task)

    def weights(self) -> tuple[dict[str, Any], int]:
        """Of the learner, and their version."""
        return self._get(self._learner.call.call_one("weights"))

    def pid(self) -> int:
        """Of the generator's process."""
        return self._get(self.generator.call.call_one("pid"))

    def close(self) -> None:
        """End the processes; one that is gone already is passed over."""
        for mesh in self._meshes:
            try:
                mesh.stop("the run has ended").get(timeout=self._limit_s)
            except supervision_error():
                continue
        self._meshes = []
        self._monarch.unhandled_fault_hook = self._hook

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, future: Any) -> Any:
        return future.get(timeout=self._limit_s)


def forwarding_actor(monarch: Any) -> type:
    """An actor that holds a role and forwards calls to it by name."""

    class Forwarding(monarch.Actor):
        def __init__(self, role: type, *arguments: Any) -> None:
            self._role = role(*arguments)

        @monarch.endpoint
        def call(self, method: str, *arguments: Any) -> Any:
            return getattr(self._role, method)(*arguments)

    return Forwarding


def told_by_the_call(failure: object) -> None:
    """Drop a fault that reached this program: the call that waits for the process fails with it."""


def supervision_error() -> type[Exception]:
    """What a call to a process fails with that is gone; Monarch exports no public name for it."""
    from monarch._rust_bindings.monarch_hyperactor.supervision import SupervisionError

    return SupervisionError


def monarch_actor() -> Any:
    """The module ``monarch.actor``, or one sentence that says how to get it.

    Raises:
        ModuleNotFoundError: it is not installed.

    """
    try:
        import monarch.actor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Monarch is not installed: pip install 'nbkit[async]' -c constraints.txt"
        ) from error
    return monarch.actor
