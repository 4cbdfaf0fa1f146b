"""GRPO whose completions come from another process, which may be some versions behind.

An update is: ask for what the rule of admission allows, wait for the oldest batch of groups, learn
from it, publish the new weights. With staleness 0 nothing overlaps, and the run equals that of
``GRPOTrainer`` to the bit. With staleness η the generator works up to η batches ahead.
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch

from nbkit.asynchronous.generator import Generator, GeneratorFailedError
from nbkit.asynchronous.groups import Group
from nbkit.asynchronous.learner import TicketTrainer
from nbkit.asynchronous.messages import Job, Orders
from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.plain_model import without_patches
from nbkit.asynchronous.queue import GroupQueue
from nbkit.asynchronous.tickets import Ticket
from nbkit.asynchronous.timeline import Span
from nbkit.asynchronous.versions import Mailbox
from nbkit.parallel import Parallel
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.scoring import RewardFunction


class AsyncGRPOTrainer(TicketTrainer):
    """A run with a generator of its own; use it in a ``with`` statement, or close it.

    The generator starts at the first step, and again where it died, with what is open then.

    Args:
        model: trained in place; the generator gets a copy.
        vocabulary: travels to the generator.
        problems: of a class that can be imported.
        reward_fn: importable by name; called in the generator, with one group at a time.
        config: of the algorithm; without dynamic sampling.
        options: how far the two may be apart.
        reference: as for ``GRPOTrainer``.
        generator: source of all randomness; all of it is drawn here.
        parallel: of one device, see ``TicketTrainer``.

    Attributes:
        restarts: of the generator, since this object was made.
        resent: publications that were made again because they came torn, or not at all.

    """

    description = "asynchronous GRPO"

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction,
        config: GRPOConfig,
        options: AsyncOptions | None = None,
        *,
        reference: LanguageModel | None = None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        self.options = options or AsyncOptions()
        room = self.options.room(config)
        super().__init__(
            model, vocabulary, problems, reward_fn, config,
            staleness=self.options.staleness, reference=reference, generator=generator,
            parallel=parallel,
        )  # fmt: skip
        self._room = room
        self.queue = self._new_queue()
        self.mailbox: Mailbox | None = None
        self.process: Generator | None = None
        self.restarts = self.resent = 0
        self._failures = 0  # restarts since the last delivery
        self._counted: Metrics = {}
        self._spans: list[Span] = []

    def step(self) -> Metrics:
        """Take the oldest batch of groups, learn from it, publish, ask for more."""
        self._start()
        self._ask(self.ledger.issue(self.done))
        begin = time.monotonic()
        groups = self._gather()
        taken = time.monotonic()
        metrics = self.learn(
            groups,
            {
                "seconds/wait": taken - begin,
                "queue_length": float(len(self.queue)),
                **self._counts(),
            },
        )
        learned = time.monotonic()
        self._publish()
        published = time.monotonic()
        self._ask(self.ledger.issue(self.done))
        moments = (begin, taken, learned, published)
        for what, span in zip(("wait", "learn", "publish"), pairwise(moments), strict=True):
            self._spans.append(Span("trainer", what, *span))
        return metrics

    def timeline(self) -> list[Span]:
        """What trainer and generator did since this object was made."""
        running = [] if self.process is None else _spans(self.process)
        return sorted([*self._spans, *running], key=lambda span: span.begin)

    def close(self) -> None:
        """End the generator; a later step starts another one."""
        self.queue.close()
        if self.process is not None:
            self._end_process()
        self.queue = self._new_queue()
        self._counted |= {"groups_dropped": 0.0, "queue_full": 0.0}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned; a generator that runs is ended."""
        self.close()
        self.mailbox = None  # versions may begin at a lower number again
        super().load_state_dict(state)

    def plain_config(self) -> dict[str, Any]:
        """As in ``Trainer``; how stale groups may be belongs to it."""
        return super().plain_config() | {"staleness": self.options.staleness}

    # ---- the generator

    def _new_queue(self) -> GroupQueue[Group]:
        return GroupQueue(self._room, self.options.staleness, self.options.policy)

    def _start(self) -> None:
        """Have a generator that knows what is open."""
        if self.process is not None:
            return
        if self.mailbox is None:
            self.mailbox = Mailbox(self.model)
        self._publish()
        options = self.options
        job = Job(
            without_patches(self.model), self.vocabulary, self.reward_fn, self.config,
            in_flight=options.in_flight, cache=options.cache,
            reward_limit_s=options.reward_limit_s, idle_s=options.idle_s,
            threads=torch.get_num_threads(), device=options.device,
        )  # fmt: skip
        self.process = Generator(job, self.mailbox, self.queue, options.start)
        here = self.queue.numbers()
        self._ask([ticket for ticket in self.ledger.open() if ticket.number not in here])

    def _ask(self, tickets: list[Ticket]) -> None:
        if tickets and self.process is not None:
            self.process.order(Orders([(t, self.problems[t.prompt]) for t in tickets]))

    def _publish(self) -> None:
        if self.mailbox is not None:
            self.mailbox.publish(self.model, self.done)

    def _gather(self) -> list[Group]:
        """The oldest batch, whatever happens to the generator meanwhile."""
        waiting_since = time.monotonic()
        while True:
            if len(self.queue) < self.config.prompts:
                self._look_after(waiting_since)
            taken = self.queue.take(self.config.prompts, self.done, self.options.wait_s)
            again = set(self.queue.refused())
            self._ask([ticket for ticket in self.ledger.open() if ticket.number in again])
            if taken is not None:
                return taken

    def _look_after(self, waiting_since: float) -> None:
        """Publish again what was asked for; restart what has died or is silent."""
        process = self.process
        if process is None:
            self._start()
            return
        wanted = process.weights_wanted()
        if wanted is not None:
            self._publish()
            self.resent += 1
            process.published()
        if process.deliveries:
            self._failures = 0
        silent = time.monotonic() - max(process.heard, waiting_since) >= self.options.wait_s
        if process.gone or silent:
            self._restart(process, "was silent for too long" if silent else "died")

    def _restart(self, process: Generator, why: str) -> None:
        self._end_process()
        if process.error is not None:
            raise GeneratorFailedError(f"the generator failed:\n{process.error}")
        self._failures += 1
        if self._failures > self.options.restarts:
            raise GeneratorFailedError(
                f"the generator {why}, {self._failures} times in a row without a delivery; "
                f"restarts={self.options.restarts} are allowed"
            )
        self.restarts += 1
        self._start()

    def _end_process(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.end()
            self._spans += _spans(process)

    def _counts(self) -> Metrics:
        """What went otherwise than planned, since the last call."""
        now = {
            "groups_dropped": float(self.queue.dropped),
            "queue_full": float(self.queue.full),
            "generator_restarts": float(self.restarts),
            "weights_resent": float(self.resent),
        }
        new = {name: count - self._counted.get(name, 0.0) for name, count in now.items()}
        self._counted = now
        return new


def _spans(process: Generator) -> list[Span]:
    return [
        Span("generator", what, begin, end)
        for begin, sampled, scored in list(process.spans)
        for what, begin, end in (("sample", begin, sampled), ("score", sampled, scored))
    ]
