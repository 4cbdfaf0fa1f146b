"""Push: move a puck to a target with the tool.

``PushEnv`` is a gymnasium environment ("nbkit/Push-v0" once this module is imported);
``VectorPush`` steps N of them in one process.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from nbkit.envs.arm_core import ArmCore, Bools
from nbkit.envs.arm_envs import ArmEnv, ArmVectorEnv
from nbkit.envs.arm_model import FORE_M, SPEED_LIMIT, TARGET_RADIUS_M, UPPER_M, Array

_REACH_M = UPPER_M + FORE_M
TOUCH_M = 0.042  # tool and puck touch at this distance of their centres
APPROACH_WEIGHT = 0.5


class PushTask:
    """The puck's centre within the target's radius.

    The observation (18): as in reach with the puck in the target's place, and then the target seen
    from the puck, and the puck's velocity.

    Args:
        radius_m: how near is near enough.

    """

    model = "push"
    observation_size = 18

    def __init__(self, radius_m: float = TARGET_RADIUS_M) -> None:
        self.radius_m = radius_m

    def place(self, core: ArmCore, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Draw a folded arm, a puck before it, and a target farther out than the puck."""
        draw = rng.uniform(size=(len(rows), 6))
        core.qpos[rows, 0] = (2 * draw[:, 0] - 1) * 0.5 - 1.0
        core.qpos[rows, 1] = 2.3 + 0.2 * draw[:, 1]
        angle = (2 * draw[:, 2] - 1) * 0.6
        radius = 0.21 + 0.04 * draw[:, 3]
        core.qpos[rows, 2] = radius * np.cos(angle)
        core.qpos[rows, 3] = radius * np.sin(angle)
        aside = angle + (2 * draw[:, 4] - 1) * 0.35
        away = 0.29 + 0.05 * draw[:, 5]
        core.target[rows, 0] = away * np.cos(aside)
        core.target[rows, 1] = away * np.sin(aside)

    def observe(self, core: ArmCore) -> Array:
        """Return (N, 18)."""
        angles, puck = core.qpos[:, :2], core.qpos[:, 2:]
        parts = [
            *(np.cos(angles), np.sin(angles), core.qvel[:, :2] / SPEED_LIMIT),
            *(puck / _REACH_M, (puck - core.tip) / _REACH_M, core.last_action),
            *(core.target / _REACH_M, (core.target - puck) / _REACH_M, core.qvel[:, 2:]),
        ]
        return np.concatenate(parts, axis=1)

    def distance_m(self, core: ArmCore) -> Array:
        """Return the distance from puck to target, (N,)."""
        return np.linalg.norm(core.target - core.qpos[:, 2:], axis=1)

    def cost_m(self, core: ArmCore) -> Array:
        """Return the puck's way to the target and half the tool's way to the puck."""
        gap = np.linalg.norm(core.qpos[:, 2:] - core.tip, axis=1) - TOUCH_M
        return self.distance_m(core) + APPROACH_WEIGHT * np.maximum(gap, 0.0)

    def success(self, core: ArmCore) -> Bools:
        """Return (N,)."""
        return self.distance_m(core) < self.radius_m


class PushEnv(ArmEnv):
    """Push as a single gymnasium environment; settings as ``ArmEnv``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(PushTask(), **settings)


class VectorPush(ArmVectorEnv):
    """N pushes in one process; settings as ``ArmVectorEnv``."""

    def __init__(self, num_envs: int = 1, **settings: Any) -> None:
        super().__init__(PushTask(), num_envs, **settings)


if "nbkit/Push-v0" not in gym.registry:
    gym.register("nbkit/Push-v0", PushEnv, vector_entry_point=VectorPush)
