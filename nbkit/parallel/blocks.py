"""The wrap policy: which modules are the blocks, and what is done to each before it is sharded."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from nbkit.parallel.config import ParallelConfig


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks of a model: the children of its longest ``ModuleList``.

    One block a unit: its parameters are gathered together, just before they are needed. Units
    that are too small send many short messages; a unit of the whole model saves nothing.

    Raises:
        ValueError: a model without a list of blocks.

    """
    lists: list[nn.ModuleList] = [
        module for module in model.modules() if isinstance(module, nn.ModuleList)
    ]
    if not lists:
        raise ValueError(
            f"model: {type(model).__name__} holds no nn.ModuleList, so its blocks are unknown"
        )
    longest = max(lists, key=lambda found: len(found))
    return list(longest)


def prepare_blocks(model: nn.Module, config: ParallelConfig) -> None:
    """Checkpoint activations and compile, block by block, in place; names stay as they are."""
    if config.checkpointing == "none" and not config.compile:
        return
    for block in blocks_of(model):
        forward = block.forward
        if config.checkpointing != "none":
            forward = checkpointed(forward, config.checkpointing)
        # The compiler must see the checkpoint: it then chooses among single operations, and it
        # leaves out of the repetition what no gradient needs, such as the last matrix product.
        if config.compile:
            forward = torch.compile(forward)
        block.forward = forward


def checkpointed(forward: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A forward pass that keeps little and computes the rest again in the backward pass."""
    options: dict[str, Any] = {"use_reentrant": False}
    if kind in _KEPT:
        options["context_fn"] = partial(create_selective_checkpoint_contexts, _KEPT[kind])

    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, **options, **kwargs)

    return run


def _keep_costly(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Keep what costs much to compute a byte: matrix products and attention."""
    return (
        CheckpointPolicy.MUST_SAVE if operation in _costly() else CheckpointPolicy.PREFER_RECOMPUTE
    )


def _keep_wide(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Of those only attention and the matrix products that widen: a block's MLP, going up.

    The narrow ones are repeated: as many operations a byte, but few of either.
    """
    if operation in _products():
        weight = args[-1]  # (inputs, outputs)
        kept = weight.shape[-1] > weight.shape[-2]
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
    return _keep_costly(context, operation, *args, **kwargs)


def _products() -> tuple[Any, ...]:
    return torch.ops.aten.mm.default, torch.ops.aten.addmm.default


def _costly() -> set[Any]:
    if not _COSTLY:
        aten = torch.ops.aten
        _COSTLY.update(
            (
                aten.mm.default,
                aten.addmm.default,
                aten.bmm.default,
                aten._scaled_dot_product_flash_attention.default,
                aten._scaled_dot_product_efficient_attention.default,
                aten._scaled_dot_product_cudnn_attention.default,
                aten._scaled_dot_product_flash_attention_for_cpu.default,
            )
        )
    return _COSTLY


_COSTLY: set[Any] = set()
_KEPT = {"selective": _keep_costly, "wide": _keep_wide}
