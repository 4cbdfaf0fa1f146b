"""Environments that count every step, so that a dummy step cannot pass unnoticed."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv


class CountingEnv(gym.Env[np.ndarray, int]):
    """Observation (episode, step); reward 100 * episode + step. Ends after `length` steps."""

    def __init__(self, length: int, ends: str = "terminated") -> None:
        self.length, self.ends = length, ends
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Discrete(2)
        self.episode, self.time, self.calls = -1, 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: int):
        self.calls += 1
        self.time += 1
        assert self.time <= self.length, "stepped behind the end of an episode"
        done = self.time == self.length
        reward = 100.0 * self.episode + self.time
        return (
            self._observe(),
            reward,
            done and self.ends == "terminated",
            done and self.ends == "truncated",
            {},
        )

    def _observe(self) -> np.ndarray:
        return np.array([self.episode, self.time], dtype=np.float32)


class CountingVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """The same, natively vectorised, environment i with episodes of `lengths[i]` steps."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, lengths: list[int], ends: str = "terminated") -> None:
        self.lengths, self.ends, self.num_envs = np.array(lengths), ends, len(lengths)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.single_action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.episode, self.time = np.zeros((2, self.num_envs), dtype=int)
        self.ended = np.zeros(self.num_envs, dtype=bool)
        return self._observe(), {}

    def step(self, actions: np.ndarray):
        fresh = self.ended
        self.episode = self.episode + fresh
        self.time = np.where(fresh, 0, self.time + 1)
        rewards = np.where(fresh, 0.0, 100.0 * self.episode + self.time)
        self.ended = self.time == self.lengths
        never = np.zeros_like(self.ended)
        if self.ends == "terminated":
            return self._observe(), rewards, self.ended, never, {}
        return self._observe(), rewards, never, self.ended, {}

    def _observe(self) -> np.ndarray:
        return np.stack([self.episode, self.time], 1).astype(np.float32)
