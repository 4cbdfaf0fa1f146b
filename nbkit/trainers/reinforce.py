"""REINFORCE on text: Williams (1992), with the refinements that the chapter adds one by one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

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
from nbkit.parallel import Parallel
from nbkit.text.environment import TextEnv
from nbkit.text.policies import TextPolicy
from nbkit.text.rollouts import TextRollout, rollout
from nbkit.trainers.loop import Trainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.shares import spread_over

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


class ReinforceTrainer(Trainer):
    """A run of REINFORCE, on one device: everything that the next update depends on.

    Args:
        policy: what learns, in place.
        env: where the reward comes from.
        config: settings.
        reference: the frozen policy of the KL term; required if ``kl_coefficient`` is not 0,
            and measured against ("kl") whenever it is given.
        measure: further metrics of each batch.

    Attributes:
        history: the metrics of each update.

    Raises:
        ValueError: a KL coefficient without a reference; a policy whose parameters are frozen.

    """

    description = "REINFORCE"

    def __init__(
        self,
        policy: TextPolicy,
        env: TextEnv,
        config: ReinforceConfig,
        *,
        reference: TextPolicy | None = None,
        measure: Callable[[TextRollout], Metrics] | None = None,
    ) -> None:
        if config.kl_coefficient and reference is None:
            raise ValueError("reference: a KL coefficient needs a reference policy")
        parameters = list(policy.parameters())
        if not any(parameter.requires_grad for parameter in parameters):
            raise ValueError(
                "policy: all parameters are frozen; call requires_grad_(True) on a copy"
            )
        net: Any = policy
        self.parallel = spread_over(None, policy)
        self.parallel.prepare(net, lambda some: torch.optim.Adam(some, lr=config.learning_rate))
        self.policy, self.env, self.config = policy, env, config
        self.reference, self.measure = reference, measure
        self.learners = {"policy": self.parallel}
        self.generator = torch.Generator(parameters[0].device).manual_seed(config.seed)
        self.history: list[Metrics] = []

    @property
    def planned(self) -> int:
        """Updates in all."""
        return self.config.updates

    def step(self) -> Metrics:
        """Sample a batch, take one gradient step on it, return its metrics.

        Raises:
            RuntimeError: a gradient that is not finite; no step is taken on it.

        """
        batch = rollout(self.policy, self.env, self.config.batch_size, generator=self.generator)
        metrics = update(self.parallel, batch, self.config, reference=self.reference)
        if self.measure is not None:
            metrics |= self.measure(batch)
        return self.note(metrics)

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"return {metrics['return']:+.2f}"

    def state_dict(self) -> dict[str, Any]:
        """Return everything but environment and policies, as tensors and plain data."""
        return {
            "config": self.plain_config(),
            "generator": self.generator.get_state(),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.generator.set_state(state["generator"])
        self.history = list(state["history"])


def train(
    policy: TextPolicy,
    env: TextEnv,
    config: ReinforceConfig,
    *,
    reference: TextPolicy | None = None,
    measure: Callable[[TextRollout], Metrics] | None = None,
    **run: Any,
) -> list[Metrics]:
    """Train ``policy`` in place; return one dictionary of metrics an update.

    Args:
        policy: see ``ReinforceTrainer``, as for all but the last.
        env: where the reward comes from.
        config: settings.
        reference: the frozen policy of the KL term.
        measure: further metrics of each batch.
        run: arguments of ``ReinforceTrainer.run``: ``progress``, ``description``, and others.

    """
    trainer = ReinforceTrainer(policy, env, config, reference=reference, measure=measure)
    return trainer.run(**run)


def update(
    parallel: Parallel,
    batch: TextRollout,
    config: ReinforceConfig,
    *,
    reference: TextPolicy | None = None,
) -> Metrics:
    """Take one gradient step on one batch; return its metrics.

    Args:
        parallel: of the policy, on one device.
        batch: as it was sampled.
        config: weights, baseline, KL, clip of the gradient.
        reference: of the KL term, or None.

    """
    check_same_shape("batch.rewards", batch.rewards, "batch.tokens", batch.tokens)
    logits = parallel.model(batch.ids[:, :-1])
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
    parallel.backward(reinforce_loss(logprobs, weights, batch.mask))
    metrics = {
        "return": batch.returns.mean().item(),
        "length": batch.lengths.float().mean().item(),
        "truncated": batch.truncated.float().mean().item(),
        "entropy": masked_mean(entropy(logits.detach()), batch.mask).item(),
        "gradient_norm": parallel.step(config.max_grad_norm),
    }
    if kl is not None:
        metrics["kl"] = kl.sum(1).mean().item()
    return metrics
