"""The two-step way from pixels: labels are the truth, the network learns them, nothing leaks."""

import pytest
import torch

from nbkit.envs.pixels import ArmCamera
from nbkit.envs.push import VectorPush
from nbkit.envs.reach import VectorReach
from nbkit.envs.rendering import NoRenderer, choose_backend
from nbkit.envs.seeing import Perception, SeeingArms, labelled_frames, state_of, teach
from nbkit.envs.videos import film, film_html, gif, side_by_side

pytestmark = pytest.mark.chapter(41)


@pytest.fixture(scope="module", autouse=True)
def _drawing():
    try:
        choose_backend()
    except NoRenderer:
        pytest.skip("neither EGL nor OSMesa opens here")


def test_labels_are_the_state_at_the_last_frame():
    env = VectorReach(3)
    camera = ArmCamera(env, 40)
    stacks, states = labelled_frames(env, camera, frames=2, rounds=2, seed=0)
    assert stacks.shape == (6, 6, 40, 40) and stacks.dtype == torch.uint8
    assert torch.equal(states[3:], state_of(env))
    assert torch.equal(stacks[3:, 3:], torch.from_numpy(camera.frames()))
    assert not torch.equal(stacks[:, :3], stacks[:, 3:])  # they move
    again = labelled_frames(env, camera, frames=2, rounds=2, seed=0)
    assert torch.equal(again[0], stacks) and torch.equal(again[1], states)
    camera.close()
    with pytest.raises(ValueError, match="push"):
        state_of(VectorPush(1))


def test_teaching_lowers_the_loss_on_a_handful_of_frames():
    torch.manual_seed(0)
    env = VectorReach(8)
    camera = ArmCamera(env, 40)
    stacks, states = labelled_frames(env, camera, frames=2, rounds=1, seed=1)
    perception = Perception(2, 40, states.shape[1], width=32)
    generator = torch.Generator().manual_seed(0)
    losses = teach(perception, stacks, states, steps=40, batch=8, generator=generator)
    assert losses[-1] < 0.3 * losses[0]
    camera.close()


def test_what_is_observed_comes_from_the_frames_and_the_last_action():
    torch.manual_seed(0)
    perception = Perception(2, 40, 10, width=16)
    env = SeeingArms(VectorReach(2, episode_steps=3), perception)
    first = env.reset(4)
    assert first.shape == (2, 12) and torch.equal(first[:, -2:], torch.zeros(2, 2))
    actions = torch.tensor([[0.5, -2.0], [0.1, 0.2]])
    step = env.step(actions)
    assert torch.equal(step.next_observations[:, -2:], actions.clamp(-1, 1))
    with torch.no_grad():
        said = perception(env._stack.stack)
    assert torch.equal(step.next_observations[:, :-2], said)
    state = env.get_state()
    ahead = [env.step(actions).next_observations for _ in range(4)]
    env.set_state(state)
    assert all(torch.equal(x, env.step(actions).next_observations) for x in ahead)
    env.set_state(state)
    env.step(actions)
    assert env.step(actions).truncated.all()
    dummy = env.step(actions)
    assert not dummy.valid.any() and torch.equal(dummy.next_observations[:, -2:], torch.zeros(2, 2))
    env.close()


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
