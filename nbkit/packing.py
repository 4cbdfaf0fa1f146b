"""Sequences of many lengths through a model without padding: packing and token budgets.

A padded batch computes rows × longest tokens. Packing lays sequences end to end in one row. Each
token then needs its own position, counted from the start of its sequence, and attention must not
cross a border. The loss and the gradient are those of the padded batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedBatch:
    """Sequences end to end.

    Attributes:
        ids: (1, T).
        position_ids: (1, T) counting from 0 in each sequence.
        segment_ids: (1, T) number of the sequence that a token belongs to.

    """

    ids: Tensor
    position_ids: Tensor
    segment_ids: Tensor


def pack(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Put sequences into bins of at most `max_tokens`, the longest first, each where it fits first.

    First-fit decreasing needs at most 11/9 of the fewest bins, plus one (Johnson, 1973; the
    constant is Dósa's, 2007).

    Args:
        lengths: tokens of each sequence.
        max_tokens: size of a bin.

    Returns:
        Indices of the sequences of each bin.

    Raises:
        ValueError: a sequence that no bin holds.

    """
    _check_lengths(lengths, max_tokens)
    bins: list[list[int]] = []
    left: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        for number, room in enumerate(left):
            if lengths[index] <= room:
                bins[number].append(index)
                left[number] -= lengths[index]
                break
        else:
            bins.append([index])
            left.append(max_tokens - lengths[index])
    return bins


def token_budget_batches(
    lengths: Sequence[int], max_tokens: int, *, padded: bool = True
) -> list[list[int]]:
    """Micro-batches under a budget of tokens instead of a number of rows.

    Args:
        lengths: tokens of each sequence.
        max_tokens: the budget.
        padded: count rows × longest, with neighbours in length side by side; else the sum of
            lengths, as for packed batches (``pack``).

    Returns:
        Indices of the sequences of each micro-batch.

    Raises:
        ValueError: a sequence over the budget.

    """
    if not padded:
        return pack(lengths, max_tokens)
    _check_lengths(lengths, max_tokens)
    batches: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * longest <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = lengths[index]
    return batches


def _check_lengths(lengths: Sequence[int], max_tokens: int) -> None:
    if any(length < 1 for length in lengths):
        raise ValueError("lengths: every sequence needs at least one token")
    if lengths and max(lengths) > max_tokens:
        raise ValueError(
            f"max_tokens: a sequence has {max(lengths)} tokens, more than the {max_tokens} allowed"
        )


def packed_batch(sequences: Sequence[Sequence[int] | Tensor]) -> PackedBatch:
    """Lay sequences end to end.

    Raises:
        ValueError: no sequence, or an empty one.

    """
    rows = [torch.as_tensor(sequence, dtype=torch.int64) for sequence in sequences]
    if not rows or any(not row.numel() for row in rows):
        raise ValueError("sequences: at least one is needed, and none may be empty")
    device = rows[0].device
    places = torch.cat([torch.arange(row.numel(), device=device) for row in rows])
    segments = torch.cat(
        [torch.full((row.numel(),), number, device=device) for number, row in enumerate(rows)]
    )
    return PackedBatch(torch.cat(rows)[None], places[None], segments[None])


def segment_mask(batch: PackedBatch, dtype: torch.dtype) -> Tensor:
    """(1, 1, T, T) to add to attention scores: 0 to earlier tokens of the same sequence, else -inf.

    For attention kernels without variable lengths. It is T² numbers, which is why long packs want
    a kernel that knows the borders.
    """
    segments = batch.segment_ids[0]
    same = (segments[:, None] == segments[None, :]).tril()
    lowest = torch.finfo(dtype).min
    mask = torch.zeros(same.shape, dtype=dtype, device=same.device)
    return mask.masked_fill(~same, lowest)[None, None]
