"""For libraries whose losses come reduced: one call an element."""

from collections.abc import Callable

import torch
from torch import Tensor


def each(call: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """call(x[i:i+1], ...) for each i of (N,) tensors, stacked to (N,)."""
    size = tensors[0].shape[0]
    rows = [call(*(x[i : i + 1] for x in tensors)) for i in range(size)]
    return torch.stack([row.reshape(()) for row in rows])
