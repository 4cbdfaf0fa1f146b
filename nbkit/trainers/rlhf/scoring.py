"""What models say of sampled tokens, and what the tokens are paid for it."""

import torch
from torch import Tensor

from nbkit.advantages import whiten
from nbkit.generate import Generation
from nbkit.masks import place_sequence_reward
from nbkit.parallel import Parallel
from nbkit.text.scalar_models import ScalarModel, last_scores
from nbkit.trainers.completions import align
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.shares import own_parts


@torch.no_grad()
def judged_rows(
    judge: ScalarModel, made: Generation, config: RLHFConfig, parallel: Parallel
) -> Tensor:
    """Scores (R,) float32 of a reward model that reads prompts and completions as ids.

    A completion that was cut has no EOS, and is scored as it stands.

    Args:
        judge: frozen, on the same back-end as the policy.
        made: R completions.
        config: micro_tokens, micro_rows.
        parallel: each rank scores its share of the rows, and all get the whole.

    """
    scores = torch.zeros(len(made.ids), device=made.ids.device)
    limits = (config.micro_tokens, config.micro_rows)
    for rows in own_parts(made.attention, parallel, *limits):
        chosen = slice(0, 1) if rows is None else rows
        part = align(made.ids[chosen], made.attention[chosen], made.mask[chosen])
        found = last_scores(judge(part.ids, part.attention), part.attention)
        if rows is not None:  # else the other ranks needed this one's shards
            scores[rows] = found.to(scores.dtype)
    return parallel.sum(scores)


def token_rewards(
    scores: Tensor,
    truncated: Tensor,
    kl: Tensor,
    mask: Tensor,
    *,
    kl_coefficient: float,
    missing_eos_penalty: float = 0.0,
    whitened: bool = False,
) -> Tensor:
    """What each token is paid: its share of the divergence, and the last one the score too.

    Args:
        scores: (R,) of the reward model or verifier.
        truncated: (R,) bool.
        kl: (R, T) estimates of the divergence, one a token.
        mask: (R, T) bool.
        kl_coefficient: beta.
        missing_eos_penalty: taken off the score of a truncated completion.
        whitened: divide by the standard deviation over all tokens; the mean stays.

    Returns:
        (R, T), 0 outside the mask.

    Source: Ziegler et al., arXiv:1909.08593, eq. 2; Stiennon et al., arXiv:2009.01325, section 3.4.

    """
    paid = scores - missing_eos_penalty * truncated.to(scores.dtype)
    rewards = place_sequence_reward(paid, mask) - kl_coefficient * torch.where(mask, kl, 0.0)
    return whiten(rewards, mask, center=False) if whitened else rewards
