"""Pairs of answers that several checks of the chapter ask about."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case

NAMES = ("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp")


def four(draw: Draw, n: int) -> dict[str, Tensor]:
    """Log-probabilities of n pairs under two models."""
    return {name: -draw.uniform(0.1, 6.0, n) for name in NAMES}


def hand_case(name: str, rows: list[list[float]], beta: float, gradient: bool = True) -> Case:
    """A case from rows (chosen, rejected, reference of both)."""
    columns = torch.tensor(rows, dtype=torch.float64).T
    inputs = {key: column.clone() for key, column in zip(NAMES, columns, strict=True)}
    return Case(name, {**inputs, "beta": beta}, gradient=gradient)
