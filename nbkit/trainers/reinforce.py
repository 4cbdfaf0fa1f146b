"""REINFORCE on text: Williams (1992), with the refinements that the chapter adds one by one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm import tqdm

from nbkit._inputs import (
    bool_mask,
    check_choice,
    check_floating,
    check_number,
    check_same_shape,
)
from nbkit.advantages import discounted_returns
from nbkit.baselines import batch_mean_baseline, leave_one_out_baseline
from nbkit.logprobs import entropy, token_logprobs
from nbkit.losses import policy_gradient_loss
from nbkit.masks import aggregate, masked_mean
from nbkit.text.environment import TextEnv
from nbkit.text.policies import TextPolicy
from nbkit.text.rollouts import TextRollout, rollout

_WEIGHTS = ("return", "reward-to-go")
_BASELINES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda returns, mask: torch.zeros_like(returns),
    "batch-mean": batch_mean_baseline,
    "leave-one-out": leave_one_out_baseline,
}


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings of a run.

    Attributes:
        updates: number of batches, one gradient step each.
        batch_size: episodes a batch.
        learning_rate: of Adam.
        weight: what multiplies the score function: the whole return at every step, or the
            reward to go.
        baseline: what is subtracted from it.
        gamma: discount.
        kl_coefficient: beta of the penalty -beta (log pi - log pi_ref) in the reward of each token.
        max_grad_norm: clip of the global gradient norm.
        seed: of the sampling.

    """

    updates: int = 150
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight: Literal["return", "reward-to-go"] = "reward-to-go"
    baseline: Literal["none", "batch-mean", "leave-one-out"] = "leave-one-out"
    gamma: float = 1.0
    kl_coefficient: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("updates", self.updates, 1)
        check_number("batch_size", self.batch_size, 1)
        check_number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check_choice("weight", self.weight, _WEIGHTS)
        check_choice("baseline", self.baseline, sorted(_BASELINES))
        check_number("gamma", self.gamma, 0.0, 1.0)
        check_number("kl_coefficient", self.kl_coefficient, 0.0)
        check_number("max_grad_norm", self.max_grad_norm, 0.0, open_low=True)


def reinforce_weights(
    rewards: Tensor, mask: Tensor, *, weight: str, baseline: str, gamma: float = 1.0
) -> Tensor:
    """Return what multiplies each token's score function, (B, T); 0 where the mask is False.

    Args:
        rewards: (B, T) reward of each token.
        mask: (B, T) bool, True where a token was sampled.
        weight: "return" (the same discounted return at every step) or "reward-to-go".
        baseline: "none", "batch-mean" or "leave-one-out".
        gamma: discount.

    Raises:
        ValueError: unknown ``weight`` or ``baseline``, shapes that do not fit.

    Source: Williams (1992); Sutton and Barto (2018), equations 13.8 and 13.11.

    """
    check_choice("weight", weight, _WEIGHTS)
    check_choice("baseline", baseline, sorted(_BASELINES))
    check_floating("rewards", rewards, ndim=2)
    mask = bool_mask(mask, rewards, like_name="rewards")
    returns = discounted_returns(rewards, gamma, mask=mask)
    if weight == "return":
        returns = torch.where(mask, returns[:, :1].expand_as(returns), 0.0)
    return returns - _BASELINES[baseline](returns, mask)


def reinforce_loss(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """Return the scalar whose gradient is minus the policy gradient estimate.

    The mean over episodes of the sum over tokens of -weight * log pi.

    Args:
        logprobs: (B, T) with gradient.
        weights: (B, T), from ``reinforce_weights``.
        mask: (B, T) bool.

    """
    per_token = policy_gradient_loss(logprobs, weights, mask=mask)
    return aggregate(per_token, mask, "seq-mean-token-sum")


def train(
    policy: TextPolicy,
    env: TextEnv,
    config: ReinforceConfig,
    *,
    reference: TextPolicy | None = None,
    measure: Callable[[TextRollout], dict[str, float]] | None = None,
    progress: bool = True,
    description: str = "REINFORCE",
) -> list[dict[str, float]]:
    """Train ``policy`` in place; return one dictionary of metrics an update.

    Args:
        policy: what learns.
        env: where the reward comes from.
        config: settings.
        reference: the frozen policy of the KL term; required if ``kl_coefficient`` is not 0,
            and measured against ("kl") whenever it is given.
        measure: further metrics of each batch.
        progress: show a text progress bar.
        description: label of the bar.

    Raises:
        ValueError: a KL coefficient without a reference; a policy whose parameters are frozen.

    """
    if config.kl_coefficient and reference is None:
        raise ValueError("reference: a KL coefficient needs a reference policy")
    parameters = list(policy.parameters())
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError("policy: all parameters are frozen; call requires_grad_(True) on a copy")
    optimiser = torch.optim.Adam(parameters, lr=config.learning_rate)
    generator = torch.Generator(parameters[0].device).manual_seed(config.seed)
    history = []
    bar = tqdm(range(config.updates), desc=description, disable=not progress, mininterval=5)
    for _ in bar:
        batch = rollout(policy, env, config.batch_size, generator=generator)
        metrics = update(policy, batch, optimiser, config, reference=reference)
        if measure is not None:
            metrics |= measure(batch)
        history.append(metrics)
        bar.set_postfix_str(f"return {metrics['return']:+.2f}", refresh=False)
    return history


def update(
    policy: TextPolicy,
    batch: TextRollout,
    optimiser: Any,
    config: ReinforceConfig,
    *,
    reference: TextPolicy | None = None,
) -> dict[str, float]:
    """Take one gradient step on one batch; return its metrics."""
    check_same_shape("batch.rewards", batch.rewards, "batch.tokens", batch.tokens)
    logits = policy(batch.ids[:, :-1])
    logprobs = token_logprobs(logits, batch.tokens)
    rewards, kl = batch.rewards, None
    if reference is not None:
        with torch.no_grad():
            reference_logprobs = token_logprobs(reference(batch.ids[:, :-1]), batch.tokens)
        kl = torch.where(batch.mask, logprobs.detach() - reference_logprobs, 0.0)
        rewards = rewards - config.kl_coefficient * kl
    weights = reinforce_weights(
        rewards, batch.mask, weight=config.weight, baseline=config.baseline, gamma=config.gamma
    )
    loss = reinforce_loss(logprobs, weights, batch.mask)
    optimiser.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(list(policy.parameters()), config.max_grad_norm)
    optimiser.step()
    metrics = {
        "return": batch.returns.mean().item(),
        "length": batch.lengths.float().mean().item(),
        "truncated": batch.truncated.float().mean().item(),
        "entropy": masked_mean(entropy(logits.detach()), batch.mask).item(),
        "gradient_norm": norm.item(),
    }
    if kl is not None:
        metrics["kl"] = kl.sum(1).mean().item()
    return metrics
