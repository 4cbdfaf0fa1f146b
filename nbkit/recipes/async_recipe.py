"""The arithmetic world of chapter 24 for a trainer that learns from tickets."""

from typing import Any

import torch

from nbkit.asynchronous.learner import TicketTrainer
from nbkit.envs.arithmetic import ArithmeticVocabulary
from nbkit.recipes.grpo_recipe import arithmetic_recipe, verifier
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.scoring import RewardFunction


def arithmetic_learner(
    *,
    seed: int = 0,
    staleness: int = 1,
    problems: int = 400,
    lessons: int = 0,
    reward_fn: RewardFunction = verifier,
    **changes: Any,
) -> TicketTrainer:
    """A trainer for sums of two to six numbers, which any actor can make by its arguments.

    Args:
        seed: of the body, the lessons and the run.
        staleness: of the rule of admission.
        problems: sums to train on.
        lessons: supervised steps before; 0: the body as it was drawn, which solves nothing.
        reward_fn: of the run; importable by name.
        changes: fields of the configuration.

    """
    recipe = arithmetic_recipe("dr_grpo", lessons=lessons, **changes)
    vocabulary = ArithmeticVocabulary()
    model = recipe.taught(seed) if lessons else tiny_model(vocabulary, seed=seed, **recipe.body)
    return TicketTrainer(
        model, vocabulary, recipe.problems(problems, seed), reward_fn, recipe.config,
        staleness=staleness, generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
