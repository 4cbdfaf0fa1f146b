"""The tensors of a checkpoint: whole ones from shards, and empty ones to be read into."""

from typing import Any

import torch
from torch import Tensor


def whole(value: Any) -> Tensor:
    """The whole of a tensor that may be sharded; a collective operation if it is."""
    full = getattr(value, "full_tensor", None)
    tensor: Tensor = value if full is None else full()
    return tensor.detach()


def like(kind: str, parameter: Tensor, groups: list[dict[str, Any]]) -> Tensor:
    """An empty tensor for one kind of a parameter's optimiser state, as torch would make it.

    Args:
        kind: "exp_avg", "step" and so on.
        parameter: what the optimiser steps.
        groups: the optimiser's.

    """
    if kind == "step":  # a count, the same for all
        return torch.zeros((), dtype=torch.float32, device=count_beside(parameter, groups))
    return torch.zeros_like(parameter.detach())


def count_beside(parameter: Tensor, groups: list[dict[str, Any]]) -> torch.device:
    """Where torch keeps the number of steps of a parameter.

    A kernel that steps without the CPU ("fused", "capturable") needs it on its own device; for all
    others a number on the CPU costs least.

    Args:
        parameter: what the optimiser steps.
        groups: the optimiser's.

    """
    beside = any(group.get("fused") or group.get("capturable") for group in groups)
    return parameter.device if beside else torch.device("cpu")
