"""A model as it was before a back-end prepared it, to send to another process."""

import copy

from torch import nn


def without_patches(model: nn.Module) -> nn.Module:
    """A model that shares all tensors, but not the functions that a back-end hung onto modules.

    Precision, checkpointing and compilation replace ``forward`` of a module by a function that
    belongs to this process and cannot travel; the sampler wants none of them.
    """
    plain = copy.copy(model)
    plain.__dict__ = {
        name: value
        for name, value in vars(model).items()
        if name not in ("forward", "scores_tokens")
    }
    plain.__dict__["_modules"] = {
        name: None if child is None else without_patches(child)
        for name, child in model._modules.items()
    }
    return plain
