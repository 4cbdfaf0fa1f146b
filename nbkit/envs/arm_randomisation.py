"""Domain randomisation (Tobin et al., 2017; Peng et al., 2018): a new arm for each episode.

A policy that was trained on one simulator knows its every number. Trained on a range of them it
must cope with what it cannot see, and reality is then perhaps one more draw.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np

from nbkit.envs.arm_model import Physics

Range = tuple[float, float]


@dataclass(frozen=True)
class Ranges:
    """Uniform ranges, both ends included and finite. The defaults change nothing.

    Attributes:
        mass: a factor above 0, see ``Physics``.
        friction, damping, light: factors of at least 0.
        joint_friction_nm: dry friction of the hinges, Nm.
        latency_steps: whole control steps.
        camera_m: the camera's largest shift along each axis, either way, m.
        camera_rad: its largest turn about each of its axes, either way, rad.

    Raises:
        ValueError: a range from which an impossible arm could be drawn.

    """

    mass: Range = (1.0, 1.0)
    friction: Range = (1.0, 1.0)
    damping: Range = (1.0, 1.0)
    joint_friction_nm: Range = (0.0, 0.0)
    latency_steps: tuple[int, int] = (0, 0)
    light: Range = (1.0, 1.0)
    camera_m: float = 0.0
    camera_rad: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mass", "friction", "damping", "joint_friction_nm", "latency_steps", "light"):
            low, high = getattr(self, name)
            if not 0 <= low <= high < math.inf:
                raise ValueError(f"{name}: a range needs 0 <= low <= high; got ({low}, {high})")
        if self.mass[0] == 0:
            raise ValueError(f"mass: an arm needs some, so low must be above 0; got {self.mass}")
        if any(edge != int(edge) for edge in self.latency_steps):
            raise ValueError(f"latency_steps: both ends must be whole; got {self.latency_steps}")
        for name in ("camera_m", "camera_rad"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0; got {getattr(self, name)}")

    def draw(self, rng: np.random.Generator) -> Physics:
        """Draw one arm."""
        shift = rng.uniform(-1.0, 1.0, 3) * self.camera_m
        drawn = Physics(
            mass=float(rng.uniform(*self.mass)),
            friction=float(rng.uniform(*self.friction)),
            damping=float(rng.uniform(*self.damping)),
            joint_friction_nm=float(rng.uniform(*self.joint_friction_nm)),
            latency_steps=int(rng.integers(self.latency_steps[0], self.latency_steps[1] + 1)),
            light=float(rng.uniform(*self.light)),
            camera_m=(float(shift[0]), float(shift[1]), float(shift[2])),
        )
        if not self.camera_rad:
            return drawn  # as before there was a turn: recorded seeds draw the same arms
        turn = rng.uniform(-1.0, 1.0, 3) * self.camera_rad
        return replace(drawn, camera_rad=(float(turn[0]), float(turn[1]), float(turn[2])))


class RandomisePhysics(gym.Wrapper[Any, Any, Any, Any]):
    """Draw new physical parameters at each reset of an arm.

    Args:
        env: ``ReachEnv`` or ``PushEnv``, wrapped or not.
        ranges: what is drawn from.

    Raises:
        TypeError: an environment that is no arm.

    """

    def __init__(self, env: gym.Env[Any, Any], ranges: Ranges) -> None:
        super().__init__(env)
        if not hasattr(env.unwrapped, "set_physics"):
            raise TypeError(f"{env.unwrapped} has no set_physics: randomisation is for the arms")
        self.ranges = ranges
        self._rng = np.random.default_rng()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw, then begin an episode; ``info["physics"]`` says what was drawn."""
        if seed is not None:
            self._rng = np.random.default_rng([seed, 1])  # apart from the environment's own draws
        physics = self.ranges.draw(self._rng)
        arm: Any = self.unwrapped
        arm.set_physics(physics)
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "physics": physics}
