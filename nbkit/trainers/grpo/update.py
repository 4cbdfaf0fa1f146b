"""The heart of the group-based trainer: the loss of a minibatch, and the gradient steps on a batch.

A minibatch is cut into micro-batches under a budget of tokens. Each gets the counts of the whole
minibatch, so that the gradients of the parts add up to that of the whole.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from nbkit.kl import kl_estimate
from nbkit.losses import cispo_loss, importance_weights, policy_gradient_loss, ppo_clip_loss
from nbkit.masks import aggregate, masked_mean
from nbkit.parallel import Parallel
from nbkit.text.protocols import LanguageModel
from nbkit.trainers.grpo.batch import GroupBatch, advantages
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.logprobs import completion_logprobs, scored_by
from nbkit.trainers.scoring import has_signal
from nbkit.trainers.shares import own_parts, spread_over


def grpo_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    mask: Tensor,
    config: GRPOConfig,
    *,
    ref_logp: Tensor | None = None,
    weights: Tensor | None = None,
    total_tokens: Tensor | float | None = None,
    total_sequences: Tensor | float | None = None,
) -> Tensor:
    """The loss of a batch, or of a part of it that is told the counts of the whole.

    Args:
        logp: (B, T) of the sampled tokens, with gradient.
        old_logp: (B, T) before the update.
        advantages: (B, T) or (B, 1).
        mask: (B, T).
        config: objective, ratio, clip bounds, KL, aggregation.
        ref_logp: (B, T); needed for a KL in the loss.
        weights: (B, T) importance weights of the tokens; None: 1.
        total_tokens: of the whole batch, for "token-mean".
        total_sequences: of the whole batch, for the other modes.

    Returns:
        A scalar.

    Raises:
        ValueError: a KL in the loss without `ref_logp`; shapes that do not fit.

    """
    low, high = config.clip_low, config.clip_high
    if config.objective == "cispo":
        per_token = cispo_loss(logp, old_logp, advantages, clip_low=low, clip_high=high, mask=mask)
    elif config.objective == "policy-gradient":
        per_token = policy_gradient_loss(logp, advantages, mask=mask)
    else:
        per_token = ppo_clip_loss(
            logp, old_logp, advantages,
            clip_low=low or 0.0, clip_high=high, mask=mask, ratio=config.ratio,
        )  # fmt: skip
    if weights is not None:
        per_token = per_token * weights
    if config.kl_coefficient and config.kl_place == "loss":
        if ref_logp is None:
            raise ValueError("ref_logp is missing: kl_coefficient is above 0 and kl_place 'loss'")
        kl = kl_estimate(logp, ref_logp, config.kl_kind, mask=mask)
        if config.kl_ratio:  # -min(r A, clip(r) A) with A = -1 and no bounds is r itself
            minus_one = -torch.ones_like(kl)
            ratio = ppo_clip_loss(
                logp, old_logp, minus_one, clip_low=1.0, clip_high=math.inf, mask=mask,
                ratio=config.ratio,
            )  # fmt: skip
            kl = kl * ratio
        per_token = per_token + config.kl_coefficient * kl
    norm = config.max_new_tokens if config.aggregation == "seq-mean-token-sum-norm" else None
    return aggregate(
        per_token, mask, config.aggregation,
        max_tokens=norm, total_tokens=total_tokens, total_sequences=total_sequences,
    )  # fmt: skip


def prepare(
    model: LanguageModel,
    reference: LanguageModel | None,
    batch: GroupBatch,
    config: GRPOConfig,
    *,
    parallel: Parallel | None = None,
) -> tuple[GroupBatch, Tensor | None, dict[str, float]]:
    """Reference, importance weights and advantages: all that is fixed before the first step.

    Args:
        model: the policy.
        reference: of the KL term, or None.
        batch: as it was sampled.
        config: whose log-probabilities are the old ones, importance cap, KL, advantages.
        parallel: of the policy; None: one device.

    Returns:
        the batch with advantages and old log-probabilities; importance weights (R, T) or None;
        metrics: "kl" (k3 of policy and reference at sampling time, mean of the tokens); where the
        trainer computes the old log-probabilities "sampler_error", the largest |log pi_trainer -
        log pi_sampler| of a token, and with an importance cap "importance_weight" (mean).

    """
    metrics: dict[str, float] = {}
    weights = None
    spread = spread_over(parallel, model)
    if config.recomputes_old:
        trained = scored_by(model, batch, config, parallel=spread)
        if config.importance_cap is not None:
            weights = importance_weights(
                trained, batch.logprobs, batch.mask, high=config.importance_cap
            )
            metrics["importance_weight"] = masked_mean(weights, batch.mask).item()
        apart = torch.where(batch.mask, trained - batch.logprobs, 0.0)
        metrics["sampler_error"] = apart.abs().max().item()
        batch = replace(batch, logprobs=trained)
    penalty = None
    if reference is not None:
        ref = scored_by(reference, batch, config, parallel=spread)
        batch = replace(batch, ref_logprobs=ref)
        distance = kl_estimate(batch.logprobs, ref, "k3", mask=batch.mask)
        metrics["kl"] = masked_mean(distance, batch.mask).item()
        if config.kl_coefficient and config.kl_place == "reward":
            penalty = kl_estimate(batch.logprobs, ref, config.kl_kind, mask=batch.mask)
    fixed = advantages(batch.rewards, batch.mask, config, valid=batch.valid, kl=penalty)
    return replace(batch, advantages=fixed), weights, metrics


def is_silent(batch: GroupBatch, config: GRPOConfig) -> bool:
    """Whether no rewards differ where the configuration compares them: in a group, or anywhere."""
    if not len(batch):
        return True
    size = config.group_size if config.advantage == "group" else len(batch)
    return not bool(has_signal(batch.rewards, batch.valid, size).any())


def in_the_loss(batch: GroupBatch, config: GRPOConfig) -> Tensor:
    """(R,) rows that stand in the denominators: a token counts, the group is not excluded."""
    counted = batch.mask.any(1)
    if config.silent_groups == "exclude":
        signal = has_signal(batch.rewards, batch.valid, config.group_size)
        counted &= signal.repeat_interleave(config.group_size)
    return counted


def accumulate(
    parallel: Parallel, batch: GroupBatch, weights: Tensor | None, config: GRPOConfig
) -> dict[str, float]:
    """Add the gradient of one minibatch to ``.grad``; return sums and extremes of its ratios.

    Rows whose gradient is 0 for certain (advantage 0 and no KL in the loss) stay in the
    denominators, but are not computed. Each rank computes its share of the rows with the counts of
    all.
    """
    model = parallel.model
    total_tokens, total_sequences = batch.mask.sum(), len(batch)
    loss, clipped, error = 0.0, 0.0, 0.0
    live = (batch.advantages != 0).any(1)
    if config.kl_coefficient and config.kl_place == "loss":
        live = torch.ones_like(live)
    rows = live.nonzero()[:, 0]
    attention, limits = batch.attention[rows], (config.micro_tokens, config.micro_rows)
    for part in own_parts(attention, parallel, *limits):
        if part is None:  # the other ranks need this one's shards, and a gradient of 0
            idle = completion_logprobs(model, batch.rows(rows[:1]), config.temperature)
            parallel.backward(0.0 * idle.sum())
            continue
        chosen = rows[part]
        small = batch.rows(chosen)
        logp = completion_logprobs(model, small, config.temperature)
        value = grpo_loss(
            logp,
            small.logprobs,
            small.advantages,
            small.mask,
            config,
            ref_logp=small.ref_logprobs,
            weights=None if weights is None else weights[chosen],
            total_tokens=total_tokens,
            total_sequences=total_sequences,
        )
        parallel.backward(value)
        loss += value.item()
        ratio = _ratio(logp.detach(), small, config)
        clipped += _clipped(ratio, small, config).sum().item()
        error = max(error, (ratio - 1).abs().masked_fill(~small.mask, 0.0).max().item())
    (loss, clipped), error = parallel.total(loss, clipped), parallel.largest(error)
    return {
        "loss": loss,
        "clip_fraction": clipped / max(1, int(total_tokens)),
        "error": error,
        "rows": len(rows),
    }


def _ratio(logp: Tensor, batch: GroupBatch, config: GRPOConfig) -> Tensor:
    difference = torch.where(batch.mask, logp - batch.logprobs, 0.0)
    if config.ratio == "sequence":
        difference = masked_mean(difference, batch.mask, 1)[:, None].expand_as(difference)
    return difference.exp()


def _clipped(ratio: Tensor, batch: GroupBatch, config: GRPOConfig) -> Tensor:
    """Tokens that the clip acts on: their weight (CISPO), or else their gradient."""
    if config.objective == "policy-gradient":
        return torch.zeros_like(batch.mask)
    above = ratio > 1 + config.clip_high
    below = ratio < (-1.0 if config.clip_low is None else 1 - config.clip_low)
    if config.objective == "clip":
        above, below = above & (batch.advantages > 0), below & (batch.advantages < 0)
    return (above | below) & batch.mask


def update(
    parallel: Parallel,
    batch: GroupBatch,
    weights: Tensor | None,
    config: GRPOConfig,
    generator: torch.Generator,
) -> dict[str, float]:
    """Take all gradient steps on one batch; return what happened.

    Args:
        parallel: of the policy, which is changed in place.
        batch: with advantages.
        weights: (R, T) importance weights, or None.
        config: epochs, minibatches, loss.
        generator: of the order of the rows, where there are several minibatches.

    Returns:
        "loss", "gradient_norm" (before clipping), "clip_fraction" (means over the steps taken),
        "ratio_error" (largest |ratio - 1| in the first minibatch, before any step, see
        ``GRPOTrainer``), "steps"; "skipped": minibatches whose loss or gradient is not finite, on
        which no step was taken. If all were, loss and norm are those of the first.

    """
    counted = in_the_loss(batch, config).nonzero()[:, 0]
    seen: list[dict[str, float]] = []
    skipped: list[dict[str, float]] = []
    first: dict[str, float] = {}
    for _ in range(config.epochs if len(counted) else 0):
        order = counted
        if config.minibatches > 1:
            shuffled = torch.randperm(len(counted), generator=generator, device=generator.device)
            order = counted[shuffled.to(counted.device)]
        for rows in order.tensor_split(config.minibatches):
            if not len(rows):
                continue
            part = None if weights is None else weights[rows]
            result = accumulate(parallel, batch.rows(rows), part, config)
            norm = parallel.try_step(config.max_grad_norm) if result["rows"] else 0.0
            which = seen if math.isfinite(norm) else skipped
            which.append({**result, "gradient_norm": norm})
            first = first or which[0]
    told = seen or skipped[:1]
    means = ("loss", "gradient_norm", "clip_fraction")
    return {
        **{name: sum(step[name] for step in told) / max(1, len(told)) for name in means},
        "ratio_error": first.get("error", 0.0),
        "steps": float(len(seen)),
        "skipped": float(len(skipped)),
    }
