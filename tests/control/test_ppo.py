"""Loss, update, diagnostics and normalisers against closed forms; learning on CartPole."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from gymnasium import spaces

from nbkit.control.actor_critic import (
    ActorCritic,
    Categorical,
    DiagonalGaussian,
    bounded,
    make_actor_critic,
)
from nbkit.control.actor_critic_batched import BatchedActorCritic, make_batched_actor_critic
from nbkit.control.environments import make_control_env
from nbkit.control.normalisation import ObservationNormaliser, ReturnScale
from nbkit.control.rollouts import collect, make_batch
from nbkit.envs.probes import PROBES
from nbkit.minibatches import minibatches
from nbkit.trainers.ppo import PPOConfig, PPOTrainer, evaluate, ppo_loss
from nbkit.trainers.ppo.diagnostics import HEALTHY, explained_variance, movement, read
from nbkit.trainers.ppo.update import FlatParameter, update


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cartpole_batch(num_envs: int = 8, steps: int = 40, **network):
    env = make_control_env("CartPole-v1", num_envs)
    policy = make_actor_critic(env, seed=0, **network)
    rollout = collect(env, policy, env.reset(0), steps, generator())
    return policy, rollout, make_batch(rollout, gamma=0.98, lam=0.8)


def test_categorical_against_torch() -> None:
    logits = torch.randn(500, 3, generator=generator())
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    actions = ours.sample(generator())
    assert torch.allclose(ours.log_prob(actions), theirs.log_prob(actions), atol=1e-6)
    assert torch.allclose(ours.entropy(), theirs.entropy(), atol=1e-6)
    many = Categorical(torch.tensor([[0.0, 1.0, -1.0]]).expand(40_000, 3)).sample(generator())
    shares = many.bincount() / 40_000
    assert torch.allclose(shares, torch.tensor([0.0, 1.0, -1.0]).softmax(0), atol=0.01)


def test_gaussian_against_torch() -> None:
    mean, log_std = torch.randn(7, 2, generator=generator()), torch.tensor([-0.5, 0.3])
    ours = DiagonalGaussian(mean, log_std)
    theirs = torch.distributions.Normal(mean, log_std.exp())
    actions = ours.sample(generator())
    assert torch.allclose(ours.log_prob(actions), theirs.log_prob(actions).sum(1), atol=1e-5)
    assert torch.allclose(ours.entropy(), theirs.entropy().sum(1), atol=1e-6)
    wide = DiagonalGaussian(torch.zeros(40_000, 2), log_std).sample(generator())
    assert torch.allclose(wide.std(0), log_std.exp(), atol=0.02)


def test_bounds_are_explicit() -> None:
    box = spaces.Box(-2.0, 2.0, (1,))
    drawn = torch.tensor([[-5.0], [0.5], [1.0], [9.0]])
    assert bounded(drawn, box).squeeze().tolist() == [-2.0, 0.5, 1.0, 2.0]
    assert bounded(drawn, box, "scale").squeeze().tolist() == [-2.0, 1.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="finite"):
        bounded(drawn, spaces.Box(-float("inf"), float("inf"), (1,)), "scale")
    env = make_control_env("Pendulum-v1", 4)
    policy = make_actor_critic(env, seed=0, log_std=2.0)
    rollout = collect(env, policy, env.reset(0), 20, generator())
    assert rollout.actions.abs().max() > 2.0, "what is stored and scored is what was drawn"
    expected = policy.act(rollout.observations.flatten(0, 1)).log_prob(rollout.actions.view(-1, 1))
    assert torch.allclose(rollout.logprobs.flatten(), expected, atol=1e-5)


def test_orthogonal_weights_shared_and_separate_bodies() -> None:
    shared = ActorCritic(4, spaces.Discrete(2), generator=generator())
    separate = ActorCritic(4, spaces.Discrete(2), shared=False, generator=generator())
    body = shared.body[2].weight.detach()
    assert torch.allclose(body @ body.T, 2 * torch.eye(64), atol=1e-4)
    assert shared.policy_head.weight.detach().norm() == pytest.approx(0.01 * 2**0.5, abs=1e-5)
    assert sum(p.numel() for p in separate.parameters()) - sum(
        p.numel() for p in shared.parameters()
    ) == sum(p.numel() for p in separate.body.parameters())
    _, values = separate(torch.randn(3, 4))
    values.sum().backward()
    assert all(p.grad is None for p in separate.body.parameters())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_batched_bodies_are_the_separate_ones(env_id: str, activation: str) -> None:
    env = make_control_env(env_id, 4)
    plain = make_actor_critic(env, seed=0, shared=False, activation=activation)
    batched = make_batched_actor_critic(env, seed=0, activation=activation)
    rollout = collect(env, plain, env.reset(0), 30, generator())
    batch = make_batch(rollout, gamma=0.9, lam=0.9)
    distribution, values = batched(batch.observations)
    assert torch.allclose(values, plain(batch.observations)[1], atol=1e-5)
    acting = batched.act(batch.observations)
    assert torch.allclose(acting.log_prob(batch.actions), batch.logprobs, atol=1e-5)
    assert torch.allclose(distribution.entropy(), acting.entropy(), atol=1e-5)
    for policy in (plain, batched):
        ppo_loss(policy, batch, PPOConfig(entropy_coefficient=0.01), 0.2)[0].backward()
    first = batched.weights[0].grad
    assert torch.allclose(first[0].T, plain.body[0].weight.grad, atol=1e-5)
    assert torch.allclose(first[1].T, plain.value_body[0].weight.grad, atol=1e-4)
    assert torch.count_nonzero(batched.weights[-1].grad[1, :, 1:]) == 0
    twin = copy.deepcopy(batched)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(batch.observations)[1].abs().max() == 0, "a copy computes with its own weights"
    assert torch.equal(batched(batch.observations)[1], values)
    with pytest.raises(ValueError, match="shared=False"):
        BatchedActorCritic(make_actor_critic(env, seed=0))


def test_the_loss_is_the_papers_in_plain_loops() -> None:
    policy, _, batch = cartpole_batch()
    policy.policy_head.weight.data.normal_(0, 0.5, generator=generator())
    config = PPOConfig(entropy_coefficient=0.01, value_clip=0.1)
    loss = ppo_loss(policy, batch, config, 0.2)[0]
    distribution, values = policy(batch.observations)
    logits, values = distribution.logits.detach().double(), values.detach()
    total = 0.0
    for i in range(len(batch)):
        logp = logits[i].log_softmax(0)
        ratio = float((logp[batch.actions[i]] - batch.logprobs[i]).exp())
        advantage, target = float(batch.advantages[i]), float(batch.returns[i])
        surrogate = min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
        value, old = float(values[i]), float(batch.values[i])
        near = old + min(max(value - old, -0.1), 0.1)
        error = 0.5 * max((value - target) ** 2, (near - target) ** 2)
        total += -surrogate + 0.5 * error - 0.01 * float(-(logp.exp() * logp).sum())
    assert loss.item() == pytest.approx(total / len(batch), abs=1e-4)


def test_the_ratio_is_one_before_the_first_step_and_a_stale_policy_is_caught() -> None:
    env = make_control_env("CartPole-v1", 8)
    trainer = PPOTrainer(env, make_actor_critic(env, seed=0), PPOConfig(total_steps=2000), seed=0)
    assert trainer.step()["ratio_error"] < 1e-5

    class Stale(PPOTrainer):
        def batch(self, rollout):
            batch = super().batch(rollout)
            return replace(batch, logprobs=batch.logprobs + 0.1)

    broken = Stale(env, make_actor_critic(env, seed=0), PPOConfig(total_steps=2000), seed=0)
    broken.step()
    assert any(finding.startswith("ratio_error") for finding in read(broken.history))


def test_one_epoch_on_the_whole_batch_is_a2c() -> None:
    policy, _, batch = cartpole_batch(shared=False)
    ppo_loss(policy, batch, PPOConfig(), 0.2)[0].backward()
    with_clip = [p.grad.clone() for p in policy.parameters()]
    policy.zero_grad()
    distribution, values = policy(batch.observations)
    logp = distribution.log_prob(batch.actions)
    errors = 0.5 * (values - batch.returns).square()
    (-(logp * batch.advantages).mean() + 0.5 * errors.mean()).backward()
    for mine, parameter in zip(with_clip, policy.parameters(), strict=True):
        assert torch.allclose(mine, parameter.grad, atol=1e-5)


def test_minibatches_cover_every_row_once_in_nearly_equal_parts() -> None:
    parts = minibatches(1000, 300, generator())
    assert sorted(torch.cat(parts).tolist()) == list(range(1000))
    assert {len(part) for part in parts} == {333, 334}
    assert [len(p) for p in minibatches(257, 256, generator())] == [257]
    in_order = minibatches(10, 5, generator(), shuffle=False)
    assert torch.cat(in_order).tolist() == list(range(10))
    assert len(minibatches(7, None, generator())) == 1


def test_explained_variance() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(torch.zeros(3), returns) == 0.0
    assert explained_variance(-returns, returns) == pytest.approx(-3.0)
    assert explained_variance(returns, torch.ones(3)) != explained_variance(returns, returns)


def test_the_dashboard_finds_broken_twins_and_leaves_a_healthy_run_alone() -> None:
    env = make_control_env("CartPole-v1", 16)
    config = PPOConfig(total_steps=8000, epochs=4)
    healthy = PPOTrainer(env, make_actor_critic(env, seed=0), config, seed=0).run(progress=False)
    # The explained variance means little while returns hardly vary; here it may be low.
    assert [f for f in read(healthy) if not f.startswith("explained_variance")] == []
    wild = replace(config, learning_rate=0.02, max_grad_norm=None)
    findings = read(
        PPOTrainer(env, make_actor_critic(env, seed=0), wild, seed=0).run(progress=False)
    )
    assert any(finding.startswith("kl") for finding in findings)
    assert any(finding.startswith("clip_fraction") for finding in findings)

    class WrongTargets(PPOTrainer):
        def batch(self, rollout):
            batch = super().batch(rollout)
            return replace(batch, returns=-batch.returns)

    twin = WrongTargets(env, make_actor_critic(env, seed=0), config, seed=0)
    findings = read(twin.run(progress=False))
    assert any(finding.startswith("explained_variance") for finding in findings)
    assert set(HEALTHY) >= {finding.split()[0] for finding in findings}
    broken = [{**step, "kl": float("nan")} for step in healthy]
    assert "kl" in {finding.split()[0] for finding in read(broken)}


def test_the_clip_fraction_counts_rows_that_keep_their_gradient() -> None:
    policy, _, batch = cartpole_batch(shared=False)
    moved = replace(batch, logprobs=batch.logprobs - math.log(1.5))  # every ratio is 1.5
    assert movement(policy, moved, 0.2)["clip_fraction"] == 1.0
    config = PPOConfig(value_coefficient=0.0)

    def gradient(sign: float) -> float:
        policy.zero_grad()
        same = replace(moved, advantages=torch.full_like(moved.advantages, sign))
        ppo_loss(policy, same, config, 0.2)[0].backward()
        return sum(p.grad.abs().sum().item() for p in policy.parameters() if p.grad is not None)

    assert gradient(1.0) == 0.0
    assert gradient(-1.0) > 1e-3
    assert "no gradient" not in HEALTHY["clip_fraction"].look


def test_flat_parameters_step_like_plain_ones_and_survive_zero_grad() -> None:
    def run(flat: bool) -> list[torch.Tensor]:
        policy, _, batch = cartpole_batch(shared=False)
        parameters = list(policy.parameters())
        stepped = [FlatParameter(parameters).tensor] if flat else parameters
        optimiser = torch.optim.Adam(stepped, lr=1e-3, eps=1e-5)
        update(policy, optimiser, batch, PPOConfig(minibatch_size=64, epochs=3), generator())
        return parameters

    for plain, flat in zip(run(False), run(True), strict=True):
        assert torch.allclose(plain, flat, atol=1e-5)

    env = make_control_env("CartPole-v1", 4)
    policy = make_actor_critic(env, seed=0)
    trainer = PPOTrainer(env, policy, PPOConfig(), seed=0)
    policy.zero_grad()
    before = policy.body[0].weight.detach().clone()
    trainer.step()
    assert not torch.equal(before, policy.body[0].weight)
    PPOTrainer(env, policy, PPOConfig(), seed=0)
    with pytest.raises(RuntimeError, match="another trainer"):
        trainer.step()


def test_target_kl_ends_the_epochs() -> None:
    env = make_control_env("CartPole-v1", 8)
    config = PPOConfig(total_steps=2000, epochs=20, learning_rate=1e-2, target_kl=1e-3)
    assert PPOTrainer(env, make_actor_critic(env, seed=0), config, seed=0).step()["epochs"] < 20


def test_annealing_reaches_zero_at_the_budget() -> None:
    env = make_control_env("CartPole-v1", 8)
    config = PPOConfig(total_steps=2000, anneal_clip=True, epochs=1)
    history = PPOTrainer(env, make_actor_critic(env, seed=0), config, seed=0).run(progress=False)
    rates = [step["learning_rate"] for step in history]
    assert rates[0] == 1e-3
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(1e-3 * (1 - history[-2]["steps"] / 2000))


def test_observation_normaliser_against_all_rows_at_once() -> None:
    rows = torch.randn(500, 3, generator=generator()) * torch.tensor([1.0, 10.0, 0.1]) + 5
    normaliser = ObservationNormaliser(3)
    assert torch.equal(normaliser(rows), rows)
    for part in rows.split(77):
        normaliser.update(part)
    expected = (rows - rows.mean(0)) / rows.std(0, correction=0)
    assert torch.allclose(normaliser(rows), expected.clamp(-10, 10), atol=1e-3)
    with pytest.raises(ValueError, match="rows"):
        normaliser.update(rows[:, :2])


def test_return_scale_against_loops_and_dummies_do_not_count() -> None:
    rewards = torch.randn(30, 2, generator=generator())
    done = torch.rand(30, 2, generator=generator()) < 0.2
    valid = torch.ones_like(done)
    valid[1:] = ~done[:-1]
    done &= valid
    scale = ReturnScale(2, 0.9)
    scale.update(rewards[:11], done[:11], valid[:11])
    scale.update(rewards[11:], done[11:], valid[11:])
    seen = []
    for n in range(2):
        running = 0.0
        for t in range(30):
            if not valid[t, n]:
                continue
            running = 0.9 * running + float(rewards[t, n])
            seen.append(running)
            running = 0.0 if done[t, n] else running
    std = torch.tensor(seen).std(correction=0)
    assert torch.allclose(scale(rewards), rewards / std, atol=1e-4)


def test_normaliser_sees_real_rows_only_unless_the_fault_is_asked_for() -> None:
    def counted(**changes):
        env = make_control_env("CartPole-v1", 8)
        config = PPOConfig(total_steps=4000, normalise_observations=True, **changes)
        trainer = PPOTrainer(env, make_actor_critic(env, seed=0), config, seed=0)
        for _ in range(3):
            trainer.step()
        return trainer.normaliser.count, trainer.episodes.steps

    rows, steps = counted()
    assert rows == steps < 3 * 8 * 32
    assert counted(dummy_rows_in_normaliser=True)[0] == 3 * 8 * 32


def test_dummy_rows_in_the_advantage_normaliser_shift_the_advantages() -> None:
    env = make_control_env("CartPole-v1", 8)
    policy = make_actor_critic(env, seed=0)
    config = PPOConfig(advantage_normalisation="batch")
    right = PPOTrainer(env, policy, config, seed=0)
    wrong = PPOTrainer(env, policy, replace(config, dummy_rows_in_normaliser=True), seed=0)
    rollout = collect(env, policy, env.reset(0), 64, generator())
    good, bad = right.batch(rollout).advantages, wrong.batch(rollout).advantages
    assert good.mean().abs() < 1e-5 and good.std() == pytest.approx(1.0, abs=1e-4)
    assert bad.mean().abs() > 1e-3 and len(bad) == len(good)
    with pytest.raises(ValueError, match="has no effect"):
        PPOConfig(dummy_rows_in_normaliser=True)


def test_evaluation_plays_the_same_number_of_episodes_everywhere() -> None:
    env = PROBES["action-reward"].make(4)
    policy = make_actor_critic(env, seed=0, width=4)
    torch.nn.init.constant_(policy.policy_head.bias, 0.0)
    policy.policy_head.bias.data[1] = 9.0
    assert evaluate(env, policy, episodes=10, seed=5) == [1.0] * 12


def test_wrong_settings_are_named() -> None:
    for name, value in (
        ("epochs", 0),
        ("gamma", 1.5),
        ("clip", 0.0),
        ("advantage_normalisation", "whole"),
        ("minibatch_size", 0),
    ):
        with pytest.raises(ValueError, match=name):
            PPOConfig(**{name: value})
    env = make_control_env("CartPole-v1", 2)
    policy = make_actor_critic(env, seed=0)
    with pytest.raises(ValueError, match="observations"):
        collect(env, policy, torch.zeros(3, 4), 2, generator())
    with pytest.raises(ValueError, match="frozen"):
        PPOTrainer(env, policy.requires_grad_(False), PPOConfig(), seed=0)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_two_runs_of_one_seed_are_equal_and_another_seed_differs(env_id: str) -> None:
    def run(seed):
        env = make_control_env(env_id, 4)
        config = PPOConfig(total_steps=600, epochs=2)
        return PPOTrainer(env, make_actor_critic(env, seed=seed), config, seed=seed).run(
            progress=False
        )

    assert str(run(0)) == str(run(0)) != str(run(1))
