"""What a run of PPO tells about itself: each metric, its healthy range, and what to look at."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nbkit.control.actor_critic import Policy
from nbkit.control.rollouts import Batch
from nbkit.diagnostics import explained_variance

__all__ = ["HEALTHY", "Healthy", "explained_variance", "movement", "read"]


@torch.no_grad()
def movement(policy: Policy, batch: Batch, clip: float) -> dict[str, float]:
    """Measure how far the policy has moved from the one that collected the batch.

    Args:
        policy: as it is now.
        batch: M rows with the log-probabilities of then.
        clip: of the ratio.

    Returns:
        "kl": the mean of (r - 1) - log r, nats; "clip_fraction": the share of rows whose ratio
        lies outside [1 - clip, 1 + clip], whatever the sign of the advantage (only those on its
        profitable side have no gradient); "entropy": mean, nats.

    """
    distribution, _ = policy(batch.observations)
    log_ratio = distribution.log_prob(batch.actions) - batch.logprobs
    ratio = log_ratio.exp()
    return {
        "kl": (ratio - 1 - log_ratio).mean().item(),
        "clip_fraction": ((ratio - 1).abs() > clip).float().mean().item(),
        "entropy": distribution.entropy().mean().item(),
    }


@dataclass(frozen=True)
class Healthy:
    """The range in which a metric is unremarkable, and where to look when it is not.

    Attributes:
        low: smallest healthy value.
        high: largest.
        look: what a value outside points to.

    """

    low: float
    high: float
    look: str


HEALTHY: dict[str, Healthy] = {
    "ratio_error": Healthy(
        0.0,
        1e-4,
        "the ratio is not 1 before the first step: log-probabilities of other actions, another "
        "normalisation of the observations, or dropout",
    ),
    "kl": Healthy(
        0.0,
        0.05,
        "the policy moves far in one update: a smaller learning rate, fewer epochs, or target_kl",
    ),
    "clip_fraction": Healthy(
        0.0,
        0.4,
        "many ratios lie outside 1 ± clip, to either side: the policy moves far in one update; a "
        "smaller learning rate or fewer epochs",
    ),
    "explained_variance": Healthy(
        0.0,
        1.0,
        "the value head predicts worse than a constant: its targets, its learning rate, the scale "
        "of the rewards, or a body that the policy's loss dominates",
    ),
    "gradient_norm": Healthy(
        1e-4,
        100.0,
        "vanishing: nothing is learned from; exploding: scale of rewards and returns",
    ),
}


def read(
    history: Sequence[dict[str, float]], *, last: int = 10, names: Sequence[str] = tuple(HEALTHY)
) -> list[str]:
    """Name the metrics whose mean over the last updates lies outside the healthy range.

    NaN counts as outside (explained variance apart, which is NaN where all returns are equal).

    Args:
        history: of ``nbkit.trainers.ppo.PPOTrainer``.
        last: updates that are averaged.
        names: of the metrics to look at, which every update holds.

    Returns:
        One sentence a finding; empty: nothing remarkable.

    """
    if not history:
        raise ValueError("history is empty: there is nothing to read")
    recent = history[-last:]
    findings = []
    for name in names:
        healthy = HEALTHY[name]
        values = [step[name] for step in recent]
        if name == "explained_variance":
            values = [value for value in values if value == value]
            if not values:
                continue
        mean = sum(values) / len(values)
        if not healthy.low <= mean <= healthy.high:
            findings.append(
                f"{name} is {mean:.3g}, healthy is {healthy.low:g} to {healthy.high:g}: "
                f"{healthy.look}"
            )
    return findings
