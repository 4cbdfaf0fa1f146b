"""What the probes of build 41 have beside rewards: kinds of actions, and a sensor's zero point."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from torch import Tensor

from nbkit.control.environments import Transition
from nbkit.envs.probes import ProbeEnv


def numbers(count: int) -> spaces.Box:
    """Actions of so many numbers."""
    return spaces.Box(-1.0, 1.0, (count,))


class Shifted:
    """A probe whose observations have another zero point, as a sensor may have.

    Args:
        env: with observations of -1 and 1.
        by: what is added to them.

    """

    def __init__(self, env: ProbeEnv, by: float) -> None:
        self.env, self.by = env, by
        self.num_envs, self.observation_size = env.num_envs, env.observation_size
        self.action_space: gym.Space[Any] = env.action_space

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere."""
        return self.env.reset(seed) + self.by

    def step(self, actions: Tensor) -> Transition:
        """Step all."""
        found = self.env.step(actions)
        return replace(found, next_observations=found.next_observations + self.by)

    def get_state(self) -> dict[str, Any]:
        """The state of the world within."""
        return self.env.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what `get_state` returned."""
        self.env.set_state(state)

    def close(self) -> None:
        """Nothing to free."""
