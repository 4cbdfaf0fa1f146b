"""The losses, one value an element and unreduced: `nbkit.masks.aggregate` reduces them.

Gradients flow through the policy's log-probabilities (or the predicted values or rewards) alone.
Old log-probabilities, advantages and returns are data: a gradient through them is cut here, so that
`old_logp=logp` gives the first step's gradient and not 0.
"""

import torch
from torch import Tensor

from nbkit._inputs import (
    bool_mask,
    check_choice,
    check_floating,
    check_number,
    check_same_shape,
    expand_advantages,
)
from nbkit._numerics import clamp_log_ratio
from nbkit.masks import masked_mean
from nbkit.preference_losses import preference_loss as preference_loss
from nbkit.preference_losses import reward_model_loss as reward_model_loss
from nbkit.preference_losses import simpo_loss as simpo_loss


def policy_gradient_loss(logp: Tensor, advantages: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """-A log pi: its gradient is the policy gradient (Williams, 1992; Sutton et al., 2000).

    Args:
        logp: (B,T) log-probabilities of the chosen tokens, or (N,) of actions.
        advantages: the shape of `logp`, or (B,1).
        mask: the shape of `logp`.

    Returns:
        The shape of `logp`, 0 where the mask is 0.

    Raises:
        ValueError: shapes that do not fit; (B,) advantages beside (B,T).
    """
    check_floating("logp", logp)
    counted = bool_mask(mask, logp, like_name="logp")
    return -expand_advantages(advantages, logp, counted) * torch.where(counted, logp, 0.0)


def ppo_clip_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    mask: Tensor | None = None,
    ratio: str = "token",
    log_ratio_clamp: float | None = 20.0,
) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A) (Schulman et al., arXiv:1707.06347, eq. 7).

    Args:
        logp: (B,T) log-probabilities of the chosen tokens, or (N,) of actions.
        old_logp: the same under the policy that sampled them.
        advantages: the shape of `logp`, or (B,1).
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        dual_clip: for negative advantages the loss is at most -dual_clip * A
            (arXiv:1912.09729); more than 1.
        mask: the shape of `logp`.
        ratio: "token", or "sequence": the geometric mean over a response's tokens, whose gradient
            reaches each of them through s * exp(logp - sg[logp]) (GSPO, arXiv:2507.18071,
            section 4.3); needs a mask and (B,T).
        log_ratio_clamp: the log-ratio is clamped to plus or minus this before exp; None: not.

    Returns:
        The shape of `logp`, 0 where the mask is 0.

    Raises:
        ValueError: shapes that do not fit, an unknown `ratio`, a missing mask, bounds that make no
            sense.
    """
    check_choice("ratio", ratio, ("token", "sequence"))
    check_number("clip_low", clip_low, 0.0, 1.0)
    check_number("clip_high", clip_high, 0.0)
    if dual_clip is not None:
        check_number("dual_clip", dual_clip, 1.0, open_low=True)
    log_ratio, counted = _log_ratio(logp, old_logp, mask)
    advantages = expand_advantages(advantages, logp, counted)
    if ratio == "sequence":
        log_ratio = _sequence_log_ratio(log_ratio, mask)
    r = clamp_log_ratio(log_ratio, log_ratio_clamp).exp()
    loss = -torch.minimum(r * advantages, r.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if dual_clip is not None:
        bounded = torch.minimum(loss, -dual_clip * advantages)
        loss = torch.where(advantages < 0, bounded, loss)
    return torch.where(counted, loss, 0.0)


def cispo_loss(
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    *,
    clip_low: float | None,
    clip_high: float | None,
    mask: Tensor | None = None,
    bounds: str = "relative",
    log_ratio_clamp: float | None = 20.0,
) -> Tensor:
    """-sg[clip(r)] A log pi: a clipped weight, never a clipped gradient (arXiv:2506.13585, eq. 4).

    Args:
        logp: (B,T) log-probabilities of the chosen tokens, or (N,) of actions.
        old_logp: the same under the policy that sampled them.
        advantages: the shape of `logp`, or (B,1).
        clip_low: the lower bound of the weight; None: no lower bound.
        clip_high: the upper bound; None: no upper bound.
        mask: the shape of `logp`.
        bounds: "relative" means 1 - clip_low and 1 + clip_high (verl, NeMo RL); "absolute" means
            clip_low and clip_high themselves (TRL, which has no lower bound).
        log_ratio_clamp: the log-ratio is clamped to plus or minus this before exp; None: not.

    Returns:
        The shape of `logp`, 0 where the mask is 0.

    Raises:
        ValueError: shapes that do not fit, unknown `bounds`, or bounds that make no sense.
    """
    check_choice("bounds", bounds, ("relative", "absolute"))
    low, high = clip_low, clip_high
    for name, bound in (("clip_low", low), ("clip_high", high)):
        if bound is not None:
            check_number(name, bound, 0.0)
    if bounds == "relative":
        low = None if low is None else 1 - low
        high = None if high is None else 1 + high
    log_ratio, counted = _log_ratio(logp, old_logp, mask)
    weight = clamp_log_ratio(log_ratio.detach(), log_ratio_clamp).exp()
    weight = _bounded(weight, low, high)
    advantages = expand_advantages(advantages, logp, counted)
    return -weight * (advantages * torch.where(counted, logp, 0.0))


def value_loss(
    values: Tensor,
    returns: Tensor,
    *,
    old_values: Tensor | None = None,
    clip: float | None = None,
    form: str = "max",
    mask: Tensor | None = None,
) -> Tensor:
    """Squared error of the value prediction, with PPO's clip of its change on request.

    Args:
        values: predictions, any shape.
        returns: their targets, same shape.
        old_values: the predictions at sampling time, same shape; needed with `clip`.
        clip: how far a prediction may move from the old one; None: any distance.
        form: "max" is half the larger of both squares (CleanRL, TRL, OpenRLHF, verl); "clipped" the
            square of the clipped prediction alone, without the half (Stable-Baselines3).
        mask: same shape.

    Returns:
        The shape of `values`, 0 where the mask is 0.

    Raises:
        ValueError: shapes that do not fit, an unknown `form`, `clip` without `old_values`.
    """
    check_choice("form", form, ("max", "clipped"))
    check_floating("values", values)
    check_same_shape("returns", returns, "values", values)
    counted = bool_mask(mask, values, like_name="values")
    values = torch.where(counted, values, 0.0)
    returns = torch.where(counted, returns.detach(), 0.0)
    squares = (values - returns).square()
    if clip is None:
        return squares if form == "clipped" else 0.5 * squares
    check_number("clip", clip, 0.0)
    if old_values is None:
        raise ValueError("old_values is missing: clip bounds the change from them")
    check_same_shape("old_values", old_values, "values", values)
    old_values = torch.where(counted, old_values.detach(), 0.0)
    clipped = (old_values + (values - old_values).clamp(-clip, clip) - returns).square()
    return clipped if form == "clipped" else 0.5 * torch.maximum(squares, clipped)


def importance_weights(
    train_logp: Tensor,
    rollout_logp: Tensor,
    mask: Tensor | None,
    *,
    mode: str = "truncate",
    level: str = "token",
    low: float | None = None,
    high: float | None = 2.0,
    log_ratio_clamp: float | None = 20.0,
) -> Tensor:
    """Weights that correct for a sampler whose log-probabilities differ from the trainer's.

    Args:
        train_logp: (B,T) of the sampled tokens, computed by the trainer before its update.
        rollout_logp: (B,T) of the same tokens, reported by the sampler.
        mask: (B,T); None counts every token.
        mode: "truncate" clamps the weight to [low, high]; "mask" makes it 0 outside.
        level: "token"; "sequence", the product over a response; "geometric", the geometric mean.
        low: lower bound or None.
        high: upper bound or None.
        log_ratio_clamp: the log-weight is clamped to plus or minus this before exp; None: not.

    Returns:
        (B,T) without gradient, 0 where the mask is 0. Sequence weights stand on each token.

    Raises:
        ValueError: shapes that do not fit, unknown choices, low above high.
    """
    check_choice("mode", mode, ("truncate", "mask"))
    check_choice("level", level, ("token", "sequence", "geometric"))
    check_floating("train_logp", train_logp, ndim=2)
    check_same_shape("rollout_logp", rollout_logp, "train_logp", train_logp)
    counted = bool_mask(mask, train_logp, like_name="train_logp")
    low_bound = 0.0 if low is None else low
    check_number("low", low_bound, 0.0)
    check_number("high", float("inf") if high is None else high, low_bound)
    log_weight = torch.where(counted, train_logp.detach(), 0.0)
    log_weight = log_weight - torch.where(counted, rollout_logp.detach(), 0.0)
    if level == "sequence":
        log_weight = log_weight.sum(1, keepdim=True).expand_as(counted)
    elif level == "geometric":
        log_weight = masked_mean(log_weight, counted, 1)[:, None].expand_as(counted)
    weight = clamp_log_ratio(log_weight, log_ratio_clamp).exp()
    if mode == "truncate":
        weight = _bounded(weight, low, high)
    else:
        weight = torch.where(weight == _bounded(weight, low, high), weight, 0.0)
    return torch.where(counted, weight, 0.0)


def _log_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """logp - sg[old_logp], 0 where the mask is 0; and the mask."""
    check_floating("logp", logp)
    check_same_shape("old_logp", old_logp, "logp", logp)
    counted = bool_mask(mask, logp, like_name="logp")
    old_logp = torch.where(counted, old_logp.detach(), 0.0)
    return torch.where(counted, logp, 0.0) - old_logp, counted


def _sequence_log_ratio(log_ratio: Tensor, mask: Tensor | None) -> Tensor:
    """The mean log-ratio of each response on all of its tokens, with the gradient of each token."""
    if mask is None:
        raise ValueError("mask is missing: ratio='sequence' averages over the tokens of a response")
    if log_ratio.ndim != 2:
        raise ValueError(f"logp must be (B,T) for ratio='sequence'; got {tuple(log_ratio.shape)}")
    sequence = masked_mean(log_ratio.detach(), mask, 1)[:, None]
    # -inf - -inf is nan: a token that is impossible now would spoil its whole response.
    own = torch.where(log_ratio.isfinite(), log_ratio - log_ratio.detach(), 0.0)
    return sequence + own


def _bounded(weight: Tensor, low: float | None, high: float | None) -> Tensor:
    return weight if low is None and high is None else weight.clamp(low, high)
