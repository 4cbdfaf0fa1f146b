"""A linear layer over several ranks that compute together on the same rows (arXiv:1909.08053).

Cut by columns of Wᵀ, each rank has some of the outputs; cut by rows, each has a part of the sum of
every output. An MLP is one of each: the middle stays cut, and one all-reduce ends it.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class CopyIn(torch.autograd.Function):
    """Identity forward; the gradient is summed over ranks, each of which used x for its outputs."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:  # noqa: D102 (autograd's own name)
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, *incoming: Tensor) -> Tensor:  # noqa: D102
        whole = incoming[0].contiguous().clone()
        dist.all_reduce(whole)
        return whole


class SumOut(torch.autograd.Function):
    """Sum over ranks forward; each part of the sum has the gradient of the whole."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:  # noqa: D102
        whole = x.contiguous().clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(context: Any, *incoming: Tensor) -> Tensor:  # noqa: D102
        return incoming[0]


def piece(x: Tensor, dimension: int, rank: int, size: int) -> Tensor:
    """This rank's equal part of a tensor along a dimension.

    Raises:
        ValueError: the number of ranks does not divide it.

    """
    if x.shape[dimension] % size:
        raise ValueError(
            f"dimension {dimension} of shape {tuple(x.shape)} cannot be cut in {size} equal parts"
        )
    return x.chunk(size, dimension)[rank].contiguous()


class ColumnParallelLinear(nn.Module):
    """Rank r computes its part of the outputs: (..., in) -> (..., out / ranks).

    Args:
        linear: the same on every rank.

    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(piece(linear.weight.detach(), 0, rank, size))
        self.bias = None
        if linear.bias is not None:
            self.bias = nn.Parameter(piece(linear.bias.detach(), 0, rank, size))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in), the same on every rank -> (..., out / ranks)."""
        inside: Tensor = CopyIn.apply(x)
        return nn.functional.linear(inside, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Rank r has a part of the inputs: (..., in / ranks) -> (..., out), summed over ranks.

    Args:
        linear: the same on every rank.

    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(piece(linear.weight.detach(), 1, rank, size))
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """(..., in / ranks) -> (..., out), the same on every rank; the bias is added once."""
        whole: Tensor = SumOut.apply(nn.functional.linear(x, self.weight))
        return whole if self.bias is None else whole + self.bias
