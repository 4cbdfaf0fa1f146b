"""Batches with known ratios of new to old probability, for the exercises on clipped losses."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw

Inputs = dict[str, Tensor]


def by_hand(ratios: list[list[float]], advantages: list[float], lengths: list[int]) -> Inputs:
    """The ratio of each token, one advantage a row, so many tokens of a row that count."""
    ratio = torch.tensor(ratios, dtype=torch.float64)
    old = torch.full_like(ratio, -1.5)
    return {
        "logp": old + ratio.log(),
        "old_logp": old,
        "advantages": torch.tensor(advantages, dtype=torch.float64),
        "mask": torch.arange(ratio.shape[1]) < torch.tensor(lengths)[:, None],
    }


def drawn(draw: Draw, low: float, high: float) -> Inputs:
    """B rows of T tokens; the logarithms of the ratios lie between the two numbers."""
    rows, columns = draw.dimension(), draw.dimension()
    old = -draw.uniform(0.1, 2.5, rows, columns)
    return {
        "logp": old + draw.uniform(low, high, rows, columns),
        "old_logp": old,
        "advantages": draw.normal(rows),
        "mask": draw.prefix_mask(rows, columns),
    }


def size(inputs: Inputs) -> str:
    """How a drawn case is called."""
    rows, columns = inputs["logp"].shape
    return f"{rows} × {columns}"
