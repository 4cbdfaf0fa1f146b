"""Learning from samples of an older policy: the decoupled objective, and what its weights leave."""

from torch import Tensor

from nbkit._inputs import bool_mask, check_floating, check_same_shape
from nbkit.losses import importance_weights, ppo_clip_loss


def decoupled_ppo_loss(
    logp: Tensor,
    proximal_logp: Tensor,
    behaviour_logp: Tensor,
    advantages: Tensor,
    *,
    cap: float | None = 2.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    mask: Tensor | None = None,
    log_ratio_clamp: float | None = 20.0,
) -> Tensor:
    """-w min(r A, clip(r, 1 - low, 1 + high) A) with two old policies in place of PPO's one.

    r = pi / pi_prox, w = min(pi_prox / pi_behave, cap). The clip keeps the step near the proximal
    policy, and the weight corrects for the behaviour policy, which sampled (Hilton et al.,
    arXiv:2110.00641, section 3; AReaL, arXiv:2505.24298, section 5.2). Neither paper's formula
    bounds the weight: the cap is truncated importance sampling (Ionides, 2008). Where both policies
    are one, this is ``nbkit.losses.ppo_clip_loss``.

    Args:
        logp: (B,T) log-probabilities of the sampled tokens under the policy that is trained.
        proximal_logp: (B,T) under the proximal policy: the trainer's before its first step on the
            batch.
        behaviour_logp: (B,T) under the policy that sampled them.
        advantages: (B,T), or (B,1).
        cap: upper bound of the weight; None: none.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        mask: (B,T).
        log_ratio_clamp: log-ratio and log-weight are clamped to plus or minus this before exp;
            None: not.

    Returns:
        (B,T), 0 where the mask is 0. The gradient reaches `logp` alone.

    Raises:
        ValueError: shapes that do not fit, bounds that make no sense.

    """
    check_floating("logp", logp, ndim=2)
    for name, other in (("proximal_logp", proximal_logp), ("behaviour_logp", behaviour_logp)):
        check_same_shape(name, other, "logp", logp)
    weight = importance_weights(
        proximal_logp, behaviour_logp, mask, high=cap, log_ratio_clamp=log_ratio_clamp
    )
    loss = ppo_clip_loss(
        logp,
        proximal_logp,
        advantages,
        clip_low=clip_low,
        clip_high=clip_high,
        mask=mask,
        log_ratio_clamp=log_ratio_clamp,
    )
    return weight * loss


def effective_sample_size(weights: Tensor, mask: Tensor | None = None) -> float:
    """(sum w)^2 / (n sum w^2): the share of n weighted samples that as many equal ones would be.

    By it a weighted mean of values that have nothing to do with the weights has the variance of a
    plain mean over that share of the samples (Kong, 1992; Owen, "Monte Carlo theory, methods and
    examples", section 9.3). 1: all weights are equal; 1/n: one weight is all there is.

    Args:
        weights: at least 0, any shape.
        mask: the shape of `weights`.

    Returns:
        In (0, 1]; NaN where no weight counts, or all are 0: there is nothing to share.

    Raises:
        ValueError: a mask of another shape, weights below 0 or not finite.

    """
    check_floating("weights", weights)
    counted = bool_mask(mask, weights, like_name="weights")
    kept = weights.detach()[counted].double()
    if not bool((kept.isfinite() & (kept >= 0)).all()):
        raise ValueError("weights must be finite and at least 0 where the mask counts them")
    if not bool((kept > 0).any()):
        return float("nan")
    kept = kept / kept.max()  # their squares then stay in range
    return (kept.mean().square() / kept.square().mean()).item()
