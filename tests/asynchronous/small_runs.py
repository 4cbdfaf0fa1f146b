"""A small run of the arithmetic world, and an engine without processes that fails when told to."""

from __future__ import annotations

import copy
from typing import Any

import torch

from nbkit.asynchronous.engines.controller import GeneratorLostError
from nbkit.asynchronous.engines.roles import GeneratorRole, Learned, LearnerRole
from nbkit.recipes.async_recipe import arithmetic_learner
from nbkit.trainers.grpo import GRPOTrainer

PROMPTS, UPDATES = 2, 4


def low_digits(problems: list[Any], completions: list[Any]) -> list[float]:
    """A reward that an untaught model can earn, so that every update has a gradient."""
    return [float(sum(letter in "01234" for letter in one.text)) for one in completions]


SMALL = {
    "seed": 3,
    "problems": 40,
    "terms": (2, 2),
    "updates": UPDATES,
    "prompts": PROMPTS,
    "group_size": 4,
    "max_new_tokens": 8,
    "reward_fn": low_digits,
}


def synchronous_weights(**changes: Any) -> dict[str, torch.Tensor]:
    """Of ``GRPOTrainer`` after the run."""
    same = arithmetic_learner(**SMALL | {"staleness": 0} | changes)
    trainer = GRPOTrainer(
        same.model, same.vocabulary, same.problems, same.reward_fn, same.config,
        generator=torch.Generator().manual_seed(SMALL["seed"]),
    )  # fmt: skip
    for _ in range(UPDATES):
        trainer.step()
    return trainer.model.state_dict()


class LocalEngine:
    """Both roles in this process; an answer is made when the receipt is asked for.

    Attributes:
        loads: versions that the generator was given.
        lost: how many receipts were refused.

    """

    def __init__(self, arguments: dict[str, Any], *, lose: frozenset[int] = frozenset()) -> None:
        self.learner = LearnerRole(arithmetic_learner, arguments)
        self._task = copy.deepcopy(self.learner.task())
        self._lose, self._receipts = lose, 0
        self.loads: list[int] = []
        self.lost = 0
        self._generator = GeneratorRole(copy.deepcopy(self._task))
        self._calls: list[Any] = []

    def issue(self) -> list[Any]:
        return self.learner.issue()

    def publish(self) -> None:
        weights = self.learner.weights()
        self.loads.append(weights[1])
        self._calls.append(lambda: self._generator.load(weights))

    def ask(self, orders: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {}
        self._calls.append(lambda: asked.update(answer=self._generator.answer(orders)))
        return asked

    def receipt(self, asked: dict[str, Any]) -> list[int]:
        self._receipts += 1
        if self._receipts in self._lose:
            self.lost += 1
            self._calls = []
            raise GeneratorLostError("told to")
        while "answer" not in asked:
            self._calls.pop(0)()
        return asked["answer"][0]

    def learn(self, asked: dict[str, Any]) -> Learned:
        return self.learner.learn(asked["answer"][1])

    def revive(self) -> None:
        self._generator = GeneratorRole(copy.deepcopy(self._task))
