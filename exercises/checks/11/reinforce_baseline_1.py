"""reinforce.baseline.1: compare a sample with the others."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(rewards: list[float]) -> list[float]:
    """For each sample, really average the others."""
    answer = []
    for i, reward in enumerate(rewards):
        others = [other for j, other in enumerate(rewards) if j != i]
        answer.append(reward - math.fsum(others) / len(others) if others else 0.0)
    return answer


def cases(draw: Draw) -> Case:
    """A batch of rewards."""
    n = draw.dimension(2)
    return Case(f"{n} samples", {"rewards": draw.normal(n, scale=2.0)})


def edges() -> tuple[Case, ...]:
    """One sample, two, equal ones, and a rare success."""
    named = {
        "one sample": [3.0],
        "two samples": [1.0, 0.0],
        "equal rewards": [0.5, 0.5, 0.5],
        "one success in four": [1.0, 0.0, 0.0, 0.0],
        "negative rewards": [-1.0, -2.0, -6.0],
    }
    return tuple(
        Case(name, {"rewards": torch.tensor(rewards, dtype=torch.float64)})
        for name, rewards in named.items()
    )


CHECK = Check(
    id="reinforce.baseline.1",
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the mean that includes the sample",
            "- rewards",
            "- rewards.mean()",
            "your baseline is the mean over the whole batch, which includes the sample's "
            "own reward: the gradient is then biased, too small by the factor (n - 1)/n. "
            "Average the other n - 1",
        ),
        edit(
            "divided by n",
            "/ others",
            "/ rewards.shape[0]",
            "the sum of the others is divided by n; there are n - 1 of them",
        ),
        edit(
            "nan for a single sample",
            "= 0",
            "= (-1)",
            "a single sample has no others, and your mean of them is 0/0 = nan: return 0 there",
        ),
        edit(
            "raw reward for a single sample",
            "torch.zeros_like(rewards)",
            "rewards",
            "a single sample keeps its raw reward: with nothing to compare it with, its "
            "advantage is 0 here",
        ),
        edits(
            "the baseline itself",
            ("torch.zeros_like(rewards)", "rewards.clone()"),
            ("rewards - (rewards.sum() - rewards)", "(rewards.sum() - rewards)"),
            message="this is the baseline, the mean of the others: it must be subtracted from the "
            "reward",
        ),
        edit(
            "opposite sign",
            "rewards - (rewards.sum() - rewards) / others",
            "((rewards.sum() - rewards) / others - rewards)",
            "this is baseline minus reward: better than the others must be positive",
        ),
        edit(
            "standardised",
            "rewards - (rewards.sum() - rewards) / others",
            "(rewards - rewards.mean()) / (rewards.std() + 1e-08)",
            "this is the standardised reward (mean of all, divided by the standard "
            "deviation): no division is asked for, and the mean must leave the sample "
            "itself out",
        ),
        edit(
            "compared with the best of the others",
            "(rewards.sum() - rewards) / others",
            "rewards.expand(others + 1, -1).masked_fill(\n"
            "        torch.eye(others + 1, dtype=torch.bool), -torch.inf\n"
            "    ).amax(dim=1)",
            "the baseline is the largest of the other rewards, not their mean",
        ),
    ),
    not_tested="several prompts in one batch (each would be its own group), and learning.",
    wide=("rewards",),
)
