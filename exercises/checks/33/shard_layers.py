"""Layers that the checks of sharding cut."""

import torch
from torch import Tensor


def layer(out: int, into: int) -> tuple[Tensor, Tensor]:
    """A weight and a bias whose entries are all different, none of them 0."""
    numbers = torch.arange(1.0, out * into + out + 1, dtype=torch.float64)
    return numbers[: out * into].view(out, into), numbers[out * into :]
