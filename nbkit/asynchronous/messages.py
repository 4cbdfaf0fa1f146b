"""What trainer and generator say to each other: plain data over one pipe, a message at a time.

The trainer orders groups; the generator answers with all groups of a call in one message, so that a
generator that dies has delivered a call whole or not at all. Weights do not go this way.
"""

import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from nbkit.asynchronous.groups import Group, Order, Task


class SilenceError(RuntimeError):
    """The other process has said nothing for as long as it may."""


@dataclass(frozen=True)
class Job(Task):
    """A task for a process of its own; the reward function is importable by name.

    Attributes:
        in_flight: take new weights between two decode steps; else between two calls.
        cache: what that does to the KV cache, see ``nbkit.asynchronous.in_flight``.
        reward_limit_s: of the reward function, for one group; None: there is none.
        idle_s: without a word from the trainer the generator ends itself.
        threads: of torch, as in the trainer.
        device: where the generator's model lies; None: where the trainer's does.

    """

    in_flight: bool
    cache: str
    reward_limit_s: float | None
    idle_s: float
    threads: int
    device: str | None


@dataclass(frozen=True)
class Orders:
    """To the generator: groups that are wanted, each with its problem."""

    wanted: list[Order]


@dataclass(frozen=True)
class Stored:
    """To the generator: its last delivery stands in the queue."""


@dataclass(frozen=True)
class Published:
    """To the generator: the weights that it asked for were published again."""


@dataclass(frozen=True)
class Delivery:
    """From the generator: the groups of one call.

    Attributes:
        groups: by ticket.
        span: seconds of the system's monotonic clock at which the call began, sampling ended and
            scoring ended.
        switches: changes of weights within the call.
        torn: publications that came torn, since the last delivery.

    """

    groups: list[Group]
    span: tuple[float, float, float]
    switches: int
    torn: int


@dataclass(frozen=True)
class WeightsWanted:
    """From the generator: this version is not there, or not whole."""

    version: int


@dataclass(frozen=True)
class Failed:
    """From the generator: it ends with an error, whose text this is."""

    text: str


def packed(thing: object) -> bytes:
    """A message as bytes; tensors by value, not as shared memory of whoever sends.

    Raises:
        ValueError: something in it cannot travel.

    """
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{type(thing).__name__} cannot travel to another process: {error}. Define the reward "
            "function, the problems' class and the vocabulary in a module, not in a cell"
        ) from error


def unpacked(data: bytes) -> Any:
    """What ``packed`` made; from our own parent or child, over a pipe that only the two have."""
    return pickle.loads(data)


def send(connection: Connection, thing: object) -> None:
    """Send one message; blocks while the other end does not read."""
    connection.send_bytes(packed(thing))


def receive(connection: Connection, limit_s: float) -> Any:
    """The next message.

    Raises:
        SilenceError: none came in time.
        EOFError: the other end is gone.

    """
    if not connection.poll(limit_s):
        raise SilenceError(f"no message in {limit_s:g} s")
    return unpacked(connection.recv_bytes())
