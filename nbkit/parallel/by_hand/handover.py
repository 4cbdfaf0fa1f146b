"""From the layout of training to that of sampling: row shards in, tensor-parallel pieces out.

Training shards every weight along its first dimension. A tensor-parallel sampler wants some weights
cut along the first dimension (column parallel) and some along the second (row parallel). Gathering
each weight whole and cutting it anew is simple, and sends everything to everyone. A rank needs only
1 / P of each weight, so the ranks exchange just those pieces.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nbkit.parallel.by_hand.tensor_parallel import piece


def gather_and_split(shard: Tensor, dimension: int) -> Tensor:
    """The simple way: the whole weight on every rank, then its piece.

    Args:
        shard: (rows / ranks, columns), this rank's rows.
        dimension: along which the sampler's layout is cut, 0 or 1.

    """
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(shard) for _ in range(size)]
    dist.all_gather(parts, shard.contiguous())
    return piece(torch.cat(parts), dimension, rank, size)


def hand_over(shard: Tensor, dimension: int) -> Tensor:
    """The same piece, with only what each rank needs on its way.

    Cut along dimension 0 the layouts agree, and nothing is sent. Cut along dimension 1, rank r
    needs the r-th block of columns of every rank's rows: an all-to-all, (P-1) / P of a shard.

    Args:
        shard: (rows / ranks, columns), this rank's rows; the ranks must divide both numbers.
        dimension: along which the sampler's layout is cut, 0 or 1.

    Returns:
        (rows / ranks, columns) or (rows, columns / ranks).

    """
    if dimension == 0:
        return shard.clone()
    rank, size = dist.get_rank(), dist.get_world_size()
    outgoing = [piece(shard, 1, other, size) for other in range(size)]
    arrived = [torch.empty_like(outgoing[0]) for _ in range(size)]
    messages: list[Any] = []
    for other in range(size):
        if other == rank:
            arrived[rank].copy_(outgoing[rank])
        else:
            messages.append(dist.isend(outgoing[other], other))
            messages.append(dist.irecv(arrived[other], other))
    for message in messages:
        message.wait()
    return torch.cat(arrived)


def sent_elements(rows: int, columns: int, ranks: int, *, whole: bool) -> float:
    """Elements that one rank sends for one weight: by ``gather_and_split``, or by ``hand_over``."""
    shard = rows * columns / ranks
    return shard * (ranks - 1) if whole else shard * (ranks - 1) / ranks
