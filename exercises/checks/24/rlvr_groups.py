"""Rewards of groups, for the exercises on advantages within groups."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case


def case(name: str, rewards: list[float], size: int) -> Case:
    """A case by hand: groups of this size stand together."""
    values = torch.tensor(rewards, dtype=torch.float64)
    return Case(name, {"rewards": values, "group_size": size})


def cases(draw: Draw) -> Case:
    """Zeros and ones, or graded rewards."""
    size, groups = draw.integer(2, 5), draw.integer(1, 3)
    if draw.choice([True, False]):
        rewards = draw.integers(0, 1, groups * size).double()
    else:
        rewards = draw.normal(groups * size)
    return Case(f"{groups} × {size}", {"rewards": rewards, "group_size": size})
