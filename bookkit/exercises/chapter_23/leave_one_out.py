"""rlvr.loo.1: the others as a baseline."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def leave_one_out(rewards: Tensor, group_size: int) -> Tensor:
    """Each reward minus the mean of the other rewards of its group."""
    grouped = rewards.view(-1, group_size)
    others = (grouped.sum(1, keepdim=True) - grouped) / (group_size - 1)
    return (grouped - others).flatten()


def oracle(rewards: list[float], group_size: int) -> list[float]:
    """For each reward, go and look at the others."""
    result = []
    for i, reward in enumerate(rewards):
        start = group_size * (i // group_size)
        others = [rewards[j] for j in range(start, start + group_size) if j != i]
        result.append(reward - math.fsum(others) / len(others))
    return result


def cases(draw: Draw) -> Case:
    """Zeros and ones, or graded rewards."""
    size, groups = draw.integer(2, 5), draw.integer(1, 3)
    rewards = draw.normal(groups * size)
    if draw.choice([True, False]):
        rewards = draw.integers(0, 1, groups * size).double()
    return Case(f"{groups} × {size}", {"rewards": rewards, "group_size": size})


def edges() -> tuple[Case, ...]:
    """The hand example, pairs, equal rewards."""

    def case(name: str, rewards: list[float], size: int) -> Case:
        values = torch.tensor(rewards, dtype=torch.float64)
        return Case(name, {"rewards": values, "group_size": size})

    return (
        case("one right of four", [1.0, 0.0, 0.0, 0.0], 4),
        case("a pair", [1.0, 0.0], 2),
        case("two pairs", [1.0, 0.0, 0.0, 3.0], 2),
        case("equal", [2.0, 2.0, 2.0], 3),
        case("two groups of three", [1.0, 2.0, 4.0, 0.0, 0.0, 8.0], 3),
        case("negative", [-1.0, -2.0, -4.0], 3),
    )


def _own_counted(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    return (grouped - grouped.mean(1, keepdim=True)).flatten()


def _sum_of_others(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    return (grouped - (grouped.sum(1, keepdim=True) - grouped)).flatten()


def _over_n(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    return (grouped - (grouped.sum(1, keepdim=True) - grouped) / group_size).flatten()


def _sum_over_less(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    return (grouped - grouped.sum(1, keepdim=True) / (group_size - 1)).flatten()


def _whole_batch(rewards: Tensor, group_size: int) -> Tensor:
    return leave_one_out(rewards, rewards.numel())


def _interleaved(rewards: Tensor, group_size: int) -> Tensor:
    columns = rewards.view(group_size, -1)
    return leave_one_out(columns.T.reshape(-1), group_size).view(-1, group_size).T.reshape(-1)


def _baseline_only(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    return ((grouped.sum(1, keepdim=True) - grouped) / (group_size - 1)).flatten()


def _scaled(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    spread = grouped.std(1, keepdim=True)
    return (leave_one_out(rewards, group_size).view_as(grouped) / (spread + 1e-4)).flatten()


def _upside_down(rewards: Tensor, group_size: int) -> Tensor:
    return -leave_one_out(rewards, group_size)


LEAVE_ONE_OUT = Exercise(
    id="rlvr.loo.1",
    title="The others as a baseline",
    chapter=23,
    difficulty=1,
    minutes=10,
    goal="Each reward minus the mean of the other rewards of its group (at least two a group).",
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=leave_one_out,
    mutants=(
        Mutant(
            "own reward counted",
            _own_counted,
            "the baseline is the mean of the whole group: leave the row's own reward out of it, "
            "or the baseline depends on the action it judges",
        ),
        Mutant(
            "sum of the others",
            _sum_of_others,
            "the sum of the others is subtracted: divide it by their number",
        ),
        Mutant(
            "divided by n",
            _over_n,
            "the sum of the others is divided by n; there are n - 1 of them",
        ),
        Mutant(
            "sum of all over n - 1",
            _sum_over_less,
            "the sum of all is divided by n - 1: subtract the row's own reward from it first",
        ),
        Mutant(
            "the whole batch",
            _whole_batch,
            "the others are those of the whole batch: only rewards of the same prompt compare",
        ),
        Mutant(
            "interleaved groups",
            _interleaved,
            "groups are taken every so many rows: completions of one prompt stand next to each "
            "other, so `view(-1, group_size)`",
        ),
        Mutant(
            "baseline alone",
            _baseline_only,
            "this is the baseline: the advantage is the reward minus it",
        ),
        Mutant(
            "scaled",
            _scaled,
            "the result is divided by the group's spread: RLOO leaves the scale alone",
        ),
        Mutant(
            "opposite sign",
            _upside_down,
            "the sign is opposite: what is better than the others has a positive advantage",
        ),
    ),
    not_tested="groups of one, for which there are no others.",
)
