"""One device, DDP and FSDP2: the back-ends that come with torch."""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from nbkit.parallel.base import MakeOptimiser, Parallel
from nbkit.parallel.blocks import blocks_of
from nbkit.parallel.filling import filler_of

# Buffers are the same on all ranks and are not sent at each forward pass. The word for that has
# changed with torch 2.13.
_WORDS = inspect.signature(nn.parallel.DistributedDataParallel).parameters
_SYNC = "forward_sync_buffers" if "forward_sync_buffers" in _WORDS else "broadcast_buffers"
_NO_SYNC: dict[str, Any] = {_SYNC: False}


class Single(Parallel):
    """One device. The reference that the others must equal."""

    trains: ClassVar[str] = "everything whole, once"

    def frozen(self, model: nn.Module) -> Any:
        """As in ``Parallel``; its forward pass has the precision of the policy's.

        Whether its parameters take gradients stays as it was: the model is the caller's, who may
        train it, or a copy of it, next.
        """
        _autocast(model, self.config.precision, self.world.device)
        return model.to(self.world.device).eval()

    # What is added up over the ranks is here already. A process group may exist all the same, of
    # processes that each train a model of their own.

    def total(self, *values: float | Tensor) -> list[float]:
        """The values."""
        return [float(value) for value in values]

    def largest(self, value: float) -> float:
        """The value."""
        return float(value)

    def sum(self, values: Tensor) -> Tensor:
        """The tensor."""
        return values

    def everyone(self, value: Any) -> list[Any]:
        """The value alone."""
        return [value]

    def barrier(self) -> None:
        """There is nobody to wait for."""

    def _wrap(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None:
        _autocast(model, self.config.precision, self.world.device)
        self.model = model
        self.optimiser = make_optimiser(p for p in model.parameters() if p.requires_grad)


class DDP(Parallel):
    """Everything whole on each rank; gradients are averaged in buckets during the backward pass."""

    trains: ClassVar[str] = "everything whole on each rank; gradients all-reduced"

    def frozen(self, model: nn.Module) -> Any:
        """As in ``Parallel``; its forward pass has the precision of the policy's."""
        _autocast(model, self.config.precision, self.world.device)
        return super().frozen(model)

    def _wrap(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None:
        device = self.world.device
        _autocast(model, self.config.precision, device)
        self.model = nn.parallel.DistributedDataParallel(
            model,
            device_ids=[device.index] if device.type == "cuda" else None,
            bucket_cap_mb=self.config.bucket_mb,
            gradient_as_bucket_view=True,
            **_NO_SYNC,
        )
        self.optimiser = make_optimiser(p for p in model.parameters() if p.requires_grad)

    def expect(self, *, last: bool) -> None:
        """As in ``Parallel``."""
        self.model.require_backward_grad_sync = last  # what `no_sync` sets


class FSDP2(Parallel):
    """Weights, gradients and optimiser sharded by block; a block is gathered when it is needed.

    HSDP is the same within a group of ranks, by default those of one machine: each group holds a
    copy, and gradients are all-reduced between the groups. Weights then never cross the slower
    network between machines.
    """

    trains: ClassVar[str] = "weights, gradients and state sharded; weights gathered block by block"

    def _wrap(self, model: nn.Module, make_optimiser: MakeOptimiser) -> None:
        self._shard(model)
        self.model = model
        # After sharding: the optimiser must hold the shards, not the tensors that they replace.
        self.optimiser = make_optimiser(p for p in model.parameters() if p.requires_grad)

    def frozen(self, model: nn.Module) -> Any:
        """Shard a model that only scores; its blocks are gathered for each forward pass."""
        self._shard(model.requires_grad_(False).eval())
        return model

    def _place(self, model: nn.Module) -> nn.Module:
        return model  # `fully_shard` moves one block at a time, and frees it when it is cut

    def _mesh(self) -> DeviceMesh:
        """The ranks: a row, or under HSDP one row a copy of the model."""
        kind, size = self.world.device.type, self.world.size
        if self.config.backend != "hsdp":
            return init_device_mesh(kind, (size,))
        row = self.config.shard_size or int(os.environ.get("LOCAL_WORLD_SIZE", str(size)))
        if size % row:
            raise ValueError(
                f"shard_size is {row}; the {size} processes must make up whole groups of that size"
            )
        return init_device_mesh(kind, (size // row, row), mesh_dim_names=("copies", "shards"))

    def _shard(self, model: nn.Module) -> None:
        mesh, filler = self._mesh(), filler_of(self, model)
        low = torch.bfloat16 if self.config.precision == "bfloat16" else None
        options: dict[str, Any] = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=low,
                reduce_dtype=torch.float32,
                # A frozen model hands its scores on in float32 like the policy does.
                cast_forward_inputs=low is not None,
            ),
        }
        for block in blocks_of(model):
            if filler is not None:
                filler.fill(block)
            fully_shard(block, reshard_after_forward=self.config.reshard_after_forward, **options)
        if filler is not None:
            filler.fill(model)
        fully_shard(model, **options)

    def expect(self, *, last: bool) -> None:
        """As in ``Parallel``."""
        # Reduced after every micro-batch: a rank never holds a whole model's gradients. Only the
        # wait for the last messages is put off.
        self.model.set_is_last_backward(last)

    @contextmanager
    def gathered(self) -> Iterator[Any]:
        """All blocks gathered at once, in the precision of the forward pass.

        They stay whole through any number of forward passes, which may differ between ranks: no
        pass sends a message. Entering and leaving is for all ranks.
        """
        sharded = [m for m in self._plain.modules() if isinstance(m, FSDPModule)]
        for module in sharded:
            module.unshard()
            module.set_reshard_after_forward(False, recurse=False)
        try:
            yield self._plain
        finally:
            for module in sharded:
                # The root is gathered throughout a step: that is what its default comes to.
                again = self.config.reshard_after_forward and module is not self._plain
                module.set_reshard_after_forward(again, recurse=False)
                module.reshard()


def _autocast(model: nn.Module, precision: str, device: torch.device) -> None:
    """Run the forward pass in bfloat16; parameters, gradients and optimiser stay float32."""
    if precision == "bfloat16":
        model.forward = torch.autocast(device.type, dtype=torch.bfloat16)(model.forward)
