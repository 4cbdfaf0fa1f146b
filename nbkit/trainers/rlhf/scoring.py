"""What models say of sampled tokens, and what the tokens are paid for it."""

from typing import Any

import torch
from torch import Tensor

from nbkit.advantages import whiten
from nbkit.generate import Generation
from nbkit.masks import place_sequence_reward
from nbkit.parallel import Parallel
from nbkit.text.policies_value import ScalarModel, last_scores
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.rlhf.models import align, policy_outputs, value_outputs
from nbkit.trainers.spread import own_parts, spread_over


@torch.no_grad()
def scored_tokens(
    policy: Any,
    value: ScalarModel | None,
    ids: Tensor,
    attention: Tensor,
    mask: Tensor,
    config: RLHFConfig,
    *,
    parallel: Parallel | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and values (R, T) of sampled tokens, in micro-batches.

    Args:
        policy: a language model, or a ``SharedActorCritic``.
        value: a value model; None: the policy's own values, or zeros where it has none.
        ids: (R, P+T).
        attention: (R, P+T).
        mask: (R, T).
        config: temperature, micro_tokens, micro_rows.
        parallel: of the policy: each rank scores its share of the rows, and all get the whole.
            None: one device.

    """
    spread = spread_over(parallel, policy)
    logprobs = torch.zeros(mask.shape, device=ids.device)
    values = torch.zeros(mask.shape, device=ids.device)
    for rows in own_parts(attention, spread, config.micro_tokens, config.micro_rows):
        if rows is None:  # the other ranks need this one's shards
            part = align(ids[:1], attention[:1], mask[:1])
            policy_outputs(policy, part, config.temperature)
            if value is not None:
                value_outputs(value, part)
            continue
        part = align(ids[rows], attention[rows], mask[rows])
        logp, own, _ = policy_outputs(policy, part, config.temperature)
        logprobs[rows] = part.full(logp).to(logprobs.dtype)
        found = own if value is None else value_outputs(value, part)
        if found is not None:
            values[rows] = part.full(found).to(values.dtype)
    return spread.sum(logprobs), spread.sum(values)


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
