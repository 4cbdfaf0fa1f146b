"""Seeded material for fresh cases."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Draw:
    """A seeded source of sizes, numbers and masks.

    ``size`` grows from 1 to 6 during a check, so that the first failing case is a small one.
    Drawn floats have two decimals: a failing case can be followed with pencil and paper.
    """

    def __init__(self, seed: int, size: int = 4):
        self.generator = torch.Generator().manual_seed(seed)
        self.size = size

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high], both included."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def dimension(self, low: int = 1) -> int:
        """A length for an axis: at least ``low``, growing with ``size``."""
        return self.integer(low, low + self.size)

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform float64 values with two decimals."""
        values = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return torch.round(low + (high - low) * values, decimals=2)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal float64 values with two decimals, none of them zero."""
        values = scale * torch.randn(shape, generator=self.generator, dtype=torch.float64)
        values = torch.round(values, decimals=2)
        return torch.where(values == 0, 0.01, values)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """An int64 tensor with values in [low, high], both included."""
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def prefix_mask(self, rows: int, columns: int, *, shortest: int = 1) -> Tensor:
        """A bool mask (rows, columns) whose rows count from the left, each of its own length."""
        lengths = self.integers(shortest, columns, rows)
        return torch.arange(columns)[None, :] < lengths[:, None]

    def holed_mask(self, rows: int, columns: int) -> Tensor:
        """A bool mask (rows, columns) with ones and zeros anywhere."""
        return torch.rand(rows, columns, generator=self.generator) < 0.65
