"""Small films: frames, joined films, files that say when they are too large."""

import pytest
import torch

from nbkit.envs.reach import VectorReach
from nbkit.envs.rendering import NoRenderer, choose_backend
from nbkit.envs.videos import film, film_html, gif, side_by_side

pytestmark = pytest.mark.chapter(41)


@pytest.fixture(scope="module", autouse=True)
def _drawing():
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")


def test_films_are_small_and_say_when_they_are_not():
    env = VectorReach(1)
    env.reset(seed=0)

    def act(observations):
        return torch.zeros(1, 2)

    def observe(actions):
        return torch.from_numpy(env.step(actions.numpy())[0])

    frames = film(env, act, observe, torch.zeros(1, 12), steps=4, size=(30, 40), every=2)
    assert len(frames) == 2 and frames[0].shape == (30, 40, 3)
    both = side_by_side([frames, frames[:1]])
    assert len(both) == 2 and both[1].shape == (30, 80, 3)
    data = gif(both)
    assert data[:3] == b"GIF" and 'alt="a &quot;film&quot;"' in film_html(data, 'a "film"')
    noise = torch.randint(0, 256, (40, 200, 200, 3), dtype=torch.uint8).numpy()
    with pytest.raises(ValueError, match="kB"):
        gif(list(noise), colours=200)
    with pytest.raises(ValueError, match="at least one"):
        gif([])
