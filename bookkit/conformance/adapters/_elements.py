"""For libraries whose functions want other shapes: one call an element, or rewards as tokens."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


def each(call: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """call(x[i:i+1], ...) for each i of (N,) tensors, stacked to (N,)."""
    size = tensors[0].shape[0]
    rows = [call(*(x[i : i + 1] for x in tensors)) for i in range(size)]
    return torch.stack([row.reshape(()) for row in rows])


def of_outcomes(call: Callable[..., tuple[Tensor, ...]], rewards: Tensor, size: int) -> Tensor:
    """Advantages (B,) of an estimator that takes rewards (B, 1), a mask and numpy's group ids."""
    groups = np.arange(len(rewards)) // size
    return call(rewards[:, None], torch.ones_like(rewards)[:, None], groups)[0][:, 0]
