"""Running moments of observations and of returns: what a normaliser remembers.

A trainer updates both *between* updates, never within one, so that the policy that is trained sees
the same inputs as the one that acted.
"""

from typing import Any

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit._whitening import Moments
from nbkit.advantages import batch_moments, merge_moments


class ObservationNormaliser:
    """Shift and scale each coordinate by the mean and variance of every row seen so far.

    Args:
        size: coordinates K of an observation.
        clip: normalised values are clipped to plus or minus this.
        eps: added to the variance.

    Attributes:
        count: rows seen. Until there are two, observations pass unchanged.
        mean: (K,) float64.
        variance: (K,) float64, of the population.

    """

    def __init__(self, size: int, *, clip: float = 10.0, eps: float = 1e-8) -> None:
        check_number("size", size, 1)
        check_number("clip", clip, 0.0, open_low=True)
        self.clip, self.eps = clip, eps
        self.count = 0
        self.mean = torch.zeros(size, dtype=torch.float64)
        self.variance = torch.ones(size, dtype=torch.float64)

    def __call__(self, observations: Tensor) -> Tensor:
        """Normalise (..., K)."""
        if self.count < 2:
            return observations
        mean, variance = self.mean.float(), self.variance.float()
        return ((observations - mean) / (variance + self.eps).sqrt()).clamp(-self.clip, self.clip)

    def update(self, rows: Tensor) -> None:
        """Count (M, K) rows in (Chan, Golub and LeVeque, 1979)."""
        if rows.ndim != 2 or rows.shape[1] != len(self.mean):
            raise ValueError(f"rows must be (M, {len(self.mean)}); got {tuple(rows.shape)}")
        if not len(rows):
            return
        rows = rows.double()
        parts: list[Moments] = [(len(rows), rows.mean(0), rows.var(0, correction=0))]
        if self.count:
            parts.insert(0, (self.count, self.mean, self.variance))
        count, mean, variance = merge_moments(parts)
        self.count = int(count)
        self.mean, self.variance = torch.as_tensor(mean), torch.as_tensor(variance)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"count": self.count, "mean": self.mean.clone(), "variance": self.variance.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.count = int(state["count"])
        self.mean, self.variance = state["mean"].clone(), state["variance"].clone()


class ReturnScale:
    """Divide rewards by the standard deviation of the discounted return so far.

    The mean is left alone: to shift a reward changes how long an episode ought to last.

    Args:
        num_envs: N.
        gamma: the discount.
        clip: scaled rewards are clipped to plus or minus this.

    """

    def __init__(self, num_envs: int, gamma: float, *, clip: float = 10.0) -> None:
        check_number("gamma", gamma, 0.0, 1.0)
        self.gamma, self.clip = gamma, clip
        self.running = torch.zeros(num_envs, dtype=torch.float64)
        self.count: float | Tensor = 0
        self.mean: float | Tensor = torch.zeros((), dtype=torch.float64)
        self.variance: float | Tensor = torch.ones((), dtype=torch.float64)

    def __call__(self, rewards: Tensor) -> Tensor:
        """Scale rewards of any shape; unchanged until two were counted."""
        if self.count < 2:
            return rewards
        std = (torch.as_tensor(self.variance) + 1e-8).sqrt().to(rewards.dtype)
        return (rewards / std).clamp(-self.clip, self.clip)

    def update(self, rewards: Tensor, done: Tensor, valid: Tensor) -> None:
        """Count the rewards (T, N) of a rollout in; what is not valid is skipped."""
        seen = []
        for t in range(len(rewards)):
            ahead = self.gamma * self.running + rewards[t].double()
            self.running = torch.where(valid[t], ahead, self.running)
            seen.append(self.running)
            self.running = torch.where(done[t] & valid[t], 0.0, self.running)
        parts = [(self.count, self.mean, self.variance)] if self.count else []
        merged = merge_moments([*parts, batch_moments(torch.stack(seen), valid)])
        self.count, self.mean, self.variance = merged

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {
            "running": self.running.clone(),
            "moments": [float(self.count), float(self.mean), float(self.variance)],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.running = state["running"].clone()
        count, mean, variance = state["moments"]
        self.count = count
        self.mean = torch.tensor(mean, dtype=torch.float64)
        self.variance = torch.tensor(variance, dtype=torch.float64)
