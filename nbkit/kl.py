"""KL divergence from the reference policy: three estimators, and the exact sum.

All of KL(policy || reference), from tokens sampled from the policy. As a *number* each is usable;
as a *loss* they differ, because the tokens were sampled from the policy too and the derivative of
an estimator does not see that (see the page on semantics).
"""

import torch
from torch import Tensor

from nbkit._inputs import bool_mask, check_choice, check_floating, check_same_shape
from nbkit._numerics import clamp_log_ratio


def kl_estimate(
    logp: Tensor,
    ref_logp: Tensor,
    kind: str,
    *,
    mask: Tensor | None = None,
    log_ratio_clamp: float | None = 20.0,
) -> Tensor:
    """One estimate a token of KL(policy || reference), with d = logp - ref_logp.

    "k1" is d: unbiased, often negative, of large variance. "k2" is d^2 / 2: biased, never negative.
    "k3" is exp(-d) - 1 + d: unbiased and never negative. (Schulman, "Approximating KL divergence",
    2020.) The derivative of k1 has expectation 0, that of k2 is the gradient of this KL, that of
    k3 the gradient of KL(reference || policy).

    Args:
        logp: log-probabilities of the sampled tokens under the policy, any shape.
        ref_logp: the same tokens under the reference, same shape.
        kind: "k1" | "k2" | "k3".
        mask: same shape; what does not count is 0.
        log_ratio_clamp: k2 and k3 see d clamped to plus or minus this (k1 is never clamped), and
            their gradient is 0 outside. None: no clamp, but exp stays in the range of the dtype.

    Returns:
        The shape of `logp`.

    Raises:
        ValueError: an unknown kind or shapes that do not fit.
    """
    check_choice("kind", kind, ("k1", "k2", "k3"))
    check_floating("logp", logp)
    check_same_shape("ref_logp", ref_logp, "logp", logp)
    counted = bool_mask(mask, logp, like_name="logp")
    difference = torch.where(counted, logp, 0.0) - torch.where(counted, ref_logp, 0.0)
    if kind == "k1":
        return difference
    if kind == "k2":
        if log_ratio_clamp is not None:
            difference = clamp_log_ratio(difference, log_ratio_clamp)
        return 0.5 * difference.square()
    difference = clamp_log_ratio(difference, log_ratio_clamp)
    # expm1 keeps the digits of small differences; rounding must not take k3 below 0.
    return (torch.expm1(-difference) + difference).clamp(min=0)


def kl_exact(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """KL(policy || reference) summed over the whole vocabulary.

    Args:
        logits: (..., V) of the policy.
        ref_logits: (..., V) of the reference.

    Returns:
        (...). A token that the policy cannot produce adds 0; one that only the reference cannot
        produce makes it inf, as the definition says.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_floating("logits", logits)
    check_same_shape("ref_logits", ref_logits, "logits", logits)
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits must be (..., V) with V > 0; got shape {tuple(logits.shape)}")
    log_policy = logits.log_softmax(-1)
    policy = log_policy.exp()
    log_ratio = torch.where(policy > 0, log_policy - ref_logits.log_softmax(-1), 0.0)
    return (policy * log_ratio).sum(-1)
