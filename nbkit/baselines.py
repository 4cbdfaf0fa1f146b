"""Baselines for policy gradients: what to subtract from a return without moving its mean."""

import torch
from torch import Tensor

from nbkit._inputs import bool_mask, check_floating


def batch_mean_baseline(returns: Tensor, mask: Tensor) -> Tensor:
    """Return at each step the mean return of all episodes that reach it, (B, T).

    It contains the episode's own return, so the gradient of a step that n episodes reach shrinks by
    (n-1)/n. Where all episodes have one length, that is a shorter step in the right direction.

    Raises:
        ValueError: shapes that do not fit.
    """
    returns, mask = _checked(returns, mask)
    count = mask.sum(0, keepdim=True).clamp(min=1)
    mean = returns.sum(0, keepdim=True) / count
    return torch.where(mask, mean.expand_as(returns), 0.0)


def leave_one_out_baseline(returns: Tensor, mask: Tensor) -> Tensor:
    """Return at each step the mean return of the *other* episodes that reach it, (B, T).

    Independent of the episode's own actions, so the gradient stays unbiased. An episode that is
    the only one to reach a step gets 0 there.

    Raises:
        ValueError: shapes that do not fit.

    Source: Kool et al., "Buy 4 REINFORCE Samples, Get a Baseline for Free!" (2019), section 3.

    """
    returns, mask = _checked(returns, mask)
    others = (mask.sum(0, keepdim=True) - 1).clamp(min=1)
    mean = (returns.sum(0, keepdim=True) - returns) / others
    return torch.where(mask, mean, 0.0)


def _checked(returns: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (B, T) with 0 where the mask is 0, and the mask as bool."""
    check_floating("returns", returns, ndim=2)
    counted = bool_mask(mask, returns, like_name="returns")
    return torch.where(counted, returns, 0.0), counted
