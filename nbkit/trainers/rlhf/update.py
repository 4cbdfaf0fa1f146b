"""The gradient steps of PPO for language models; the losses are those of chapter 12."""

import math

import torch
from torch import Tensor

from nbkit.diagnostics import explained_variance
from nbkit.losses import ppo_clip_loss, value_loss
from nbkit.masks import aggregate
from nbkit.minibatches import minibatches
from nbkit.parallel import Parallel
from nbkit.trainers.completions import Scorer, align, policy_outputs, value_outputs
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.rlhf.batch import RLHFBatch
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.shares import own_parts

_SUMS = ("policy_loss", "value_loss", "clip_fraction", "value_clip_fraction", "approx_kl")


def policy_loss(
    policy: Scorer,
    batch: RLHFBatch,
    config: RLHFConfig,
    *,
    total_tokens: Tensor | float | None = None,
) -> tuple[Tensor, Tensor | None, Metrics]:
    """Clipped loss of the policy on some rows (arXiv:1707.06347, eq. 7).

    Args:
        policy: with gradient.
        batch: B rows.
        config: clip range, entropy bonus.
        total_tokens: of the whole minibatch, where this is a part of it.

    Returns:
        the loss, a mean over tokens less the entropy bonus; the values (B, t) of a policy that has
        them, else None; parts of means: "policy_loss", "clip_fraction", "approx_kl" (of the new
        from the old policy, mean of (r-1) - log r), and "ratio_error", the largest |r - 1|.

    """
    part = align(batch.ids, batch.attention, batch.mask)
    width, mask = part.mask.shape[1], part.mask
    old_logp, advantages = batch.logprobs[:, :width], batch.advantages[:, :width]
    bonus = config.entropy_coefficient > 0
    logp, values, spread = policy_outputs(policy, part, config.temperature, with_entropy=bonus)
    per_token = ppo_clip_loss(
        logp, old_logp, advantages,
        clip_low=min(config.clip, 1.0), clip_high=config.clip, mask=mask,
    )  # fmt: skip
    loss = aggregate(per_token, mask, "token-mean", total_tokens=total_tokens)
    with torch.no_grad():
        log_ratio = torch.where(mask, logp - old_logp, 0.0)
        ratio = log_ratio.exp()
        above = (ratio > 1 + config.clip) & (advantages > 0)
        below = (ratio < 1 - config.clip) & (advantages < 0)
        clipped = (above | below).to(logp.dtype)
        moved = torch.expm1(log_ratio)
        metrics = {
            "policy_loss": loss.item(),
            "clip_fraction": _share(clipped, mask, total_tokens),
            "approx_kl": _share(moved - log_ratio, mask, total_tokens),
            "ratio_error": moved.abs().max().item(),
        }
    if spread is not None:
        loss = loss - config.entropy_coefficient * aggregate(
            spread, mask, "token-mean", total_tokens=total_tokens
        )
    return loss, values, metrics


def critic_loss(
    values: Tensor,
    batch: RLHFBatch,
    config: RLHFConfig,
    *,
    total_tokens: Tensor | float | None = None,
) -> tuple[Tensor, Metrics]:
    """Squared error of the values, their change clipped (arXiv:1707.06347, eq. 9, and the clip).

    Args:
        values: (B, t) with gradient.
        batch: B rows.
        config: value_clip.
        total_tokens: of the whole minibatch, where this is a part of it.

    Returns:
        the loss, a mean over tokens; parts of means: "value_loss", "value_clip_fraction".

    """
    width = values.shape[1]
    mask, old_values = batch.mask[:, :width], batch.values[:, :width]
    per_token = value_loss(
        values, batch.returns[:, :width], old_values=old_values, clip=config.value_clip, mask=mask
    )
    loss = aggregate(per_token, mask, "token-mean", total_tokens=total_tokens)
    beyond = (values.detach() - old_values).abs() > (config.value_clip or math.inf)
    return loss, {
        "value_loss": loss.item(),
        "value_clip_fraction": _share(beyond.to(values.dtype), mask, total_tokens),
    }


def _share(x: Tensor, mask: Tensor, total_tokens: Tensor | float | None) -> float:
    return aggregate(x, mask, "token-mean", total_tokens=total_tokens).item()


def update(
    policy: Parallel,
    value: Parallel | None,
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
        batch: R rows, all of them on every rank.
        config: epochs, minibatches, losses.
        generator: of the order of the rows, on the CPU.
        policy_learns: False: only the values do.

    Returns:
        means over the gradient steps of the parts of ``policy_loss`` and ``critic_loss``, and of
        the gradient norms before clipping ("gradient_norm", and "value_gradient_norm" of a separate
        value model);
        "ratio_error" of the first minibatch, before any step; "explained_variance" of the values
        that were predicted at sampling time; "steps" that were taken, and "skipped": minibatches
        with a loss or a gradient that is not finite, on which the policy took none. Means are over
        the steps that were taken; if there was none, they are those of the first minibatch.

    """
    counted = batch.mask.any(1).nonzero()[:, 0]
    seen: list[Metrics] = []
    size = math.ceil(len(batch) / config.minibatches)
    for _ in range(config.epochs if len(counted) else 0):
        for order in minibatches(len(counted), size, generator):
            rows = counted[order.to(counted.device)]
            seen.append(gradient_step(policy, value, batch.rows(rows), config, policy_learns))
    if not seen:
        return {"steps": 0.0, "skipped": 0.0}
    taken = [step for step in seen if _finite(step)]
    told = taken or seen[:1]
    names = [name for name in seen[0] if name != "ratio_error"]
    return {
        **{name: sum(step[name] for step in told) / len(told) for name in names},
        "ratio_error": seen[0]["ratio_error"],
        "explained_variance": explained_variance(
            batch.values[batch.mask], batch.returns[batch.mask]
        ),
        "steps": float(len(taken)),
        "skipped": float(len(seen) - len(taken)),
    }


def _finite(step: Metrics) -> bool:
    """Whether no gradient was refused; one of a loss that is not finite is nan."""
    return all(math.isfinite(step[name]) for name in step if name.endswith("gradient_norm"))


def gradient_step(
    policy: Parallel,
    value: Parallel | None,
    batch: RLHFBatch,
    config: RLHFConfig,
    policy_learns: bool,
) -> Metrics:
    """One gradient step on a minibatch, of which each rank computes its share of the rows.

    Args:
        policy: what learns.
        value: of the values; None: the policy's own value head, on its trunk.
        batch: the minibatch; its counts are those of all ranks.
        config: losses.
        policy_learns: False: only the values do.

    """
    total = batch.mask.sum()
    learners = [policy] if value is None else [policy, value]
    sums, largest = dict.fromkeys(_SUMS, 0.0), 0.0
    parts = list(own_parts(batch.attention, policy, config.micro_tokens, config.micro_rows))
    for number, chosen in enumerate(parts):
        for learner in learners:
            learner.expect(last=number == len(parts) - 1)
        idle = chosen is None  # the other ranks need this one's shards, and a gradient of 0
        rows = batch.rows(torch.zeros(1, dtype=torch.long) if chosen is None else chosen)
        weight = 0.0 if idle else 1.0
        with torch.set_grad_enabled(policy_learns or value is None):
            loss, values, metrics = policy_loss(policy.model, rows, config, total_tokens=total)
        if value is not None:
            # One model after the other: their activations need not lie in memory together.
            if policy_learns:
                policy.backward(weight * loss)
            del loss
            values = value_outputs(value.model, align(rows.ids, rows.attention, rows.mask))
            error, critic = critic_loss(values, rows, config, total_tokens=total)
            value.backward(weight * error)
        else:
            assert values is not None  # the trainer asks for a value head
            error, critic = critic_loss(values, rows, config, total_tokens=total)
            error = config.value_coefficient * error
            policy.backward(weight * (error + loss if policy_learns else error))
        if not idle:
            metrics |= critic
            sums = {name: sums[name] + metrics[name] for name in _SUMS}
            largest = max(largest, metrics["ratio_error"])
    moved = policy_learns or value is None
    norms = {"gradient_norm": policy.try_step(config.max_grad_norm) if moved else 0.0}
    if value is not None:
        norms["value_gradient_norm"] = value.try_step(config.max_grad_norm)
    whole = policy.total(*sums.values())
    return {
        **dict(zip(sums, whole, strict=True)),
        **norms,
        "ratio_error": policy.largest(largest),
    }
