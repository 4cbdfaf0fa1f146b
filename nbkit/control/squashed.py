"""A Gaussian squeezed through tanh: actions within bounds, and a density that knows it.

What is stored and scored is the number u before the squashing; the motor gets tanh(u). The density
of the squeezed action is that of u over the slope of tanh there (Haarnoja et al., 2018, appendix
C). The slope does not depend on the policy, so it cancels out of PPO's ratio; entropy
and any comparison of densities need it.
"""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn.functional import softplus

from nbkit.control.actor_critic import DiagonalGaussian
from nbkit.control.environments import ControlEnv, Transition

_NODES, _WEIGHTS = (torch.from_numpy(x).float() for x in np.polynomial.hermite_e.hermegauss(16))
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_WIDE_NODES = torch.linspace(-6.0, 6.0, 128)  # even: a wide slope has a bend that Gauss misses
_WIDE_WEIGHTS = (-0.5 * _WIDE_NODES**2).softmax(0)


def log_slope(u: Tensor) -> Tensor:
    """Return log(1 - tanh(u)^2), elementwise, right also where tanh(u) rounds to 1."""
    return 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))


class SquashedGaussian(DiagonalGaussian):
    """Independent normal u, acted on as tanh(u); actions are handed around as u.

    Args:
        mean: (B, A) of u.
        log_std: (A,) of u.

    """

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-density of tanh(u), (B,), for u (B, A)."""
        return super().log_prob(actions) - log_slope(actions).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy of tanh(u) in nats, (B,); at most A log 2.

        It has no closed form; the mean of the log-slope is computed by quadrature. While every
        standard deviation is at most 1, by 16 nodes of Gauss, right to 2e-5 nats an action; else
        by 128 even ones, right to 1e-5 up to 8, to 1e-4 up to 12 and to 1e-3 up to 20.
        """
        narrow = bool(self.log_std.max() <= 0.0)
        pair = (_NODES, _WEIGHTS) if narrow else (_WIDE_NODES, _WIDE_WEIGHTS)
        nodes, weights = (x.to(self.mean) for x in pair)
        u = self.mean.unsqueeze(-1) + self.log_std.exp().unsqueeze(-1) * nodes  # (B, A, nodes)
        return super().entropy() + (log_slope(u) * weights).sum((-1, -2))


class SquashActions:
    """Let a ``ControlEnv`` take u and act on tanh(u), scaled to its bounds.

    Args:
        env: with a Box of finite bounds.

    Raises:
        ValueError: actions that are choices, or without bounds.

    """

    def __init__(self, env: ControlEnv) -> None:
        space = env.action_space
        if not isinstance(space, spaces.Box) or not space.is_bounded():
            raise ValueError(f"squashing needs a Box with finite bounds; got {space}")
        self.env, self.num_envs = env, env.num_envs
        self.observation_size = env.observation_size
        self.low, self.high = torch.from_numpy(space.low), torch.from_numpy(space.high)
        self.action_space: gym.Space[Any] = spaces.Box(-np.inf, np.inf, space.shape, np.float32)

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere."""
        return self.env.reset(seed)

    def step(self, actions: Tensor) -> Transition:
        """Act on tanh of ``actions`` (N, A), mapped from [-1, 1] to the bounds."""
        return self.env.step(self.low + 0.5 * (actions.tanh() + 1.0) * (self.high - self.low))

    def get_state(self) -> dict[str, Any]:
        """Return the state of the environment within."""
        return self.env.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        self.env.set_state(state)

    def close(self) -> None:
        """Close the environment within."""
        self.env.close()
