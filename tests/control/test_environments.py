"""Autoreset told apart in every form of environment, on environments that count their steps."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from nbkit.control.actor_critic import make_actor_critic
from nbkit.control.classic import VectorMountainCar, VectorPendulum
from nbkit.control.environments import LoopEnv, VectorEnvAdapter, make_control_env, single_env
from nbkit.control.episodes import EpisodeTracker
from nbkit.control.rollouts import collect, make_batch
from tests.control.hand_made import CountingEnv, CountingVectorEnv

LENGTHS = [2, 3, 5]


def forms(ends: str) -> dict[str, LoopEnv | VectorEnvAdapter]:
    singles = [lambda n=n: CountingEnv(n, ends) for n in LENGTHS]
    return {
        "loop": LoopEnv([make() for make in singles]),
        "sync": VectorEnvAdapter(SyncVectorEnv(singles)),
        "native": VectorEnvAdapter(CountingVectorEnv(LENGTHS, ends)),
    }


FORMS = ("loop", "sync", "native")


def rolled(env, steps: int = 17):
    policy = make_actor_critic(env, seed=0, width=8)
    return collect(env, policy, env.reset(0), steps, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_every_real_step_counts_once_and_no_other(form: str, ends: str) -> None:
    rollout = rolled(forms(ends)[form])
    for n, length in enumerate(LENGTHS):
        real = rollout.valid[:, n]
        # A dummy behind every episode: valid for `length` steps, then not for one.
        pattern = torch.tensor([(t + 1) % (length + 1) != 0 for t in range(17)])
        assert torch.equal(real, pattern)
        rewards = rollout.rewards[:, n][real].tolist()
        assert rewards == [100.0 * (i // length) + i % length + 1 for i in range(len(rewards))]
        assert torch.equal(rollout.rewards[:, n][~real], torch.zeros(int((~real).sum())))
        done = rollout.terminated if ends == "terminated" else rollout.truncated
        assert torch.equal(rollout.done, done)
        times = rollout.next_observations[:, n, 1]
        assert (times[done[:, n]] == length).all(), "the true final observation"
        assert (times[~real] == 0).all(), "a dummy leads to the first observation"


@pytest.mark.parametrize("form", FORMS)
def test_the_three_forms_give_the_same_rollout(form: str) -> None:
    mine, reference = rolled(forms("truncated")[form]), rolled(forms("truncated")["loop"])
    for name in ("stream", "actions", "rewards", "terminated", "truncated", "valid", "logprobs"):
        assert torch.equal(getattr(mine, name), getattr(reference, name)), name


@pytest.mark.parametrize("form", FORMS)
def test_a_truncation_bootstraps_from_the_final_observation(form: str) -> None:
    rollout = rolled(forms("truncated")[form])
    batch = make_batch(rollout, gamma=0.9, lam=0.0)
    expected, t_row = [], 0
    for t in range(17):
        for n, length in enumerate(LENGTHS):
            if (t + 1) % (length + 1) == 0:
                continue
            reward, value = float(rollout.rewards[t, n]), float(rollout.values[t, n])
            # The next row's value is that of what the step returned, also at the end.
            expected.append(reward + 0.9 * float(rollout.values[t + 1, n]) - value)
            t_row += 1
    assert len(batch) == t_row
    assert batch.advantages.tolist() == pytest.approx(expected, abs=1e-4)


def test_termination_and_the_fault_of_taking_truncation_for_it() -> None:
    terminated = make_batch(rolled(forms("terminated")["loop"]), gamma=0.9, lam=0.95)
    truncated = rolled(forms("truncated")["loop"])
    faulty = make_batch(truncated, gamma=0.9, lam=0.95, truncation_as_death=True)
    assert torch.equal(terminated.advantages, faulty.advantages)
    right = make_batch(truncated, gamma=0.9, lam=0.95)
    assert not torch.allclose(right.advantages, faulty.advantages)


def test_the_fault_of_learning_from_dummy_rows_learns_from_every_row() -> None:
    rollout = rolled(forms("terminated")["loop"])
    assert len(make_batch(rollout, gamma=0.9, lam=0.95, dummy_rows=True)) == rollout.valid.numel()
    assert len(make_batch(rollout, gamma=0.9, lam=0.95)) == int(rollout.valid.sum())


def test_dummies_neither_step_the_environment_nor_the_tracker() -> None:
    env = CountingEnv(3)
    rollout = rolled(single_env(env), steps=12)
    assert env.calls == 9 == int(rollout.valid.sum())
    tracker = EpisodeTracker(1)
    tracker.add(rollout)
    assert tracker.steps == 9
    assert tracker.finished == [(3, 6.0, 3), (6, 306.0, 3), (9, 606.0, 3)]


def test_tracker_across_rollouts_agrees_with_one_long_rollout() -> None:
    env = forms("terminated")["loop"]
    policy = make_actor_critic(env, seed=0, width=8)
    generator = torch.Generator().manual_seed(0)
    parts, whole = EpisodeTracker(3), EpisodeTracker(3)
    observations = env.reset(0)
    for steps in (4, 1, 9, 3):
        rollout = collect(env, policy, observations, steps, generator)
        observations = rollout.stream[-1]
        parts.add(rollout)
    whole.add(rolled(forms("terminated")["loop"]))
    assert parts.finished == whole.finished
    assert len(whole.finished) == 6 + 4 + 3
    assert parts.steps_to(0.0, last=2) == whole.finished[1][0]
    assert parts.steps_to(1e9, last=2) is None


def test_gymnasium_cartpole_in_three_forms_marks_the_same_dummies() -> None:
    for backend in ("native", "loop", "sync"):
        env = make_control_env("CartPole-v1", 4, backend=backend)
        env.reset(3)
        before = torch.zeros(4, dtype=torch.bool)
        dummies = 0
        for _ in range(120):
            step = env.step(torch.ones(4, dtype=torch.int64))
            assert torch.equal(step.valid, ~before)
            assert (step.rewards == step.valid.float()).all()
            before = step.terminated | step.truncated
            dummies += int((~step.valid).sum())
        assert dummies > 20


def test_other_autoreset_modes_are_refused() -> None:
    same = SyncVectorEnv([lambda: CountingEnv(2)], autoreset_mode=AutoresetMode.SAME_STEP)
    with pytest.raises(ValueError, match=r"vector_env must reset in mode .*NEXT_STEP"):
        VectorEnvAdapter(same)


def test_wrong_requests_are_named() -> None:
    with pytest.raises(ValueError, match="'native'"):
        make_control_env("LunarLander-v3", 2, backend="native")
    with pytest.raises(ValueError, match="backend must be one of"):
        make_control_env("CartPole-v1", 2, backend="vector")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="FlattenObservation"):
        single_env(gym.make("Blackjack-v1"))
    with pytest.raises(RuntimeError, match="reset"):
        make_control_env("CartPole-v1", 2).step(torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("env_id", "native"), [("Pendulum-v1", VectorPendulum), ("MountainCar-v0", VectorMountainCar)]
)
def test_vectorised_dynamics_are_gymnasiums(env_id: str, native) -> None:
    ours = native(3)
    theirs = [gym.make(env_id) for _ in range(3)]
    rng = np.random.default_rng(0)
    ours.reset(seed=0)
    for n, env in enumerate(theirs):
        env.reset(seed=n)
        start = ours.state[:, n]
        env.unwrapped.state = start.copy() if env_id == "Pendulum-v1" else tuple(start)
    for _ in range(200):
        if env_id == "Pendulum-v1":
            actions = rng.uniform(-3, 3, (3, 1)).astype(np.float32)
        else:
            actions = np.where(ours.state[1] > 0, 2, 0)  # swings up and reaches the goal
        fresh = ours.prev_done.copy()
        observations, rewards, terminated, truncated, _ = ours.step(actions)
        for n, env in enumerate(theirs):
            if fresh[n]:
                env.reset()
                env.unwrapped.state = tuple(ours.state[:, n])
                continue
            seen, reward, dead, cut, _ = env.step(actions[n])
            assert observations[n] == pytest.approx(seen, abs=1e-5)
            assert rewards[n] == pytest.approx(reward, abs=1e-5)
            assert (terminated[n], truncated[n]) == (dead, cut)
    assert env_id == "Pendulum-v1" or ours.steps.max() < 200


def test_shaping_telescopes_and_action_repeat_adds_up() -> None:
    plain, shaped = VectorMountainCar(1), VectorMountainCar(1, shaping=10.0, gamma=1.0)
    repeated = VectorMountainCar(1, action_repeat=4)
    for env in (plain, shaped, repeated):
        env.reset(seed=1)
    start = shaped._potential(*shaped.state)[0]
    total = difference = 0.0
    for t in range(200):
        actions = np.array([2 if (t // 40) % 2 else 0])
        _, reward, dead, _, _ = plain.step(actions)
        _, other, _, _, _ = shaped.step(actions)
        difference += float(other[0] - reward[0])
        if t % 4 == 0:
            total += float(repeated.step(actions)[1][0])
        if dead[0]:
            break
    end = 0.0 if dead[0] else shaped._potential(*shaped.state)[0]
    assert difference == pytest.approx(end - start, abs=1e-3)
    assert dead[0] and total == -(t + 1)
    np.testing.assert_allclose(repeated.state, plain.state, atol=1e-12)
    with pytest.raises(ValueError, match="action_repeat must divide"):
        VectorMountainCar(1, action_repeat=3)
