"""Pendulum and mountain car for N environments in one array operation.

The dynamics are those of gymnasium's ``Pendulum-v1`` and ``MountainCar-v0``: the tests compare them
step by step. Gymnasium itself has such a form of CartPole only.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

Step = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict]


class ClassicVectorEnv(VectorEnv[Any, Any, Any]):
    """A time limit and next-step autoreset around a vectorised dynamics.

    Attributes:
        state: (2, N) float64.
        steps: (N,) steps of the running episodes.
        prev_done: (N,) bool; the next step is a dummy.

    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    reset_low: tuple[float, float]
    reset_high: tuple[float, float]

    def __init__(self, num_envs: int, max_episode_steps: int) -> None:
        self.num_envs = num_envs
        self.max_episode_steps = max_episode_steps
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.state: NDArray[np.float64] | None = None
        self.steps = np.zeros(num_envs, dtype=np.int32)
        self.prev_done = np.zeros(num_envs, dtype=np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin new episodes everywhere."""
        super().reset(seed=seed)
        self.state = self._first_states(self.num_envs)
        self.steps = np.zeros(self.num_envs, dtype=np.int32)
        self.prev_done = np.zeros(self.num_envs, dtype=np.bool_)
        return self._observe(), {}

    def step(self, actions: NDArray[Any]) -> Step:
        """Step all; environments whose episode ended the step before begin a new one."""
        if self.state is None:
            raise RuntimeError("step was called before reset: call reset first")
        fresh = self.prev_done
        rewards, terminated = self._move(actions)
        self.steps += 1
        truncated = self.steps >= self.max_episode_steps
        if fresh.any():
            self.state[:, fresh] = self._first_states(int(fresh.sum()))
            self.steps[fresh] = 0
            rewards[fresh] = 0.0
            terminated[fresh] = False
            truncated[fresh] = False
        self.prev_done = terminated | truncated
        return self._observe(), rewards.astype(np.float32), terminated, truncated, {}

    def _first_states(self, count: int) -> NDArray[np.float64]:
        low, high = np.array(self.reset_low)[:, None], np.array(self.reset_high)[:, None]
        return self.np_random.uniform(low, high, size=(2, count))

    def _move(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        raise NotImplementedError(f"{type(self).__name__} has no dynamics: define _move")

    def _observe(self) -> NDArray[np.float32]:
        assert self.state is not None
        return self.state.T.astype(np.float32)


class VectorPendulum(ClassicVectorEnv):
    """Swing up and hold a pendulum: torque in [-2, 2], observation (cos, sin, angular velocity).

    Args:
        num_envs: N.
        max_episode_steps: the time limit; no other end.

    """

    single_observation_space = spaces.Box(
        np.array([-1, -1, -8], dtype=np.float32), np.array([1, 1, 8], dtype=np.float32)
    )
    single_action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
    reset_low, reset_high = (-np.pi, -1.0), (np.pi, 1.0)

    def __init__(self, num_envs: int, max_episode_steps: int = 200) -> None:
        super().__init__(num_envs, max_episode_steps)

    def _move(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        assert self.state is not None
        angle, velocity = self.state
        torque = np.clip(actions[:, 0], -2.0, 2.0)
        wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
        rewards = -(wrapped**2 + 0.1 * velocity**2 + 0.001 * torque**2)
        velocity = velocity + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05
        velocity = np.clip(velocity, -8.0, 8.0)
        self.state = np.stack((angle + velocity * 0.05, velocity))
        return rewards, np.zeros(self.num_envs, dtype=np.bool_)

    def _observe(self) -> NDArray[np.float32]:
        assert self.state is not None
        angle, velocity = self.state
        return np.stack((np.cos(angle), np.sin(angle), velocity), axis=1).astype(np.float32)


class VectorMountainCar(ClassicVectorEnv):
    """Drive an underpowered car up a hill: actions left, coast, right; reward -1 a step.

    Args:
        num_envs: N.
        max_episode_steps: the time limit.
        shaping: the weight c of a potential-based reward gamma * phi(s') - phi(s), phi = c times
            the car's mechanical energy in units of what the goal needs (Ng, Harada and Russell,
            1999, theorem 1); 0: the plain task.
        gamma: the discount of the shaping term; it must be the agent's.
        action_repeat: how many steps of the dynamics an action lasts. Rewards add up.

    """

    single_observation_space = spaces.Box(
        np.array([-1.2, -0.07], dtype=np.float32), np.array([0.6, 0.07], dtype=np.float32)
    )
    single_action_space = spaces.Discrete(3)
    reset_low, reset_high = (-0.6, 0.0), (-0.4, 0.0)

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int = 200,
        *,
        shaping: float = 0.0,
        gamma: float = 0.99,
        action_repeat: int = 1,
    ) -> None:
        if max_episode_steps % action_repeat:
            raise ValueError(
                f"action_repeat must divide max_episode_steps {max_episode_steps}; "
                f"got {action_repeat}"
            )
        super().__init__(num_envs, max_episode_steps // action_repeat)
        self.shaping, self.gamma, self.action_repeat = shaping, gamma, action_repeat

    def _move(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        assert self.state is not None
        position, velocity = self.state
        before = self._potential(position, velocity)
        reached = np.zeros(self.num_envs, dtype=np.bool_)
        rewards = np.zeros(self.num_envs)
        for _ in range(self.action_repeat):
            push = (actions - 1) * 0.001 - 0.0025 * np.cos(3 * position)
            moved = np.clip(velocity + push, -0.07, 0.07)
            place = np.clip(position + moved, -1.2, 0.6)
            moved = np.where((place == -1.2) & (moved < 0), 0.0, moved)
            rewards -= ~reached
            velocity = np.where(reached, velocity, moved)
            position = np.where(reached, position, place)
            reached |= position >= 0.5
        if self.shaping:
            # Behind a terminal state the potential is 0, or the optimal policy may change.
            after = np.where(reached, 0.0, self._potential(position, velocity))
            rewards += self.gamma * after - before
        self.state = np.stack((position, velocity))
        return rewards, reached

    def _potential(
        self, position: NDArray[np.float64], velocity: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        # Height 0 at the bottom of the valley; the goal at 0.5 stands at sin(1.5) + 1.
        energy = 0.0025 / 3 * (np.sin(3 * position) + 1) + 0.5 * velocity**2
        return self.shaping * energy / (0.0025 / 3 * (np.sin(1.5) + 1))


VECTOR_ENVIRONMENTS: dict[str, type[ClassicVectorEnv] | Any] = {
    "Pendulum-v1": VectorPendulum,
    "MountainCar-v0": VectorMountainCar,
}
