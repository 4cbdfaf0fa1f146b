"""Rows in a random order, cut into parts of about the same size."""

import torch
from torch import Tensor

from nbkit._inputs import check_number


def minibatches(
    rows: int, size: int | None, generator: torch.Generator, *, shuffle: bool = True
) -> tuple[Tensor, ...]:
    """Split row numbers into parts of about ``size``, which differ by one row at most.

    Dummy steps make the number of rows vary; with parts of exactly ``size`` the last one could be
    a single row, whose normalised advantage means nothing.

    Args:
        rows: M.
        size: wanted length of a part; None: one part.
        generator: of the order.
        shuffle: False keeps the order of the rollout.

    """
    check_number("rows", rows, 1)
    if size is not None:
        check_number("size", size, 1)
    order = torch.randperm(rows, generator=generator) if shuffle else torch.arange(rows)
    parts = 1 if size is None else max(1, round(rows / size))
    return torch.tensor_split(order, parts)
