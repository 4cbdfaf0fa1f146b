"""From the scores of policy and reference to a loss, and to the figures of the dashboard."""

import torch
from torch import Tensor

from nbkit.losses import preference_loss, simpo_loss
from nbkit.trainers.dpo.batch import PairScores
from nbkit.trainers.dpo.config import DPOConfig


def dpo_loss(policy: PairScores, reference: PairScores | None, config: DPOConfig) -> Tensor:
    """The loss of each pair, (B,); its gradient flows through the policy's scores alone.

    Args:
        policy: with gradient.
        reference: of the same pairs; SimPO reads none.
        config: kind, beta, label smoothing.

    """
    if not config.reads_reference:
        return simpo_loss(*policy, beta=config.beta, margin=config.simpo_margin)
    reference = _needed(reference)
    fixed = [reference.chosen.detach(), reference.rejected.detach()]
    scores = [policy.chosen, policy.rejected, *fixed]
    counts = [policy.chosen_tokens, policy.rejected_tokens]
    kind: str = config.kind
    if kind == "sigmoid-average":
        lengths = [count.clamp(min=1) for count in counts] * 2
        scores = [score / length for score, length in zip(scores, lengths, strict=True)]
        kind = "sigmoid"
    return preference_loss(
        *scores,
        beta=config.beta,
        kind=kind,
        label_smoothing=config.label_smoothing,
        chosen_tokens=counts[0],
        rejected_tokens=counts[1],
    )


def implicit_rewards(
    policy: PairScores, reference: PairScores | None, beta: float, *, kind: str = "sigmoid"
) -> tuple[Tensor, Tensor]:
    """Beta times the log-ratio of each answer: the reward that the policy would be optimal for.

    Rafailov et al. (arXiv:2305.18290), eq. 5, up to a number that depends on the prompt alone and
    cancels in a difference. SimPO's is beta times the log-probability a token
    (arXiv:2405.14734, eq. 4), and reads no reference.

    Returns:
        of the chosen (B,) and of the rejected answers (B,).

    """
    if kind == "simpo":
        return (
            beta * policy.chosen / policy.chosen_tokens.clamp(min=1),
            beta * policy.rejected / policy.rejected_tokens.clamp(min=1),
        )
    reference = _needed(reference)
    return (
        beta * (policy.chosen - reference.chosen),
        beta * (policy.rejected - reference.rejected),
    )


@torch.no_grad()
def pair_metrics(
    policy: PairScores, reference: PairScores | None, beta: float, *, kind: str = "sigmoid"
) -> dict[str, float]:
    """The dashboard of a batch.

    Returns:
        "reward_chosen", "reward_rejected" (means of the implicit rewards), "margin" (of their
        differences), "accuracy" (share of pairs in which the chosen answer has more; a tie counts
        one half, so that the first step reads .5), "logp_chosen", "logp_rejected" (means, in nats
        an answer).

    """
    chosen, rejected = implicit_rewards(policy, reference, beta, kind=kind)
    margin = chosen - rejected
    right = (margin > 0).double() + 0.5 * (margin == 0).double()
    return {
        "reward_chosen": chosen.mean().item(),
        "reward_rejected": rejected.mean().item(),
        "margin": margin.mean().item(),
        "accuracy": right.mean().item(),
        "logp_chosen": policy.chosen.mean().item(),
        "logp_rejected": policy.rejected.mean().item(),
    }


def _needed(reference: PairScores | None) -> PairScores:
    if reference is None:
        raise ValueError("reference: this kind compares with its scores; only 'simpo' has none")
    return reference
