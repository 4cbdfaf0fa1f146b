"""Returns and lengths of episodes that span rollouts."""

from dataclasses import dataclass, field
from typing import Any

import torch

from nbkit.control.rollouts import Rollout


@dataclass
class EpisodeTracker:
    """Follow returns and lengths of episodes across rollouts; dummy steps count nowhere.

    Attributes:
        num_envs: N.
        steps: real environment steps so far, of all environments together.
        finished: (steps at its end, return, length) of each episode, in order.

    """

    num_envs: int
    steps: int = 0
    finished: list[tuple[int, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open_returns = torch.zeros(self.num_envs, dtype=torch.float64)
        self.open_lengths = torch.zeros(self.num_envs, dtype=torch.int64)

    def add(self, rollout: Rollout) -> None:
        """Count a rollout in."""
        valid = rollout.valid
        rewards = torch.where(valid, rollout.rewards, 0.0).double().cumsum(0) + self.open_returns
        lengths = valid.long().cumsum(0) + self.open_lengths
        steps = valid.sum(1).cumsum(0) + self.steps
        # By environment, then by time: what stands before an episode is the one before it.
        n, t = (rollout.done & valid).T.nonzero(as_tuple=True)
        ends_return, ends_length = rewards[t, n], lengths[t, n]
        first = torch.ones_like(n, dtype=torch.bool)
        first[1:] = n[1:] != n[:-1]
        returns = ends_return - torch.where(first, 0.0, ends_return.roll(1))
        durations = ends_length - torch.where(first, 0, ends_length.roll(1))
        order = t.argsort(stable=True)
        columns = (steps[t[order]], returns[order], durations[order])
        self.finished += zip(*(column.tolist() for column in columns), strict=True)
        self.open_returns = rewards[-1].index_put((n,), rewards[-1, n] - ends_return)
        self.open_lengths = lengths[-1].index_put((n,), lengths[-1, n] - ends_length)
        self.steps = int(steps[-1])

    def mean_return(self, last: int = 100) -> float:
        """Return the mean return of the last episodes; NaN before the first has ended."""
        recent = self.finished[-last:]
        return sum(episode[1] for episode in recent) / len(recent) if recent else float("nan")

    def mean_length(self, last: int = 100) -> float:
        """Return the mean length in steps of the last episodes; NaN before the first."""
        recent = self.finished[-last:]
        return sum(episode[2] for episode in recent) / len(recent) if recent else float("nan")

    def steps_to(self, threshold: float, last: int = 100) -> int | None:
        """Return the steps at which the mean of ``last`` episodes first reached ``threshold``."""
        window = 0.0
        for i, (steps, episode_return, _) in enumerate(self.finished):
            window += episode_return - (self.finished[i - last][1] if i >= last else 0.0)
            if i >= last - 1 and window / last >= threshold:
                return steps
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {
            "steps": self.steps,
            "finished": list(self.finished),
            "open_returns": self.open_returns.clone(),
            "open_lengths": self.open_lengths.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.steps = int(state["steps"])
        self.finished = [(int(s), float(r), int(n)) for s, r, n in state["finished"]]
        self.open_returns = state["open_returns"].clone()
        self.open_lengths = state["open_lengths"].clone()
