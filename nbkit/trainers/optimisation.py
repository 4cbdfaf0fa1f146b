"""Optimiser and learning rate of the language-model trainers."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from nbkit.trainers.dpo.config import DPOConfig
    from nbkit.trainers.grpo.config import GRPOConfig
    from nbkit.trainers.rlhf.config import RLHFConfig
    from nbkit.trainers.supervised import SupervisedConfig


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


def adamw_of(
    config: "SupervisedConfig | DPOConfig | GRPOConfig | RLHFConfig", **settings: Any
) -> Callable[[Iterable[nn.Parameter]], torch.optim.AdamW]:
    """What ``Parallel.prepare`` makes its optimiser with.

    Args:
        config: learning rate and weight decay.
        settings: further ones of ``adamw``.

    """

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
        rate, decay = config.learning_rate, config.weight_decay
        return adamw(parameters, rate, weight_decay=decay, **settings)

    return make


def schedule(step: int, steps: int, peak: float, warmup: int) -> float:
    """Learning rate of a step counted from 0: linear warm-up, linear decay to a tenth."""
    warm = min(1.0, (step + 1) / warmup) if warmup else 1.0
    return peak * warm * max(0.1, 1 - step / steps)


def set_rate(optimiser: Any, rate: float) -> None:
    """Give all groups of an optimiser this learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate
