"""Sharding by hand: a rank keeps a part of each weight, and has the whole only while it is used.

Before the forward and the backward pass of a block its shards are gathered; after the backward
pass the gradients are scattered, summed, and each rank keeps its part. That is FSDP, and ZeRO 3.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def cut(x: Tensor, rank: int, size: int) -> Tensor:
    """This rank's part of a tensor, flat; all parts are equally long, the last padded with 0."""
    flat = x.detach().flatten()
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % size))
    return flat.chunk(size)[rank].clone()


def gather(shard: Tensor, shape: torch.Size) -> Tensor:
    """The whole tensor from the parts of all ranks.

    Args:
        shard: this rank's part, flat.
        shape: of the whole.

    """
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, shard.contiguous())
    return torch.cat(parts)[: shape.numel()].view(shape)


def reduce_scatter(whole: Tensor, rank: int, size: int) -> Tensor:
    """This rank's part of the sum of `whole` over the ranks.

    Each part goes to its owner by a message of its own, so that it can be seen;
    ``dist.reduce_scatter_tensor`` does the same in one call.
    """
    flat = torch.nn.functional.pad(whole.flatten(), (0, -whole.numel() % size))
    parts = [part.contiguous().clone() for part in flat.chunk(size)]
    for owner, part in enumerate(parts):
        dist.reduce(part, owner)
    return parts[rank]


class GatheredLinear(torch.autograd.Function):
    """y = x Wᵀ + b with W in shards: gathered for the forward pass, and again for the backward."""

    @staticmethod
    def forward(  # noqa: D102 (autograd's own name)
        context: Any, x: Tensor, weight_shard: Tensor, bias: Tensor, shape: torch.Size
    ) -> Tensor:
        context.save_for_backward(x, weight_shard)  # the shard is kept, the whole is not
        context.shape = shape
        return x @ gather(weight_shard, shape).t() + bias

    @staticmethod
    def backward(context: Any, *incoming: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        x, weight_shard = context.saved_tensors
        dy = incoming[0]
        rank, size = dist.get_rank(), dist.get_world_size()
        whole = dy.flatten(0, -2).t() @ x.flatten(0, -2)
        shard = reduce_scatter(whole, rank, size) / size
        bias = dy.flatten(0, -2).sum(0)
        dist.all_reduce(bias)
        return dy @ gather(weight_shard, context.shape), shard, bias / size, None


class ShardedLinear(nn.Module):
    """A linear layer whose weight, gradient and optimiser state are spread over the ranks.

    Gradients are means over the ranks, as in data parallelism: each rank has its own rows.

    Args:
        linear: the same on every rank; its weight is let go of.

    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        if linear.bias is None:
            raise ValueError("linear: a layer with a bias is expected")
        self.shape = linear.weight.shape
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight_shard = nn.Parameter(cut(linear.weight, rank, size))
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        y: Tensor = GatheredLinear.apply(x, self.weight_shard, self.bias, self.shape)
        return y
