"""Pictures of an arm that acts."""

import pytest
import torch

from nbkit.envs.reach import VectorReach
from nbkit.envs.rendering import NoRenderer, choose_backend
from nbkit.envs.videos import film

pytestmark = pytest.mark.chapter(41)


@pytest.fixture(scope="module", autouse=True)
def _drawing():
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")


def test_an_arm_is_drawn_every_so_many_steps():
    env = VectorReach(1)
    env.reset(seed=0)

    def act(observations):
        return torch.ones(1, 2)

    def observe(actions):
        return torch.from_numpy(env.step(actions.numpy())[0])

    frames = film(env, act, observe, torch.zeros(1, 12), steps=4, size=(30, 40), every=2)
    assert len(frames) == 2 and frames[0].shape == (30, 40, 3)
    assert (frames[0] != frames[1]).any() and frames[0].std() > 10
