"""Arithmetic that stays finite for finite numbers: sums, log-ratios before exp, standardisation."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nbkit._inputs import check_number


def divided_sum(x: Tensor, count: Tensor | float, dims: tuple[int, ...]) -> Tensor:
    """sum(x) / count over `dims`, also where the plain sum leaves the range of the dtype.

    `count` broadcasts against `x` (a tensor keeps the reduced dimensions with size 1). Partial sums
    of finite numbers can reach inf - inf = NaN; dividing first cannot, but rounds more, so its
    result is taken only where the plain one is not finite.
    """
    plain = x.sum(dims, keepdim=True) / count
    divided_first = (x / count).sum(dims, keepdim=True)
    return torch.where(plain.isfinite(), plain, divided_first).squeeze(dims)


def clamp_log_ratio(log_ratio: Tensor, limit: float | None) -> Tensor:
    """Clamp to plus or minus `limit` before exp; None clamps to what exp can still represent.

    The second form changes no finite exponential. It keeps exp from becoming inf, whose product
    with a zero advantage, or in the backward pass with a zero gradient, would be NaN.
    """
    info = torch.finfo(log_ratio.dtype)
    representable = math.log(info.max) * (1 - 2 * info.eps)
    if limit is None:
        limit = representable
    check_number("log_ratio_clamp", limit, low=0, open_low=True)
    limit = min(limit, representable)
    return log_ratio.clamp(-limit, limit)


class Spread(NamedTuple):
    """Mean, deviations and standard deviation; the last two in units of 4 * size.

    In these units the largest distance from one of the values is 1, so no square overflows.
    """

    counts: Tensor
    mean: Tensor
    deviation: Tensor
    std: Tensor
    size: Tensor

    def plain_deviation(self) -> Tensor:
        """x - mean in the units of x."""
        return self.deviation * self.size * 4

    def plain_std(self) -> Tensor:
        """The standard deviation in the units of x."""
        return self.std * self.size * 4


def spread(x: Tensor, counted: Tensor, ddof: float) -> Spread:
    """Statistics over the last dimension of what is counted.

    One of the values is subtracted before anything is averaged. Equal values then deviate by
    exactly 0 (seven times 0.1 in float32 otherwise deviate by -7.5e-9, which a division by a
    standard deviation of the same size turns into -0.41), and close large values keep their digits.

    Args:
        x: (..., n) with n > 0, finite where counted.
        counted: (..., n) bool.
        ddof: the variance divides by count - ddof; where that is not positive it is 0.

    Returns:
        counts, mean, std and size (..., 1); deviation (..., n), 0 where not counted.
    """
    kept = torch.where(counted, x, 0.0)
    count = counted.sum(-1, keepdim=True)
    first = counted.to(torch.uint8).argmax(-1, keepdim=True)
    origin = kept.detach().gather(-1, first) * 0.25
    quarter = torch.where(counted, kept * 0.25 - origin, 0.0)
    size = quarter.detach().abs().amax(-1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    shifted = quarter / size
    shifted_mean = shifted.sum(-1, keepdim=True) / count.clamp(min=1)
    deviation = torch.where(counted, shifted - shifted_mean, 0.0)
    squares = deviation.square().sum(-1, keepdim=True)
    variance = torch.where(count > ddof, squares / (count - ddof).clamp(min=1e-6), 0.0)
    positive = variance > 0
    std = torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)
    return Spread(count, 4 * (origin + shifted_mean * size), deviation, std, size)
