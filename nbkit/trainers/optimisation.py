"""Optimiser and learning rate of the language-model trainers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


def adamw(
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
    *,
    betas: tuple[float, float] = (0.9, 0.95),
    weight_decay: float = 0.0,
    fused: bool = True,
) -> torch.optim.AdamW:
    """AdamW of the parameters.

    Args:
        parameters: at least one.
        learning_rate: at the start.
        betas: decay of the means of gradient and squared gradient.
        weight_decay: of AdamW.
        fused: on a GPU take the fused form, which needs no memory beside the moments.

    """
    learning = list(parameters)
    return torch.optim.AdamW(
        learning,
        lr=learning_rate,
        betas=betas,
        weight_decay=weight_decay,
        fused=(fused and learning[0].is_cuda) or None,
    )


def schedule(step: int, steps: int, peak: float, warmup: int) -> float:
    """Learning rate of a step counted from 0: linear warm-up, linear decay to a tenth."""
    warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
    return peak * warm * max(0.1, 1 - step / steps)


def set_rate(optimiser: Any, rate: float) -> None:
    """Give all groups of an optimiser this learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate
