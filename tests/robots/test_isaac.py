"""The adapter for Isaac Lab against a fake with its interface."""

import pytest
import torch

from nbkit.advantages import gae
from nbkit.control.actor_critic import ActorCritic
from nbkit.envs.isaac import FakeIsaacReach, IsaacAdapter, behind, collect_same_step
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.update import update

pytestmark = pytest.mark.chapter(41)


def policy_for(adapter: IsaacAdapter, seed: int = 0) -> ActorCritic:
    space = adapter.env.single_action_space
    generator = torch.Generator().manual_seed(seed)
    return ActorCritic(8, space, shared=False, log_std=-0.5, generator=generator)


def test_the_fake_resets_within_the_step_and_keeps_the_flags():
    env = FakeIsaacReach(3, episode_steps=4, final=True)
    first = {name: part.clone() for name, part in env.reset(seed=0)[0].items()}
    for t in range(1, 5):
        observations, rewards, terminated, time_outs, extras = env.step(torch.zeros(3, 2))
        assert rewards.shape == (3,) and time_outs.tolist() == [t == 4] * 3
    alive = ~terminated
    assert torch.equal(
        extras["final_obs"]["policy"][alive], first["policy"][alive]
    )  # it stood still
    assert not torch.equal(observations["policy"], first["policy"])  # already the next episode
    assert env.episode_length_buf.tolist() == [0, 0, 0]


def test_both_flags_at_once_are_a_termination():
    env = FakeIsaacReach(2, episode_steps=1)
    adapter = IsaacAdapter(env)
    adapter.reset(0)
    env.target = env._tip().clone()
    step = adapter.step(torch.zeros(2, 2))
    assert step.terminated.all() and not step.truncated.any() and step.final is None


def test_actions_are_clipped_and_groups_are_named():
    env = FakeIsaacReach(2)
    seen = []
    plain = env.step
    env.step = lambda actions: seen.append(actions) or plain(actions)  # type: ignore[method-assign]
    IsaacAdapter(env).step(torch.full((2, 2), 9.0))
    assert seen[0].max() == 1.0
    with pytest.raises(ValueError, match="critic"):
        IsaacAdapter(env, group="critic").reset(0)


def test_the_fake_overwrites_what_it_returned_as_the_real_one_does():
    env = FakeIsaacReach(3, final=True)
    before = (env.reset(seed=0)[0]["policy"], *env.step(torch.zeros(3, 2))[1:4])
    observations, *flat, extras = env.step(torch.ones(3, 2))
    after = (observations["policy"], *flat)
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(before, after, strict=True))
    again = env.step(torch.ones(3, 2))[4]["final_obs"]["policy"]
    assert extras["final_obs"]["policy"].data_ptr() == again.data_ptr()


@pytest.mark.parametrize("final", [True, False])
def test_a_rollout_keeps_every_row_of_an_environment_that_reuses_its_buffers(final):
    env = FakeIsaacReach(4, episode_steps=5, final=final)
    adapter = IsaacAdapter(env)
    policy = policy_for(adapter)
    batch, _, ends = collect_same_step(
        adapter, policy, adapter.reset(1), 12, torch.Generator().manual_seed(2), gamma=0.9, lam=0.8
    )
    record: list[tuple[torch.Tensor, ...]] = []
    observations = env.reset(seed=1)[0]["policy"].clone()
    for actions in batch.actions.view(12, 4, 2):
        after, rewards, died, cut, _ = env.step(actions.clamp(-1, 1))
        record.append((observations, rewards.clone(), died.clone(), (cut & ~died).clone()))
        observations = after["policy"].clone()
    seen, rewards, died, cut = (torch.stack(column) for column in zip(*record, strict=True))
    assert torch.equal(batch.observations.view(12, 4, 8), seen)
    for name, column in (("rewards", rewards), ("terminated", died), ("truncated", cut)):
        assert torch.equal(ends[name], column)
    assert len(ends["rewards"].unique(dim=0)) == 12
    assert not ends["truncated"][0].any() and ends["truncated"].any()


def test_a_step_is_not_changed_by_the_next_one():
    adapter = IsaacAdapter(FakeIsaacReach(3, final=True))
    first = adapter.reset(0)
    step = adapter.step(torch.ones(3, 2))
    kept = [first, step.observations, step.final, step.rewards, step.terminated, step.truncated]
    copies = [part.clone() for part in kept]
    for _ in range(60):
        adapter.step(-torch.ones(3, 2))
    assert all(torch.equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_what_lies_behind_a_row():
    values, after = torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [9.0]])
    done = torch.tensor([[False], [True]])
    assert behind(values, after, None, done).tolist() == [[2.0], [2.0]]
    final = torch.tensor([[7.0], [5.0]])
    assert behind(values, after, final, done).tolist() == [[2.0], [5.0]]


@pytest.mark.parametrize("final", [True, False])
def test_the_batch_is_gae_over_plain_loops(final):
    env = FakeIsaacReach(3, episode_steps=5, final=final)
    adapter = IsaacAdapter(env)
    policy = policy_for(adapter)
    start = adapter.reset(1)
    batch, after, ends = collect_same_step(
        adapter, policy, start, 12, torch.Generator().manual_seed(2), gamma=0.9, lam=0.8
    )
    assert len(batch) == 36 and ends["truncated"].any()
    # Play it again, row by row, in plain numbers.
    env.reset(seed=1)
    values = batch.values.view(12, 3)
    actions = batch.actions.view(12, 3, 2)
    after_values = policy(after)[1]
    rows = []
    for t in range(12):
        observations, rewards, died, cut, extras = env.step(actions[t].clamp(-1, 1))
        behind_row = []
        for n in range(3):
            if died[n] or cut[n]:
                lost = values[t, n].item()
                seen = extras["final_obs"]["policy"][n : n + 1] if final else None
                behind_row.append(policy(seen)[1].item() if final else lost)
            else:
                later = values[t + 1, n] if t < 11 else after_values[n]
                behind_row.append(later.item())
        rows.append((rewards.tolist(), died.tolist(), (died | cut).tolist(), behind_row))
    for n in range(3):
        trace = 0.0
        for t in reversed(range(12)):
            rewards, died, done, later = (column[n] for column in rows[t])
            delta = rewards + 0.9 * later * (not died) - values[t, n].item()
            trace = delta + 0.9 * 0.8 * trace * (not done)
            assert batch.advantages.view(12, 3)[t, n].item() == pytest.approx(trace, abs=1e-4)
    assert torch.equal(after, adapter._seen(observations))


def test_dropping_the_flag_of_truncation_would_show():
    """The test above would not see a bootstrap from the next episode if it made no difference."""
    env = IsaacAdapter(FakeIsaacReach(3, episode_steps=5))
    policy = policy_for(env)
    batch, after, ends = collect_same_step(
        env, policy, env.reset(1), 12, torch.Generator().manual_seed(2), gamma=0.9, lam=0.8
    )
    values = batch.values.view(12, 3)
    wrong = torch.cat([values[1:], policy(after)[1].detach()[None]])
    done = ends["terminated"] | ends["truncated"]
    other, _ = gae(ends["rewards"], values, wrong, ends["terminated"], done, gamma=0.9, lam=0.8)
    assert not torch.allclose(other.flatten(), batch.advantages, atol=1e-3)


@pytest.mark.slow
def test_the_update_of_chapter_12_learns_through_it():
    env = IsaacAdapter(FakeIsaacReach(64))
    policy = policy_for(env)
    config = PPOConfig(
        total_steps=200_000, gamma=0.95, lam=0.95, epochs=6, minibatch_size=256,
        advantage_normalisation="batch", learning_rate=2e-3,
    )  # fmt: skip
    optimiser = torch.optim.Adam(policy.parameters(), lr=config.learning_rate)
    generator = torch.Generator().manual_seed(0)
    observations, won = env.reset(0), []
    for _ in range(50):
        batch, observations, ends = collect_same_step(
            env, policy, observations, 32, generator, gamma=config.gamma, lam=config.lam
        )
        update(policy, optimiser, batch, config, generator)
        finished = ends["terminated"].sum() + ends["truncated"].sum()
        won.append((ends["terminated"].sum() / finished.clamp(min=1)).item())
    assert won[1] < 0.6 < 0.9 < sum(won[-5:]) / 5  # no time limit falls into the first rollout
