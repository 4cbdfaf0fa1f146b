"""Weights that the first rank has read reach the others, unit by unit; those hold shapes alone.

If each rank read a model of 7B parameters, the eight of a machine would hold 244 GB of float32.
So ranks other than the first make it on torch's device "meta", where a tensor has a shape and no
memory, and a back-end fills it when it is placed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

if TYPE_CHECKING:
    from nbkit.parallel.base import Parallel

Table = dict[str, Any]  # a module's own parameters or buffers


def has_shapes_alone(model: nn.Module) -> bool:
    """Whether some tensor of a model has no memory."""
    return any(x.is_meta for _, _, x in _tensors(model))


class Filler:
    """Places the tensors of a model on a device, from the first rank to all; ties stay ties.

    Every rank makes one and calls ``fill`` for the same units in the same order.

    Args:
        model: real on the first rank.
        device: where its tensors are put.

    Raises:
        ValueError: the first rank's has no weights either.

    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._device, self._rank = device, dist.get_rank()
        if self._rank == 0 and has_shapes_alone(model):
            raise ValueError("model: the first rank must have its weights; it has shapes alone")
        # By identity, while all of them are alive: who has the same tensor.
        self._owners: dict[int, list[tuple[Table, str]]] = {}
        for table, name, tensor in _tensors(model):
            self._owners.setdefault(id(tensor), []).append((table, name))

    def fill(self, unit: nn.Module) -> nn.Module:
        """Place what of a unit (a block, or the whole model) is not placed yet."""
        for _, _, tensor in list(_tensors(unit)):
            owners = self._owners.pop(id(tensor), ())
            if owners:
                placed = self._placed(tensor)
                for table, name in owners:
                    table[name] = placed
        return unit

    def _placed(self, tensor: Tensor) -> Tensor:
        plain = tensor.detach()
        if self._rank == 0:
            plain = plain.to(self._device).contiguous()
        else:
            plain = torch.empty(plain.shape, dtype=plain.dtype, device=self._device)
        dist.broadcast(plain, 0)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(plain, requires_grad=tensor.requires_grad)
        return plain


def filler_of(parallel: "Parallel", model: nn.Module) -> Filler | None:
    """What gives a model its weights, if some rank has none of them; every rank calls this."""
    needed = parallel.largest(float(has_shapes_alone(model)))
    return Filler(model, parallel.world.device) if needed else None


def _tensors(model: nn.Module) -> Iterator[tuple[Table, str, Tensor]]:
    """Each tensor with the place where it stands; one that is tied comes once a place."""
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield table, name, tensor
