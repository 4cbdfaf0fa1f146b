"""The package's own functions pass the checks of the exercises that build them.

Two implementations that never saw each other, and an oracle that saw neither.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bookkit.exercises.check import verdict_on
from bookkit.exercises.proof import bench_for
from nbkit.advantages import discounted_returns, group_advantages
from nbkit.logprobs import next_token_logprobs
from nbkit.losses import policy_gradient_loss
from nbkit.masks import aggregate, completion_mask, place_sequence_reward

pytestmark = pytest.mark.chapter(11)


def logprobs(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return next_token_logprobs(logits, ids, temperature=temperature)


def returns(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    return discounted_returns(rewards, gamma, mask=mask)


def loss(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    per_token = policy_gradient_loss(logprobs, weights.detach(), mask=mask)
    return aggregate(per_token, mask, "seq-mean-token-sum")


def baseline(rewards: Tensor) -> Tensor:
    return group_advantages(rewards, rewards.shape[0], baseline="leave-one-out", scale=None)


def kl_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, beta: float
) -> Tensor:
    penalty = torch.where(mask, beta * (logprobs - ref_logprobs), 0.0).detach()
    return place_sequence_reward(scores, mask) - penalty


PACKAGE: dict[str, Callable[..., Any]] = {
    "reinforce.mask.1": completion_mask,
    "reinforce.logprobs.1": logprobs,
    "reinforce.returns.1": returns,
    "reinforce.loss.1": loss,
    "reinforce.baseline.1": baseline,
    "reinforce.kl.1": kl_rewards,
}


@pytest.mark.parametrize("exercise_id", PACKAGE)
def test_package_passes(exercise_id: str) -> None:
    for seed in (2, 3, 4):
        result = verdict_on(bench_for(exercise_id, seed), PACKAGE[exercise_id])
        assert result.passed, result.message
