"""Environments that the judge holds: it counts the steps, keeps the scores, disguises the world.

The learner's process sees observations, rewards and ends, and nothing else. Each run draws a new
disguise: the numbers of an observation change places and signs, and so do the actions. A network
does not mind; a controller by hand, or weights that were stored before, are of no use.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bookkit.builds.session import Stopped
from bookkit.builds.wire import Arrays
from nbkit.control.environments import ControlEnv, Transition

WINDOW = 100  # episodes that a point of a curve is the mean of
POINTS = 80
FREE_RESETS = 100


@dataclass(frozen=True)
class WornObservation(ABC):
    """Which number stands where, with which sign; kinds of actions add theirs.

    Attributes:
        order: place i of what the learner sees shows number `order[i]`.
        signs: 1 or -1 a place.

    """

    order: Tensor
    signs: Tensor

    def observation(self, real: Tensor) -> NDArray[np.float32]:
        """What the learner sees of (N, O)."""
        return (real[:, self.order] * self.signs).numpy().astype(np.float32)

    @abstractmethod
    def meant(self, actions: Tensor) -> Tensor:
        """What the learner's actions are in the world."""


@dataclass
class HeldEnv(ABC):
    """An environment in the judge's hands, as the learner's process may ask for it.

    Attributes:
        env: the real one.
        seed: of its episodes.
        budget: steps, of all N environments together; dummy steps count too.
        worn: its disguise.
        scored: what `finished` keeps of an episode: its return, or 100 for one that terminated, so
            that a mean counts such episodes in a hundred.
        finished: (steps so far, score) of each episode that ended.

    """

    env: ControlEnv
    seed: int
    budget: int
    worn: WornObservation
    scored: Literal["return", "termination"] = "return"
    used: int = 0
    resets: int = 0
    finished: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open = np.zeros(self.env.num_envs)
        self._seen: Tensor | None = None

    @abstractmethod
    def actions(self) -> dict[str, int]:
        """What the learner's side is told of the actions."""

    @abstractmethod
    def checked(self, found: NDArray[Any] | None) -> Tensor:
        """The learner's actions; `Stopped` where they are none."""

    @abstractmethod
    def watch(self, seen: Tensor, actions: Tensor) -> None:
        """Note what was done where (N, O) was seen."""

    @abstractmethod
    def alike(self) -> str | None:
        """What is odd in the choice of the actions, as a sentence."""

    def describe(self) -> dict[str, Any]:
        """What the learner's side is told of it."""
        return {
            "num_envs": self.env.num_envs,
            "observation_size": self.env.observation_size,
            **self.actions(),
            "steps_left": self.budget - self.used,
        }

    def answer(self, kind: str, _: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Answer `reset` and `step`.

        Raises:
            Stopped: more steps than the budget, no reset, or actions that are none.

        """
        if kind == "reset":
            self.resets += 1
            if self.resets > FREE_RESETS + self.used // self.env.num_envs:
                raise Stopped("your file calls `env.reset` more often than `env.step`: reset once")
            self.seed += 1
            self._seen = self.env.reset(self.seed)
            self.open[:] = 0.0
            return {}, {"observations": self.worn.observation(self._seen)}
        if kind == "step":
            return {"steps_left": self.budget - self.used - self.env.num_envs}, self._step(arrays)
        raise Stopped(f"your process asked for {kind!r}, which an environment does not answer")

    def _step(self, arrays: Arrays) -> Arrays:
        if self._seen is None:
            raise Stopped("your file calls `env.step` before `env.reset`")
        actions = self.checked(arrays.get("actions"))
        if self.used + self.env.num_envs > self.budget:
            raise Stopped(
                f"your file asked for more than its {self.budget:,} environment steps: stop when "
                "`env.steps_left` is smaller than what a rollout needs"
            )
        self.used += self.env.num_envs
        real = self.env.step(self.worn.meant(actions))
        self.watch(self._seen, actions)
        self._seen = real.next_observations
        self._score(real)
        return {
            "next_observations": self.worn.observation(real.next_observations),
            "rewards": real.rewards.numpy().astype(np.float32),
            "terminated": real.terminated.numpy(),
            "truncated": real.truncated.numpy(),
            "valid": real.valid.numpy(),
        }

    def _score(self, real: Transition) -> None:
        self.open += np.where(real.valid, real.rewards, 0.0)
        ended = ((real.terminated | real.truncated) & real.valid).numpy()
        scores = self.open if self.scored == "return" else 100.0 * real.terminated.numpy()
        self.finished += [(self.used, float(value)) for value in scores[ended]]
        self.open[ended] = 0.0

    def curve(self) -> list[tuple[float, float]]:
        """(steps, mean score of the last `WINDOW` episodes), at most `POINTS` points."""
        scores = np.cumsum([0.0] + [value for _, value in self.finished])
        ends = np.unique(np.linspace(1, len(self.finished), POINTS).astype(int))
        return [
            (
                self.finished[i - 1][0],
                float(scores[i] - scores[max(0, i - WINDOW)]) / min(i, WINDOW),
            )
            for i in ends
            if self.finished
        ]
