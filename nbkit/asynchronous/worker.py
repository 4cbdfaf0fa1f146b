"""The generator's own process: orders in, finished groups out, new weights on the way.

It has no state that the trainer would miss: what it was working on when it dies is asked again.
It ends when the trainer does, because its end of the pipe closes then.
"""

import signal
import time
import traceback
from collections import deque
from multiprocessing.connection import Connection

import torch

from nbkit.asynchronous.groups import Order, scored_call, split
from nbkit.asynchronous.messages import (
    Delivery,
    Failed,
    Job,
    Orders,
    Published,
    SilenceError,
    Stored,
    WeightsWanted,
    receive,
    send,
    unpacked,
)
from nbkit.asynchronous.sampler import Sampler
from nbkit.asynchronous.tickets import seeds_of
from nbkit.asynchronous.versions import Mailbox, TornWeightsError

ATTEMPTS = 5  # to receive one version


class Worker:
    """A generator, once its process runs.

    Args:
        connection: to the trainer.
        job: what to do.
        mailbox: where weights come from.

    """

    def __init__(self, connection: Connection, job: Job, mailbox: Mailbox) -> None:
        self.connection, self.job, self.mailbox = connection, job, mailbox
        self.sampler = Sampler(job.model, job.vocabulary, job.config, cache=job.cache)
        self.orders: deque[Order] = deque()
        self.version = -1
        self.torn = 0
        self._answered = self._stored = False
        self._damaged = -1  # the newest version that came torn in the middle of a call

    def serve(self) -> None:
        """Work until the trainer is gone.

        Raises:
            EOFError: it is.
            SilenceError: it has said nothing for too long.
            TornWeightsError: a version was asked for again and again, and never came whole.

        """
        while True:
            self._read(block=not self.orders)
            if self.orders:
                self._call()

    def _call(self) -> None:
        """One call of the sampler: at most a batch of groups, the oldest orders first."""
        count = min(len(self.orders), self.job.config.prompts)
        taken = [self.orders.popleft() for _ in range(count)]
        self._weights(max(ticket.version for ticket, _ in taken))
        began = time.monotonic()
        made, versions = self.sampler.sample(
            [problem for _, problem in taken],
            seeds_of(ticket for ticket, _ in taken),
            self.version,
            self._newer if self.job.in_flight else None,
        )
        sampled = time.monotonic()
        parts = split(made, versions, self.job.config.group_size)
        groups = scored_call(
            taken, parts, self.job.vocabulary, self.job.reward_fn, self.job.reward_limit_s
        )
        span = began, sampled, time.monotonic()
        send(self.connection, Delivery(groups, span, self.sampler.switches, self.torn))
        self.torn, self._stored = 0, False
        while not self._stored:  # the queue is full as long: sleep in the kernel
            self._read(block=True)

    def _weights(self, wanted: int) -> None:
        """Hold the newest weights, which are of the version `wanted` at least."""
        for _ in range(ATTEMPTS):
            newest = self.mailbox.newest
            if wanted <= newest == self.version:
                return
            if newest >= wanted:
                try:
                    self.version = self.mailbox.receive(self.job.model)
                    return
                except TornWeightsError:
                    self.torn += 1
            self._answered = False
            send(self.connection, WeightsWanted(wanted))
            while not self._answered:
                self._read(block=True)
        raise TornWeightsError(
            f"weights of version {wanted} were asked for {ATTEMPTS} times and did not come whole"
        )

    def _newer(self) -> int | None:
        """Between two decode steps: load newer weights, if they are there and whole."""
        newest = self.mailbox.newest
        if newest <= max(self.version, self._damaged):
            return None
        try:
            self.version = self.mailbox.receive(self.job.model)
        except TornWeightsError:
            self.torn += 1
            self._damaged = newest
            return None
        self.sampler.reload()
        return self.version

    def _read(self, *, block: bool) -> None:
        """Take in what the trainer has said; wait for a word first, if `block`."""
        while block or self.connection.poll(0):
            message = receive(self.connection, self.job.idle_s)
            block = False
            if isinstance(message, Orders):
                self.orders.extend(message.wanted)
            elif isinstance(message, Stored):
                self._stored = True
            elif isinstance(message, Published):
                self._answered = True


def generator_main(connection: Connection, packed_job: bytes, mailbox: Mailbox) -> None:
    """What the process runs; an error travels to the trainer before it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted cell stops the trainer, not this
    try:
        job: Job = unpacked(packed_job)
        torch.set_num_threads(job.threads)
        if job.device is not None:
            job.model.to(job.device)
            if torch.device(job.device).type == "cuda":  # where kernels and graphs are launched
                torch.cuda.set_device(job.device)
        Worker(connection, job, mailbox).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError, SilenceError):
        return  # the trainer has ended, or has forgotten this process; it starts another if need be
    except Exception:
        try:
            send(connection, Failed(traceback.format_exc()[-8000:]))
        except OSError:
            return
