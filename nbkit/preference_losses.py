"""The losses of learning from comparisons, one value a pair and unreduced."""

from torch import Tensor
from torch.nn.functional import logsigmoid, relu

from nbkit._inputs import (
    check_choice,
    check_floating,
    check_number,
    check_same_shape,
)


def reward_model_loss(
    chosen: Tensor,
    rejected: Tensor,
    *,
    margin: Tensor | float | None = None,
    centre_coefficient: float = 0.0,
) -> Tensor:
    """-log sigmoid(chosen - rejected - margin): Bradley-Terry (arXiv:2203.02155, eq. 1).

    Args:
        chosen: (B,) scores of the preferred responses.
        rejected: (B,) scores of the others.
        margin: one number, or (B,), by which the first should win (arXiv:2307.09288, eq. 2).
        centre_coefficient: adds this times (chosen + rejected)^2, which fixes the free constant of
            the scores (arXiv:2312.09244).

    Returns:
        (B,).

    Raises:
        ValueError: shapes that do not fit.
    """
    check_floating("chosen", chosen, ndim=1)
    check_same_shape("rejected", rejected, "chosen", chosen)
    if isinstance(margin, Tensor) and margin.ndim:
        check_same_shape("margin", margin, "chosen", chosen)
    gap = chosen - rejected
    if margin is not None:
        gap = gap - margin
    loss = -logsigmoid(gap)
    if centre_coefficient:
        loss = loss + centre_coefficient * (chosen + rejected).square()
    return loss


def preference_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    *,
    beta: float,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    chosen_tokens: Tensor | None = None,
    rejected_tokens: Tensor | None = None,
) -> Tensor:
    """Direct preference optimisation and its kin, on log-probabilities *summed* over a response.

    With D = (chosen - ref_chosen) - (rejected - ref_rejected) and e the label smoothing:

    ============  =====================================================================
    sigmoid       -(1 - e) log s(beta D) - e log s(-beta D): DPO (arXiv:2305.18290, eq. 7),
                  with e > 0 conservative DPO
    robust        the same with the second sign reversed, divided by 1 - 2e: unbiased under
                  labels flipped with rate e (arXiv:2403.00409)
    hinge         max(0, 1 - beta D) (arXiv:2305.10425)
    ipo           (D - 1 / (2 beta))^2 (arXiv:2310.12036, eq. 17)
    ipo-average   the same with each log-ratio divided by its number of tokens (TRL)
    ============  =====================================================================

    Args:
        chosen_logp: (B,).
        rejected_logp: (B,).
        ref_chosen_logp: (B,).
        ref_rejected_logp: (B,).
        beta: more than 0.
        kind: see above.
        label_smoothing: 0 to 0.5, for "sigmoid" and "robust" (there less than 0.5).
        chosen_tokens: (B,) response lengths, for "ipo-average"; at least 1 is used.
        rejected_tokens: (B,), likewise.

    Returns:
        (B,).

    Raises:
        ValueError: shapes that do not fit, an unknown kind, missing counts, or smoothing where
            none is defined.
    """
    check_choice("kind", kind, ("sigmoid", "robust", "hinge", "ipo", "ipo-average"))
    check_number("beta", beta, 0.0, open_low=True)
    check_number("label_smoothing", label_smoothing, 0.0, 0.5)
    check_floating("chosen_logp", chosen_logp, ndim=1)
    check_same_shape("rejected_logp", rejected_logp, "chosen_logp", chosen_logp)
    check_same_shape("ref_chosen_logp", ref_chosen_logp, "chosen_logp", chosen_logp)
    check_same_shape("ref_rejected_logp", ref_rejected_logp, "chosen_logp", chosen_logp)
    chosen, rejected = chosen_logp - ref_chosen_logp, rejected_logp - ref_rejected_logp
    if kind == "ipo-average":
        chosen = chosen / _token_counts("chosen_tokens", chosen_tokens, chosen)
        rejected = rejected / _token_counts("rejected_tokens", rejected_tokens, rejected)
    margin = chosen - rejected
    smooth = label_smoothing
    if kind == "sigmoid":
        return -(1 - smooth) * logsigmoid(beta * margin) - smooth * logsigmoid(-beta * margin)
    if kind == "robust":
        if smooth == 0.5:
            raise ValueError("label_smoothing must be less than 0.5 for kind 'robust'; got 0.5")
        both = -(1 - smooth) * logsigmoid(beta * margin) + smooth * logsigmoid(-beta * margin)
        return both / (1 - 2 * smooth)
    if smooth:
        raise ValueError(f"label_smoothing is not defined for kind {kind!r}; got {smooth}")
    if kind == "hinge":
        return relu(1 - beta * margin)
    return (margin - 1 / (2 * beta)).square()


def simpo_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    chosen_tokens: Tensor,
    rejected_tokens: Tensor,
    *,
    beta: float,
    margin: float = 0.0,
) -> Tensor:
    """SimPO (arXiv:2405.14734, eq. 6): log-probabilities a token, a margin, and no reference.

    -log s(beta (chosen_logp / chosen_tokens - rejected_logp / rejected_tokens) - margin)

    Args:
        chosen_logp: (B,) summed over the response.
        rejected_logp: (B,) likewise.
        chosen_tokens: (B,) response lengths; at least 1 is used.
        rejected_tokens: (B,), likewise.
        beta: more than 0; the paper's settings are 2 to 10.
        margin: by which the chosen response should win, the paper's gamma.

    Returns:
        (B,).

    Raises:
        ValueError: shapes that do not fit.
    """
    check_number("beta", beta, 0.0, open_low=True)
    check_number("margin", margin, 0.0)
    check_floating("chosen_logp", chosen_logp, ndim=1)
    check_same_shape("rejected_logp", rejected_logp, "chosen_logp", chosen_logp)
    chosen = chosen_logp / _token_counts("chosen_tokens", chosen_tokens, chosen_logp)
    rejected = rejected_logp / _token_counts("rejected_tokens", rejected_tokens, rejected_logp)
    return -logsigmoid(beta * (chosen - rejected) - margin)


def _token_counts(name: str, counts: Tensor | None, like: Tensor) -> Tensor:
    if counts is None:
        raise ValueError(f"{name} is missing: an average a token divides by it")
    if counts.shape != like.shape:
        raise ValueError(f"{name} must be (B,), {tuple(like.shape)}; got {tuple(counts.shape)}")
    return counts.clamp(min=1)
