"""All-reduce by hand: two trips around a ring of send and receive (Patarasuk and Yuan, 2009).

Each rank cuts its tensor in P chunks. On the first trip (reduce-scatter) every chunk collects its
sum while it travels: after P - 1 steps rank r holds the whole sum of chunk r + 1. On the second
(all-gather) the finished chunks travel on. A rank sends 2 (P - 1) / P of the tensor, whatever P.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def exchange(outgoing: Tensor, incoming: Tensor, rank: int, size: int) -> None:
    """Send to the right neighbour while receiving from the left one.

    Both begin before either is waited for: if all ranks sent first, all would wait for ever.
    """
    messages: list[Any] = [
        dist.isend(outgoing, (rank + 1) % size),
        dist.irecv(incoming, (rank - 1) % size),
    ]
    for message in messages:
        message.wait()


def ring_reduce_scatter(chunks: list[Tensor], rank: int, size: int) -> int:
    """Sum chunks over the ranks, in place; return which of them is whole here.

    Args:
        chunks: `size` tensors of one shape on every rank.
        rank: of this process.
        size: number of ranks.

    """
    arrived = torch.empty_like(chunks[0])
    for step in range(size - 1):
        sent, received = (rank - step) % size, (rank - step - 1) % size
        exchange(chunks[sent], arrived, rank, size)
        chunks[received] += arrived
    return (rank + 1) % size


def ring_all_gather(chunks: list[Tensor], whole: int, rank: int, size: int) -> None:
    """Hand the finished chunk on, and the ones that arrive, until every rank has all of them.

    Args:
        chunks: of which `whole` is finished here, and `whole` - k at the rank k to the left.
        whole: number of the finished chunk.
        rank: of this process.
        size: number of ranks.

    """
    arrived = torch.empty_like(chunks[0])
    for step in range(size - 1):
        sent, received = (whole - step) % size, (whole - step - 1) % size
        exchange(chunks[sent], arrived, rank, size)
        chunks[received].copy_(arrived)


def ring_all_reduce(x: Tensor) -> Tensor:
    """The sum of a tensor over all ranks, on every rank.

    Args:
        x: any shape, the same on every rank; not changed.

    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return x.clone()
    rank, size = dist.get_rank(), dist.get_world_size()
    padding = -x.numel() % size
    flat = torch.nn.functional.pad(x.flatten(), (0, padding)).clone()
    chunks = list(flat.chunk(size))
    whole = ring_reduce_scatter(chunks, rank, size)
    ring_all_gather(chunks, whole, rank, size)
    return flat[: x.numel()].view(x.shape)


def bytes_sent(size_bytes: int, ranks: int) -> float:
    """What each rank sends in a ring all-reduce of `size_bytes`: 2 (P - 1) / P of it."""
    return 2 * (ranks - 1) / ranks * size_bytes
