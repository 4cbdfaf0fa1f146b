"""Data parallelism by hand: gradients are averaged in buckets while the backward pass goes on.

One message a parameter pays the start of a message hundreds of times; one message for all waits
until the backward pass is over. A bucket is sent when the last of its gradients is there.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def make_buckets(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Numbers of parameters by bucket, the last parameter first.

    The backward pass reaches the last layers first, so buckets are filled from the end.

    Args:
        sizes: of the parameters, in bytes, in the order of the model.
        limit: most bytes of a bucket; a larger parameter has one for itself.

    """
    buckets: list[list[int]] = []
    room = 0
    for number in reversed(range(len(sizes))):
        if not buckets or sizes[number] > room:
            buckets.append([])
            room = limit
        buckets[-1].append(number)
        room -= sizes[number]
    return buckets


class BucketedDataParallel(nn.Module):
    """A model on every rank, whose gradients are means over the ranks after ``backward``.

    Args:
        module: the same weights on every rank; they are taken from rank 0.
        bucket_bytes: most bytes of a message.

    """

    def __init__(self, module: nn.Module, bucket_bytes: int = 2**20) -> None:
        super().__init__()
        self.module = module
        self.learning = [p for p in module.parameters() if p.requires_grad]
        if not self.learning:
            raise ValueError("module: no parameter requires a gradient, so nothing can be averaged")
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), 0)
        sizes = [p.numel() * p.element_size() for p in self.learning]
        self.buckets = make_buckets(sizes, bucket_bytes)
        self.home = {n: b for b, numbers in enumerate(self.buckets) for n in numbers}
        self.missing: list[int] = []
        self.flying: list[tuple[int, Tensor, Any]] = []
        self._begin()
        for number, parameter in enumerate(self.learning):
            parameter.register_post_accumulate_grad_hook(self._arrived(number))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*args, **kwargs)

    def _begin(self) -> None:
        self.missing = [len(numbers) for numbers in self.buckets]
        self.flying = []

    def _arrived(self, number: int) -> Any:
        def hook(_: Tensor) -> None:
            bucket = self.home[number]
            self.missing[bucket] -= 1
            if self.missing[bucket] == 0:
                self._send(bucket)

        return hook

    def _send(self, bucket: int) -> None:
        flat = torch.cat([self.learning[n].grad.flatten() for n in self.buckets[bucket]])  # type: ignore[union-attr]
        self.flying.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def finish(self) -> None:
        """Wait for the messages and put the means in place; call it between backward and step.

        Raises:
            RuntimeError: a parameter had no gradient, so its bucket was never sent: the other ranks
                would wait for it for ever.

        """
        if any(self.missing):
            raise RuntimeError(
                f"{sum(self.missing)} gradients are missing after the backward pass: a parameter "
                "took no part in the loss, and its bucket cannot be sent"
            )
        for bucket, flat, message in self.flying:
            message.wait()
            flat /= dist.get_world_size()
            start = 0
            for number in self.buckets[bucket]:
                gradient = self.learning[number].grad
                assert gradient is not None
                gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
                start += gradient.numel()
        self._begin()
