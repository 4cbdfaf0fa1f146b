"""reinforce.baseline.1: compare a sample with the others."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def leave_one_out(rewards: Tensor) -> Tensor:
    """Each reward minus the mean of the others; 0 where there are none."""
    n = rewards.shape[0]
    if n == 1:
        return torch.zeros_like(rewards)
    others = (rewards.sum() - rewards) / (n - 1)
    return rewards - others


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


def _mean_with_itself(rewards: Tensor) -> Tensor:
    return rewards - rewards.mean()


def _divided_by_n(rewards: Tensor) -> Tensor:
    n = rewards.shape[0]
    return torch.zeros_like(rewards) if n == 1 else rewards - (rewards.sum() - rewards) / n


def _nan_for_one(rewards: Tensor) -> Tensor:
    return rewards - (rewards.sum() - rewards) / (rewards.shape[0] - 1)


def _raw_for_one(rewards: Tensor) -> Tensor:
    return rewards if rewards.shape[0] == 1 else leave_one_out(rewards)


def _baseline_itself(rewards: Tensor) -> Tensor:
    return rewards - leave_one_out(rewards)


def _opposite(rewards: Tensor) -> Tensor:
    return -leave_one_out(rewards)


def _standardised(rewards: Tensor) -> Tensor:
    if rewards.shape[0] == 1:
        return torch.zeros_like(rewards)
    return (rewards - rewards.mean()) / (rewards.std() + 1e-8)


def _best_of_the_others(rewards: Tensor) -> Tensor:
    n = rewards.shape[0]
    if n == 1:
        return torch.zeros_like(rewards)
    own = torch.eye(n, dtype=torch.bool)
    return rewards - rewards.expand(n, n).masked_fill(own, -math.inf).max(dim=1).values


BASELINE = Exercise(
    id="reinforce.baseline.1",
    title="A baseline from the other samples",
    chapter=11,
    difficulty=1,
    minutes=10,
    goal=(
        "Each reward of a batch minus the mean of the others, which knows nothing of the sample's "
        "own reward and so adds no bias. A sample without others gets 0."
    ),
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=leave_one_out,
    mutants=(
        Mutant(
            "the mean that includes the sample",
            _mean_with_itself,
            "your baseline is the mean over the whole batch, which includes the sample's own "
            "reward: the gradient is then biased, too small by the factor (n - 1)/n. Average the "
            "other n - 1",
        ),
        Mutant(
            "divided by n",
            _divided_by_n,
            "the sum of the others is divided by n; there are n - 1 of them",
        ),
        Mutant(
            "nan for a single sample",
            _nan_for_one,
            "a single sample has no others, and your mean of them is 0/0 = nan: return 0 there",
        ),
        Mutant(
            "raw reward for a single sample",
            _raw_for_one,
            "a single sample keeps its raw reward: with nothing to compare it with, its advantage "
            "is 0 here",
        ),
        Mutant(
            "the baseline itself",
            _baseline_itself,
            "this is the baseline, the mean of the others: it must be subtracted from the reward",
        ),
        Mutant(
            "opposite sign",
            _opposite,
            "this is baseline minus reward: better than the others must be positive",
        ),
        Mutant(
            "standardised",
            _standardised,
            "this is the standardised reward (mean of all, divided by the standard deviation): no "
            "division is asked for, and the mean must leave the sample itself out",
        ),
        Mutant(
            "compared with the best of the others",
            _best_of_the_others,
            "the baseline is the largest of the other rewards, not their mean",
        ),
    ),
    not_tested="several prompts in one batch (each would be its own group), and learning.",
)
