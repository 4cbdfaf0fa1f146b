"""Baselines for policy gradients: what to subtract from a return without moving its mean."""

import torch
from torch import Tensor


def batch_mean_baseline(returns: Tensor, mask: Tensor) -> Tensor:
    """Return at each step the mean return of all episodes that reach it, (B, T).

    It contains the episode's own return, so the gradient shrinks by (n-1)/n, n episodes at that
    step: its direction stays right, its size does not.
    """
    returns = torch.where(mask, returns, 0.0)
    count = mask.sum(0, keepdim=True).clamp(min=1)
    mean = returns.sum(0, keepdim=True) / count
    return torch.where(mask, mean.expand_as(returns), 0.0)


def leave_one_out_baseline(returns: Tensor, mask: Tensor) -> Tensor:
    """Return at each step the mean return of the *other* episodes that reach it, (B, T).

    Independent of the episode's own actions, so the gradient stays unbiased. An episode that is
    the only one to reach a step gets 0 there.

    Source: Kool et al., "Buy 4 REINFORCE Samples, Get a Baseline for Free!" (2019), section 3.

    """
    returns = torch.where(mask, returns, 0.0)
    others = (mask.sum(0, keepdim=True) - 1).clamp(min=1)
    mean = (returns.sum(0, keepdim=True) - returns) / others
    return torch.where(mask, mean, 0.0)
