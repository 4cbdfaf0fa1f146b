"""What to watch beside the reward: diversity, repetition, and fluency under a frozen model."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import check_integers, check_same_shape
from nbkit.logprobs import next_token_logprobs
from nbkit.masks import masked_mean
from nbkit.text.environment import TextEnv
from nbkit.text.policies import TextPolicy
from nbkit.text.rollouts import TextRollout


def distinct_n(rows: Sequence[Sequence], n: int) -> float:
    """Return the share of different n-grams among all n-grams of all rows, from 0 to 1.

    Args:
        rows: token lists (or lists of words, or strings); rows shorter than ``n`` add nothing.
        n: length of the n-grams.

    Raises:
        ValueError: ``n`` below 1, or no row with at least ``n`` tokens.

    Source: after Li et al., "A Diversity-Promoting Objective Function for Neural Conversation
    Models" (2016), who divide by the number of tokens; here the share lies between 0 and 1.

    """
    if n < 1:
        raise ValueError(f"n: need at least 1, got {n}")
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)]
    if not grams:
        raise ValueError(f"rows: none of the {len(rows)} rows has {n} tokens")
    return len(set(grams)) / len(grams)


def distinct_words(texts: Sequence[str], n: int = 2) -> float:
    """Return ``distinct_n`` over words; 0 if no text has ``n`` words."""
    rows = [[word.strip(".,") for word in text.split()] for text in texts]
    if not any(len(row) >= n for row in rows):
        return 0.0
    return distinct_n(rows, n)


@torch.no_grad()
def perplexity(policy: TextPolicy, ids: Tensor, mask: Tensor) -> float:
    """Return exp of the mean negative log-probability of the real tokens under ``policy``.

    Args:
        policy: the model that judges, as a rule a frozen one.
        ids: (B, T+1) sequences with BOS first.
        mask: (B, T); ``mask[:, t]`` says whether ``ids[:, t+1]`` counts.

    """
    check_integers("ids", ids, ndim=2)
    return float(torch.exp(-masked_mean(next_token_logprobs(policy(ids), ids), mask)))


@torch.no_grad()
def judge(batch: TextRollout, env: TextEnv, base: TextPolicy) -> dict[str, float]:
    """Return what the reward does not say about a batch of texts.

    Returns:
        "perplexity": of the texts under ``base``;
        "distinct_2": share of different word pairs among all word pairs of the batch;
        "kl": sampled KL(policy || base) of whole texts in nats, the mean over texts of the sum
        over tokens of ``log pi - log pi_base``.

    """
    check_same_shape("batch.logprobs", batch.logprobs, "batch.tokens", batch.tokens)
    scores = next_token_logprobs(base(batch.ids), batch.ids)
    log_ratio = torch.where(batch.mask, batch.logprobs - scores, 0.0)
    return {
        "perplexity": float(torch.exp(-masked_mean(scores, batch.mask))),
        "distinct_2": distinct_words(batch.texts(env)),
        "kl": float(log_ratio.sum(1).mean()),
    }
