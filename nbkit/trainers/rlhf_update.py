"""The gradient steps of PPO for language models; the losses are those of chapter 12."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from nbkit.losses import ppo_clip_loss, value_loss
from nbkit.masks import aggregate
from nbkit.policies_value import ScalarModel
from nbkit.rollouts_control import minibatches
from nbkit.trainers.ppo_diagnostics import explained_variance
from nbkit.trainers.rlhf_batch import RLHFBatch, micro_batches
from nbkit.trainers.rlhf_config import RLHFConfig
from nbkit.trainers.rlhf_models import align, policy_outputs, value_outputs

Metrics = dict[str, float]
_SUMS = ("policy_loss", "value_loss", "clip_fraction", "value_clip_fraction", "approx_kl")


def losses(
    policy: Any,
    value: ScalarModel | None,
    batch: RLHFBatch,
    config: RLHFConfig,
    *,
    total_tokens: Tensor | float | None = None,
) -> tuple[Tensor, Tensor, Metrics]:
    """Loss of the policy and of the values on some rows (arXiv:1707.06347, eq. 7 and 9).

    Args:
        policy: with gradient.
        value: with gradient; None: the policy's own value head.
        batch: B rows.
        config: clip ranges, coefficients.
        total_tokens: of the whole minibatch, where this is a part of it.

    Returns:
        policy loss (the entropy bonus included) and value loss: scalars, means over tokens; and
        parts of means: "policy_loss", "value_loss", "clip_fraction", "value_clip_fraction",
        "approx_kl" (of the new from the old policy, mean of (r-1) - log r), and "ratio_error",
        the largest |r - 1|.

    """
    part = align(batch.ids, batch.attention, batch.mask)
    width, mask = part.mask.shape[1], part.mask
    old_logp, old_values = batch.logprobs[:, :width], batch.values[:, :width]
    bonus = config.entropy_coefficient > 0
    logp, values, spread = policy_outputs(policy, part, config.temperature, with_entropy=bonus)
    if value is not None:
        values = value_outputs(value, part)
    if values is None:
        raise ValueError("value is missing: this policy has no value head")
    per_token = ppo_clip_loss(
        logp, old_logp, batch.advantages[:, :width],
        clip_low=min(config.clip, 1.0), clip_high=config.clip, mask=mask,
    )  # fmt: skip

    def mean(x: Tensor) -> Tensor:
        return aggregate(x, mask, "token-mean", total_tokens=total_tokens)

    policy_part = mean(per_token)
    value_part = mean(
        value_loss(
            values, batch.returns[:, :width], old_values=old_values, clip=config.value_clip,
            mask=mask,
        )
    )  # fmt: skip
    with torch.no_grad():
        log_ratio = torch.where(mask, logp - old_logp, 0.0)
        moved = (values - old_values).abs()
        ratio_error = (torch.expm1(log_ratio)).abs().max().item()
        above = (log_ratio.exp() > 1 + config.clip) & (batch.advantages[:, :width] > 0)
        below = (log_ratio.exp() < 1 - config.clip) & (batch.advantages[:, :width] < 0)
        beyond = moved > (config.value_clip or math.inf)
        metrics = {
            "policy_loss": policy_part.item(),
            "value_loss": value_part.item(),
            "clip_fraction": mean((above | below).to(logp.dtype)).item(),
            "value_clip_fraction": mean(beyond.to(logp.dtype)).item(),
            "approx_kl": mean(torch.expm1(log_ratio) - log_ratio).item(),
            "ratio_error": ratio_error,
        }
    if spread is not None:
        policy_part = policy_part - config.entropy_coefficient * mean(spread)
    return policy_part, value_part, metrics


def update(
    policy: Any,
    value: ScalarModel | None,
    optimiser: Any,
    batch: RLHFBatch,
    config: RLHFConfig,
    generator: torch.Generator,
    *,
    policy_learns: bool = True,
) -> Metrics:
    """Take all gradient steps on one batch; return what happened.

    Args:
        policy: changed in place.
        value: changed in place; None: the policy's own value head.
        optimiser: of the parameters of both, a group for each model.
        batch: R rows.
        config: epochs, minibatches, losses.
        generator: of the order of the rows, on the CPU.
        policy_learns: False: only the values do.

    Returns:
        means over the gradient steps of the parts of ``losses`` and of the gradient norms before
        clipping ("gradient_norm", and "value_gradient_norm" of a separate value model);
        "ratio_error" of the first minibatch, before any step; "explained_variance" of the values
        that were predicted at sampling time; "steps".

    Raises:
        RuntimeError: a gradient that is not finite; no step is taken on it.

    """
    counted = batch.mask.any(1).nonzero()[:, 0]
    seen: list[Metrics] = []
    size = math.ceil(len(batch) / config.minibatches)
    for _ in range(config.epochs if len(counted) else 0):
        for order in minibatches(len(counted), size, generator):
            rows = counted[order.to(counted.device)]
            seen.append(_step(policy, value, optimiser, batch.rows(rows), config, policy_learns))
    if not seen:
        return {"steps": 0.0}
    names = [name for name in seen[0] if name != "ratio_error"]
    return {
        **{name: sum(step[name] for step in seen) / len(seen) for name in names},
        "ratio_error": seen[0]["ratio_error"],
        "explained_variance": explained_variance(
            batch.values[batch.mask], batch.returns[batch.mask]
        ),
        "steps": float(len(seen)),
    }


def _step(
    policy: Any,
    value: ScalarModel | None,
    optimiser: Any,
    batch: RLHFBatch,
    config: RLHFConfig,
    policy_learns: bool,
) -> Metrics:
    total = batch.mask.sum()
    optimiser.zero_grad()
    sums = dict.fromkeys(_SUMS, 0.0)
    error = 0.0
    for rows in micro_batches(batch.attention, config.micro_tokens):
        policy_part, value_part, metrics = losses(
            policy, value, batch.rows(rows), config, total_tokens=total
        )
        # Separate models have separate gradients, and AdamW forgets a constant factor.
        factor = config.value_coefficient if value is None else 1.0
        loss = factor * value_part
        if policy_learns:
            loss = loss + policy_part
        loss.backward()
        sums = {name: sums[name] + metrics[name] for name in _SUMS}
        error = max(error, metrics["ratio_error"])
    norms = _clip(optimiser, config.max_grad_norm)
    optimiser.step()
    return {**sums, **norms, "ratio_error": error}


def _clip(optimiser: Any, limit: float | None) -> Metrics:
    """Clip the gradient of each model by itself; the norms before."""
    norms: Metrics = {}
    for name, group in zip(
        ("gradient_norm", "value_gradient_norm"), optimiser.param_groups, strict=False
    ):
        norm = nn.utils.clip_grad_norm_(group["params"], limit or math.inf).item()
        if not math.isfinite(norm):
            raise RuntimeError(
                f"{name} is {norm}; look at the scores, the learning rate and the "
                "log-probabilities of this batch"
            )
        norms[name] = norm
    return norms
