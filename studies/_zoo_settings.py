"""Tuned settings of Stable-Baselines3's PPO: rl-baselines3-zoo, hyperparams/ppo.yml.

From https://github.com/DLR-RM/rl-baselines3-zoo.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Linear:
    """What the zoo writes as ``lin_x``: x times the share of the run that is left."""

    start: float

    def __call__(self, left: float) -> float:
        """Return the value where ``left`` of the run, from 1 to 0, is still to come."""
        return left * self.start


# Task -> arguments of PPO, and "n_envs", the number of environments.
ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": Linear(0.001),
        "clip_range": Linear(0.2),
    },
    "LunarLander-v3": {
        "n_envs": 16,
        "n_steps": 1024,
        "batch_size": 64,
        "gae_lambda": 0.98,
        "gamma": 0.999,
        "n_epochs": 4,
        "ent_coef": 0.01,
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "n_steps": 1024,
        "gae_lambda": 0.95,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "clip_range": 0.2,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
}
# The zoo's budgets, in environment steps: schedules run over them.
ZOO_STEPS = {"CartPole-v1": 100_000, "LunarLander-v3": 1_000_000}
