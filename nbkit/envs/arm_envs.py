"""The two shells around ``ArmCore``: gymnasium's single environment, and N at once."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from nbkit._inputs import check_choice
from nbkit.envs.arm_core import ACTION_SIZE, ArmCore, ArmTask, Bools, Floats
from nbkit.envs.arm_model import Array, Physics
from nbkit.envs.arm_randomisation import Ranges

RENDER_SIZE = (240, 320)
_EVERY = np.zeros(1, dtype=np.int64)


def arm_spaces(task: ArmTask) -> tuple[Any, Any]:
    """Return the observation space and the action space of one arm."""
    size = (task.observation_size,)
    return (
        spaces.Box(-np.inf, np.inf, size, np.float32),
        spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32),
    )


class ArmEnv(gym.Env[Floats, Floats]):
    """One arm as a gymnasium environment.

    An episode is *terminated* by success and *truncated* by the time limit. ``info`` holds
    "is_success" and "distance" (m).

    Args:
        task: reach or push.
        reward: a form of ``nbkit.envs.arm_rewards``.
        gamma: of the potential.
        episode_steps: the time limit.
        render_mode: None or "rgb_array".
        camera: "side" or "overhead".

    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012

    def __init__(
        self,
        task: ArmTask,
        *,
        render_mode: str | None = None,
        camera: str = "side",
        **settings: Any,
    ) -> None:
        check_choice("render_mode", render_mode, (None, "rgb_array"))
        check_choice("camera", camera, ("side", "overhead"))
        self.core = ArmCore(task, 1, **settings)
        self.observation_space, self.action_space = arm_spaces(task)
        self.render_mode, self.camera = render_mode, camera
        self._renderer: Any = None
        self._begun = False

    def set_physics(self, physics: Physics) -> None:
        """Change the arm; takes effect with the next ``reset``."""
        self.core.set_physics(0, physics)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.core.reset(_EVERY, self.np_random)
        self._begun = True
        distance = self.core.task.distance_m(self.core)[0]
        return self.core.observe()[0], {"is_success": False, "distance": float(distance)}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Act for 0.04 s.

        Raises:
            ResetNeeded: no episode has begun.

        """
        if not self._begun:
            raise gym.error.ResetNeeded("step was called before reset: call reset() first")
        rows = self.core.step(np.asarray(action)[None])
        observations, rewards, terminated, truncated, info = rows
        return (
            observations[0],
            float(rewards[0]),
            bool(terminated[0]),
            bool(truncated[0]),
            {"is_success": bool(info["is_success"][0]), "distance": float(info["distance"][0])},
        )

    def render(self) -> Any:
        """Return a picture (240, 320, 3) uint8 in render mode "rgb_array", else None."""
        if self.render_mode is None:
            return None
        from nbkit.envs.rendering import SceneRenderer  # needs OpenGL, which physics does not

        if self._renderer is None:
            self._renderer = SceneRenderer(self.core.models[0], *RENDER_SIZE, smooth=True)
        return self._renderer.render(self.core.models[0], self.core.datas[0], self.camera)

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def get_state(self) -> dict[str, Any]:
        """Return the exact state; see ``nbkit.control.env_state``."""
        return self.core.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        self.core.set_state(state)
        self._begun = True


class ArmVectorEnv(VectorEnv[Any, Any, Any]):
    """N arms stepped together, with next-step autoreset.

    Args:
        task: reach or push.
        num_envs: N.
        randomisation: draw new physical parameters for each episode.
        physics: one set of parameters for all, if there is no randomisation.
        **settings: of ``ArmCore``.

    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        task: ArmTask,
        num_envs: int,
        *,
        randomisation: Ranges | None = None,
        physics: Physics | None = None,
        **settings: Any,
    ) -> None:
        if randomisation is not None and physics is not None:
            raise ValueError("give randomisation or physics, not both")
        self.core = ArmCore(task, num_envs, **settings)
        self.num_envs = num_envs
        self.randomisation = randomisation
        if physics is not None:
            for i in range(num_envs):
                self.core.set_physics(i, physics)
        self.single_observation_space, self.single_action_space = arm_spaces(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.prev_done = np.zeros(num_envs, dtype=np.bool_)

    def _begin(self, rows: Any) -> None:
        if self.randomisation is not None:
            for i in rows:
                self.core.set_physics(i, self.randomisation.draw(self.np_random))
        self.core.reset(rows, self.np_random)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin new episodes everywhere."""
        super().reset(seed=seed)
        self._begin(np.arange(self.num_envs))
        self.prev_done[:] = False
        return self.core.observe(), {}

    def step(self, actions: Floats) -> tuple[Floats, Array, Bools, Bools, dict[str, Any]]:
        """Act everywhere; where an episode ended the step before, begin a new one instead."""
        observations, rewards, terminated, truncated, info = self.core.step(actions)
        if self.prev_done.any():
            new = self.prev_done
            self._begin(new.nonzero()[0])
            observations = self.core.observe()
            rewards = np.where(new, 0.0, rewards)
            terminated, truncated = terminated & ~new, truncated & ~new
            info = {"is_success": info["is_success"] & ~new, "distance": info["distance"]}
        self.prev_done = terminated | truncated
        return observations, rewards, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        """Return the exact state; see ``nbkit.control.env_state``."""
        return {"core": self.core.get_state(), "prev_done": self.prev_done.tolist()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        self.core.set_state(state["core"])
        self.prev_done = np.array(state["prev_done"], dtype=np.bool_)
