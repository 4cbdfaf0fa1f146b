"""The generator as the trainer sees it: a process, a pipe, and a thread that reads it.

The thread puts groups into the queue while the trainer computes. When the queue is full the thread
waits, does not confirm the delivery, and so the generator waits too.
"""

import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from torch import multiprocessing

from nbkit._inputs import check_choice
from nbkit.asynchronous.groups import Group
from nbkit.asynchronous.messages import (
    Delivery,
    Failed,
    Job,
    Orders,
    Published,
    Stored,
    WeightsWanted,
    packed,
    send,
    unpacked,
)
from nbkit.asynchronous.queue import GroupQueue, QueueClosedError
from nbkit.asynchronous.versions import Mailbox

STARTS = ("forkserver", "spawn")
LEAVES_S = 2.0  # from the signal that asks to the one that does not
LIMIT_S = 60.0


class GeneratorFailedError(RuntimeError):
    """The generator ended with an error, or died more often than is allowed."""


class Generator:
    """A generator that runs.

    Args:
        job: what it does.
        mailbox: with weights in it.
        queue: where its groups go.
        start: "forkserver" or "spawn": a clean process either way; the former imports once for
            all processes that this program starts.

    Attributes:
        deliveries: calls whose groups stand in the queue, or have stood there.
        spans: of these calls, see ``Delivery``.
        torn: publications that came torn.
        switches: changes of weights within calls.
        error: the text of what it failed with; None: it did not.
        heard: when it last said something, by the monotonic clock.

    """

    def __init__(
        self, job: Job, mailbox: Mailbox, queue: GroupQueue[Group], start: str = "forkserver"
    ) -> None:
        check_choice("start", start, STARTS)
        context: Any = multiprocessing.get_context(start)
        if start == "forkserver":
            context.set_forkserver_preload(
                ["nbkit.asynchronous.worker", type(job.model).__module__]
            )
        from nbkit.asynchronous.worker import generator_main

        self._queue = queue
        self._here, there = context.Pipe()
        self._sending = threading.Lock()
        self._wanted: int | None = None
        self.deliveries = self.torn = self.switches = 0
        self.spans: list[tuple[float, float, float]] = []
        self.error: str | None = None
        self.heard = time.monotonic()
        self._gone = False
        self._ending = threading.Event()
        self._process = context.Process(
            target=generator_main, args=(there, packed(job), mailbox), daemon=True
        )
        self._process.start()
        there.close()  # else this end would not see that the other is gone
        self._reader = threading.Thread(target=self._read, args=(self._here,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return int(self._process.pid)

    @property
    def gone(self) -> bool:
        """Whether nothing will come any more."""
        return self._gone

    def order(self, orders: Orders) -> None:
        """Ask for groups; of a generator that has died, ``gone`` becomes true."""
        self._say(orders)

    def weights_wanted(self) -> int | None:
        """The version that it asks for, once; None: it has what it needs."""
        wanted, self._wanted = self._wanted, None
        return wanted

    def published(self) -> None:
        """Say that the weights that it asked for are there."""
        self._say(Published())

    def end(self) -> None:
        """End the process; what it had delivered stands in the queue then, where there was room.

        Raises:
            GeneratorFailedError: the process or the thread does not end.

        """
        self._process.terminate()
        self._process.join(LEAVES_S)
        self._process.kill()
        self._process.join(LIMIT_S)
        self._ending.set()
        self._queue.wake()
        self._reader.join(LIMIT_S)  # the pipe has ended
        if self._process.exitcode is None or self._reader.is_alive():
            raise GeneratorFailedError(f"the generator's process {self.pid} does not end")
        self._here.close()

    def _say(self, message: object) -> None:
        try:
            with self._sending:
                send(self._here, message)
        except OSError:
            self._gone = True

    def _read(self, connection: Connection) -> None:
        try:
            while True:
                message = unpacked(connection.recv_bytes())
                self.heard = time.monotonic()
                if isinstance(message, Delivery):
                    self._store(message)
                elif isinstance(message, WeightsWanted):
                    self._wanted = message.version
                    self._queue.wake()
                elif isinstance(message, Failed):
                    self.error = message.text
        except (EOFError, OSError, QueueClosedError):
            pass  # the process has ended, or the trainer closes
        finally:
            self._gone = True
            self._queue.wake()

    def _store(self, delivery: Delivery) -> None:
        for group in delivery.groups:
            self._queue.put(group, self._ending)
        self.deliveries += 1
        self.torn += delivery.torn
        self.switches += delivery.switches
        self.spans.append(delivery.span)
        self._say(Stored())
