"""rlvr.group.1: advantages within groups."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

EPS = 1e-4


def group_advantages(rewards: Tensor, group_size: int) -> Tensor:
    """Centre and scale each group by itself; equal rewards give exactly 0."""
    grouped = rewards.view(-1, group_size)
    if group_size == 1:
        return torch.zeros_like(rewards)
    scaled = (grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + EPS)
    equal = (grouped == grouped[:, :1]).all(1, keepdim=True)
    return torch.where(equal, 0.0, scaled).flatten()


def oracle(rewards: list[float], group_size: int) -> list[float]:
    """Group by group, written out."""
    result: list[float] = []
    for start in range(0, len(rewards), group_size):
        group = rewards[start : start + group_size]
        if max(group) == min(group):
            result += [0.0] * group_size
            continue
        mean = math.fsum(group) / group_size
        spread = math.sqrt(math.fsum((r - mean) ** 2 for r in group) / (group_size - 1))
        result += [(r - mean) / (spread + EPS) for r in group]
    return result


def cases(draw: Draw) -> Case:
    """Zeros and ones, or graded rewards."""
    size, groups = draw.integer(2, 5), draw.integer(1, 3)
    if draw.choice([True, False]):
        rewards = draw.integers(0, 1, groups * size).double()
    else:
        rewards = draw.normal(groups * size)
    return Case(f"{groups} × {size}", {"rewards": rewards, "group_size": size})


def edges() -> tuple[Case, ...]:
    """The hand example, silent groups, groups of one, rounding."""

    def case(name: str, rewards: list[float], size: int) -> Case:
        values = torch.tensor(rewards, dtype=torch.float64)
        return Case(name, {"rewards": values, "group_size": size})

    return (
        case("one right of four", [1.0, 0.0, 0.0, 0.0], 4),
        case("two groups", [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0], 4),
        case("an easy and a hard question", [1.0, 1.0, 0.0, 1.0, 0.0, 0.0], 3),
        case("all right", [1.0, 1.0, 1.0, 1.0], 4),
        case("all wrong, and a group with a signal", [0.0, 0.0, 0.0, 1.0], 2),
        case("equal rewards that do not add up exactly", [1000.1] * 7, 7),
        case("groups of one", [1.0, 0.0, 5.0], 1),
        case("graded", [0.25, 0.5, 1.0, 0.0], 4),
        case("a small spread", [0.001, 0.002, 0.003], 3),
    )


def _scaled(
    rewards: Tensor, size: int, *, correction: int = 1, scale: str = "std", eps: float = EPS
) -> Tensor:
    grouped = rewards.view(-1, size)
    if size == 1:
        return torch.zeros_like(rewards)
    centred = grouped - grouped.mean(1, keepdim=True)
    spread = grouped.std(1, keepdim=True, correction=correction)
    if scale == "variance":
        spread = spread.square()
    if scale == "batch":
        spread = rewards.std().expand_as(spread)
    if scale == "none":
        spread = torch.ones_like(spread) - eps
    equal = (grouped == grouped[:, :1]).all(1, keepdim=True)
    return torch.where(equal, 0.0, centred / (spread + eps)).flatten()


def _whole_batch(rewards: Tensor, group_size: int) -> Tensor:
    if rewards.numel() < 2 or group_size == 1:
        return torch.zeros_like(rewards)
    return group_advantages(rewards, rewards.numel())


def _interleaved(rewards: Tensor, group_size: int) -> Tensor:
    columns = rewards.view(group_size, -1)
    return group_advantages(columns.T.reshape(-1), group_size).view(-1, group_size).T.reshape(-1)


def _population(rewards: Tensor, group_size: int) -> Tensor:
    return _scaled(rewards, group_size, correction=0)


def _batch_spread(rewards: Tensor, group_size: int) -> Tensor:
    return _scaled(rewards, group_size, scale="batch")


def _variance(rewards: Tensor, group_size: int) -> Tensor:
    return _scaled(rewards, group_size, scale="variance")


def _only_centred(rewards: Tensor, group_size: int) -> Tensor:
    return _scaled(rewards, group_size, scale="none")


def _tiny_eps(rewards: Tensor, group_size: int) -> Tensor:
    return _scaled(rewards, group_size, eps=1e-8)


def _no_guard(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    if group_size == 1:
        return torch.zeros_like(rewards)
    centred = grouped - grouped.mean(1, keepdim=True)
    return (centred / (grouped.std(1, keepdim=True) + EPS)).flatten()


def _no_eps(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    if group_size == 1:
        return torch.zeros_like(rewards)
    centred = grouped - grouped.mean(1, keepdim=True)
    if (grouped == grouped[:, :1]).all():
        return torch.full_like(rewards, math.nan)
    return (centred / grouped.std(1, keepdim=True)).flatten()


def _nan_for_one(rewards: Tensor, group_size: int) -> Tensor:
    if group_size == 1:
        return torch.full_like(rewards, math.nan)
    return group_advantages(rewards, group_size)


def _raw_for_one(rewards: Tensor, group_size: int) -> Tensor:
    return rewards.clone() if group_size == 1 else group_advantages(rewards, group_size)


def _not_centred(rewards: Tensor, group_size: int) -> Tensor:
    grouped = rewards.view(-1, group_size)
    if group_size == 1:
        return torch.zeros_like(rewards)
    equal = (grouped == grouped[:, :1]).all(1, keepdim=True)
    scaled = grouped / (grouped.std(1, keepdim=True) + EPS)
    return torch.where(equal, 0.0, scaled).flatten()


GROUP = Exercise(
    id="rlvr.group.1",
    title="Advantages within a group",
    chapter=23,
    difficulty=2,
    minutes=20,
    goal=(
        "Each reward minus the mean of its group, over the group's standard deviation (n - 1) plus "
        "1e-4; exactly 0 where all rewards of the group are equal, and in a group of one."
    ),
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=group_advantages,
    mutants=(
        Mutant(
            "the whole batch",
            _whole_batch,
            "mean and standard deviation are those of the whole batch: then every answer to an "
            "easy question looks good. Each group is compared with itself",
        ),
        Mutant(
            "interleaved groups",
            _interleaved,
            "groups are taken every so many rows: completions of one prompt stand next to each "
            "other, so `view(-1, group_size)`",
        ),
        Mutant(
            "population standard deviation",
            _population,
            "the standard deviation divides by n; here, as in `torch.std`, it divides by n - 1",
        ),
        Mutant(
            "spread of the batch",
            _batch_spread,
            "the mean is the group's, the standard deviation is that of the whole batch",
        ),
        Mutant(
            "variance",
            _variance,
            "it divides by the variance; the standard deviation is its square root",
        ),
        Mutant(
            "only centred",
            _only_centred,
            "the rewards are centred and not scaled: that is Dr. GRPO's rule, not this one",
        ),
        Mutant(
            "not centred",
            _not_centred,
            "the mean of the group is not subtracted: then no right answer is ever better than "
            "its group",
        ),
        Mutant(
            "another epsilon",
            _tiny_eps,
            "the number added to the standard deviation is not 1e-4; with small spreads it shows",
        ),
        Mutant(
            "no guard for equal rewards",
            _no_guard,
            "equal rewards do not give exactly 0: rounding leaves a difference from the mean, and "
            "dividing by a tiny spread blows it up. Ask whether they are equal",
        ),
        Mutant(
            "no epsilon",
            _no_eps,
            "equal rewards give 0/0 = nan: a group without a difference has advantage 0",
        ),
        Mutant(
            "nan for one",
            _nan_for_one,
            "a group of one has no standard deviation, and yours is nan there: it has nothing to "
            "be compared with, so 0",
        ),
        Mutant(
            "raw for one",
            _raw_for_one,
            "a group of one keeps its raw reward: with nothing to compare it with it is 0",
        ),
    ),
    not_tested="rewards that are missing (a verifier that failed), and groups of unequal size.",
)
