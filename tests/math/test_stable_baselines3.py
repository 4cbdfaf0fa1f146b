"""Against Stable-Baselines3's rollout buffer on whole rollouts of several environments.

Its truncation (the bootstrap added to the reward while collecting) and its losses are compared in
tests/conformance/test_installed_libraries.py.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

pytest.importorskip("stable_baselines3")

from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from nbkit.advantages import gae


@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 20),
    envs=st.integers(1, 4),
    gamma=st.sampled_from([0.9, 0.99, 1.0]),
    lam=st.sampled_from([0.0, 0.95, 1.0]),
)
def test_gae_equals_the_buffer(seed: int, steps: int, envs: int, gamma: float, lam: float) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=(2, steps, envs)).astype(np.float32)
    done = rng.random((steps, envs)) < 0.2
    last_values = rng.normal(size=envs).astype(np.float32)

    box = spaces.Box(-1, 1, (1,))
    buffer = RolloutBuffer(steps, box, box, gamma=gamma, gae_lambda=lam, n_envs=envs)
    buffer.rewards[:], buffer.values[:] = rewards, values
    buffer.episode_starts[1:] = done[:-1]
    buffer.compute_returns_and_advantage(torch.from_numpy(last_values), done[-1])

    advantages, returns = gae(
        torch.from_numpy(rewards),
        torch.from_numpy(values),
        torch.from_numpy(np.concatenate([values[1:], last_values[None]])),
        torch.from_numpy(done),
        torch.from_numpy(done),
        gamma=gamma,
        lam=lam,
    )
    np.testing.assert_allclose(advantages.numpy(), buffer.advantages, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(returns.numpy(), buffer.returns, atol=1e-5, rtol=1e-5)
