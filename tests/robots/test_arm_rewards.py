"""Rewards: by hand, and the promise of the potential."""

import numpy as np
import pytest

from nbkit.envs.arm_rewards import POTENTIAL_SCALE, potential, reward, shaping
from nbkit.envs.reach import VectorReach

pytestmark = pytest.mark.chapter(41)


def test_each_form_by_hand():
    given = {
        "cost_before_m": np.array([0.3, 0.05]),
        "cost_m": np.array([0.2, 0.02]),
        "success": np.array([False, True]),
        "actions": np.array([[1.0, -1.0], [0.0, 0.5]]),
        "gamma": 0.9,
    }
    assert np.allclose(reward("sparse", **given), [-1.0, 0.0])
    assert np.allclose(reward("dense", **given), [-0.8 - 0.04, -0.08 - 0.005 + 1.0])
    assert np.allclose(reward("closeness", **given), np.exp([-2.0, -0.2]))
    expected = [-1.0 + 0.9 * -25 * 0.2 + 25 * 0.3, 25 * 0.05]
    assert POTENTIAL_SCALE == 25 and np.allclose(reward("potential", **given), expected)
    with pytest.raises(ValueError, match="form"):
        reward("kind", **given)


def test_the_potential_telescopes_over_an_episode():
    rng = np.random.default_rng(0)
    for terminal in (True, False):
        phi = potential(rng.uniform(0, 1, 20))
        ends = np.zeros(19, dtype=bool)
        ends[-1] = terminal
        total = sum(
            0.9**t * shaping(phi[t : t + 1], phi[t + 1 : t + 2], ends[t : t + 1], gamma=0.9)[0]
            for t in range(19)
        )
        left = 0.0 if terminal else 0.9**19 * phi[-1]
        assert np.isclose(total, left - phi[0])


def test_the_environment_pays_sparse_plus_potential():
    rng = np.random.default_rng(1)
    sparse, shaped = (VectorReach(4, reward=form, gamma=0.97) for form in ("sparse", "potential"))
    sparse.reset(seed=2)
    shaped.reset(seed=2)
    before = potential(shaped.core.cost)
    for _ in range(120):
        actions = rng.uniform(-1, 1, (4, 2))
        dummy = shaped.prev_done.copy()
        plain, full = sparse.step(actions), shaped.step(actions)
        after = potential(shaped.core.cost)
        added = np.where(dummy, 0.0, shaping(before, after, full[2], gamma=0.97))
        assert np.allclose(full[1], plain[1] + added)
        before = after
