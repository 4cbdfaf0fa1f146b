"""The numbers of a world's dynamics, drawn anew for each run of a build.

A simulator of the usual world, written into a learner's file, is trained in outside of the count of
steps. Where the masses, the lengths and the force are not the usual ones, what was learned there
does not fit.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

Ranges = Mapping[str, tuple[float, float]]
# Factors of what gymnasium's CartPole has. The pole's length is what counts: a policy of the usual
# world balances with any of the other numbers, and lets a pole of more than twice the length fall.
CARTPOLE: Ranges = {
    "gravity": (0.8, 1.25),
    "masscart": (0.8, 1.25),
    "masspole": (0.8, 1.25),
    "length": (2.5, 3.5),
    "force_mag": (0.8, 1.25),
}


@dataclass(frozen=True)
class Physics:
    """Factors of the numbers of a world, by name; empty: the world as it is."""

    factors: Mapping[str, float]

    @classmethod
    def drawn(cls, ranges: Ranges, draw: random.Random) -> "Physics":
        """Draw a factor for each number."""
        return cls({name: draw.uniform(*ends) for name, ends in ranges.items()})

    def put_into(self, env: Any) -> None:
        """Change the numbers of an environment of gymnasium, single or vectorised.

        Raises:
            AttributeError: it has no number of such a name.

        """
        world = env.unwrapped
        for name, factor in self.factors.items():
            setattr(world, name, getattr(world, name) * factor)
        if self.factors:  # what CartPole computes from them when it is made
            world.total_mass = world.masspole + world.masscart
            world.polemass_length = world.masspole * world.length

    def single(self, env_id: str, **settings: Any) -> "gym.Env[Any, Any]":
        """One environment with these numbers."""
        env = gym.make(env_id, disable_env_checker=True, **settings)
        self.put_into(env)
        return env
