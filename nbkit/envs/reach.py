"""Reach: bring the tool to a target and come to rest there.

``ReachEnv`` is a gymnasium environment ("nbkit/Reach-v0" once this module is imported);
``VectorReach`` steps N of them in one process.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from nbkit.envs.arm_core import ArmCore, Bools
from nbkit.envs.arm_envs import ArmEnv, ArmVectorEnv
from nbkit.envs.arm_model import FORE_M, SPEED_LIMIT, TARGET_RADIUS_M, UPPER_M, Array

REST_M_PER_S = 0.2
NEAREST_M, FARTHEST_M = 0.14, 0.34
WIDEST = np.pi / 2  # targets lie in the half plane before the arm
_REACH_M = UPPER_M + FORE_M


class ReachTask:
    """The tip within the target's radius, slower than ``REST_M_PER_S``.

    The observation (12): cosine and sine of both angles, both speeds in units of the limit, the
    target and the way to it in units of the arm's reach, and the last action.

    Args:
        radius_m: how near is near enough.

    """

    model = "arm"
    observation_size = 12

    def __init__(self, radius_m: float = TARGET_RADIUS_M) -> None:
        self.radius_m = radius_m

    def place(self, core: ArmCore, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Draw angles and a target, uniform over the area of a half ring."""
        draw = rng.uniform(size=(len(rows), 4))
        core.qpos[rows, 0] = (2 * draw[:, 0] - 1) * 1.4
        core.qpos[rows, 1] = (2 * draw[:, 1] - 1) * 2.2
        radius = np.sqrt(NEAREST_M**2 + draw[:, 2] * (FARTHEST_M**2 - NEAREST_M**2))
        angle = (2 * draw[:, 3] - 1) * WIDEST
        core.target[rows, 0] = radius * np.cos(angle)
        core.target[rows, 1] = radius * np.sin(angle)

    def observe(self, core: ArmCore) -> Array:
        """Return (N, 12)."""
        angles = core.qpos[:, :2]
        parts = [
            *(np.cos(angles), np.sin(angles), core.qvel[:, :2] / SPEED_LIMIT),
            *(core.target / _REACH_M, (core.target - core.tip) / _REACH_M, core.last_action),
        ]
        return np.concatenate(parts, axis=1)

    def distance_m(self, core: ArmCore) -> Array:
        """Return the distance from tip to target, (N,)."""
        return np.linalg.norm(core.target - core.tip, axis=1)

    def cost_m(self, core: ArmCore) -> Array:
        """Return the same: it is all there is to do."""
        return self.distance_m(core)

    def success(self, core: ArmCore) -> Bools:
        """Return (N,): there, and at rest."""
        return (self.distance_m(core) < self.radius_m) & (core.tip_speed() < REST_M_PER_S)


class ReachEnv(ArmEnv):
    """Reach as a single gymnasium environment; settings as ``ArmEnv``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(ReachTask(), **settings)


class VectorReach(ArmVectorEnv):
    """N reaches in one process; settings as ``ArmVectorEnv``."""

    def __init__(self, num_envs: int = 1, **settings: Any) -> None:
        super().__init__(ReachTask(), num_envs, **settings)


if "nbkit/Reach-v0" not in gym.registry:
    gym.register("nbkit/Reach-v0", ReachEnv, vector_entry_point=VectorReach)
