"""What the two actors do, on any engine: one answers tickets, one learns from groups."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbkit.asynchronous.groups import Group, Order, Task, scored_call, split
from nbkit.asynchronous.learner import TicketTrainer
from nbkit.asynchronous.plain_model import without_patches
from nbkit.asynchronous.sampler import Sampler
from nbkit.asynchronous.tickets import Ticket, seeds_of
from nbkit.trainers.metrics import Metrics

MakeLearner = Callable[..., TicketTrainer]


@dataclass(frozen=True)
class Learned:
    """One update.

    Attributes:
        metrics: of the trainer.
        numbers: tickets that it learned from.

    """

    metrics: Metrics
    numbers: list[int]


class GeneratorRole:
    """Answers tickets with the weights that it was given last, one call at a time.

    Args:
        task: what it does.
        threads: of torch.

    """

    def __init__(self, task: Task, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._task, self.version = task, -1
        self._sampler = Sampler(task.model, task.vocabulary, task.config)

    def pid(self) -> int:
        """Of the process; an answer says that the actor lives."""
        return os.getpid()

    def load(self, weights: tuple[Mapping[str, Tensor], int]) -> int:
        """Take weights of a version; return it.

        Raises:
            ValueError: they are older than those that it has.

        """
        state, version = weights
        if version < self.version:
            raise ValueError(f"weights of version {version} came after those of {self.version}")
        self._task.model.load_state_dict(state)
        self.version = version
        return version

    def answer(self, orders: Sequence[Order]) -> tuple[list[int], list[Group]]:
        """Sample and score a group for each order.

        Returns:
            the numbers of the tickets, which are small and can travel alone, and the groups.

        Raises:
            ValueError: no weights yet, or older ones than a ticket asks for.

        """
        tickets = [ticket for ticket, _ in orders]
        needed = max(ticket.version for ticket in tickets)
        if self.version < needed:
            raise ValueError(
                f"weights of version {needed} are needed, and version {self.version} is here: "
                "publish before you ask"
            )
        task = self._task
        problems = [problem for _, problem in orders]
        made, versions = self._sampler.sample(problems, seeds_of(tickets), self.version)
        parts = split(made, versions, task.config.group_size)
        groups = scored_call(orders, parts, task.vocabulary, task.reward_fn)
        return [ticket.number for ticket in tickets], groups


class LearnerRole:
    """Issues tickets, learns from groups, and hands out its weights with their version.

    Args:
        make: an importable function that returns the trainer.
        arguments: of `make`.
        threads: of torch.

    """

    def __init__(self, make: MakeLearner, arguments: Mapping[str, Any], threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self.trainer = make(**arguments)

    def task(self) -> Task:
        """What the generator needs; its model is a copy as soon as it travels."""
        trainer = self.trainer
        model = without_patches(trainer.model)
        return Task(model, trainer.vocabulary, trainer.reward_fn, trainer.config)

    def issue(self) -> list[list[Order]]:
        """Orders that the rule of admission allows now, a batch in each list."""
        trainer, size = self.trainer, self.trainer.config.prompts
        new = [(ticket, trainer.problems[ticket.prompt]) for ticket in self._new_tickets()]
        return [new[at : at + size] for at in range(0, len(new), size)]

    def learn(self, groups: Sequence[Group]) -> Learned:
        """Make an update; a group that was trained on before is refused by the ledger."""
        metrics = self.trainer.learn(groups, {})
        return Learned(metrics, list(self.trainer.numbers))

    def weights(self) -> tuple[dict[str, Tensor], int]:
        """A snapshot that no later step changes, and its version."""
        state = self.trainer.model.state_dict()
        copy = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}
        return copy, self.trainer.done

    def _new_tickets(self) -> list[Ticket]:
        return self.trainer.ledger.issue(self.trainer.done)
