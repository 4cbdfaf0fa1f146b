"""The environments: gymnasium's own checks, determinism, both ends, randomisation, state."""

import warnings
from dataclasses import replace

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from nbkit.control.environments import VectorEnvAdapter, make_control_env
from nbkit.envs.arm_core import EPISODE_STEPS
from nbkit.envs.arm_model import SPEED_LIMIT, Physics, inverse_kinematics
from nbkit.envs.arm_randomisation import RandomisePhysics, Ranges
from nbkit.envs.push import PushEnv, VectorPush
from nbkit.envs.reach import REST_M_PER_S, ReachEnv, VectorReach

pytestmark = pytest.mark.chapter(41)
STATE = mujoco.mjtState.mjSTATE_INTEGRATION
BOTH = pytest.mark.parametrize("make", [ReachEnv, PushEnv])
BOTH_VECTOR = pytest.mark.parametrize("make", [VectorReach, VectorPush])


@pytest.mark.parametrize("env_id", ["nbkit/Reach-v0", "nbkit/Push-v0"])
def test_gymnasium_finds_nothing_wrong(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*infinity.*")  # positions have no bounds
        warnings.filterwarnings("ignore", message=".*we recommend.*")
        check_env(gym.make(env_id).unwrapped, skip_render_check=True)


@BOTH
def test_a_seed_fixes_everything(make):
    def play(seed: int) -> list[np.ndarray]:
        env = make()
        seen = [env.reset(seed=seed)[0]]
        rng = np.random.default_rng(3)
        for _ in range(70):
            observation, reward, terminated, truncated, info = env.step(rng.uniform(-1, 1, 2))
            seen.append(np.append(observation, [reward, terminated, truncated, info["distance"]]))
            if terminated or truncated:
                seen.append(env.reset()[0])
        return seen

    first, again, other = play(5), play(5), play(6)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


@BOTH_VECTOR
def test_a_vector_of_one_is_the_single_environment(make):
    single = {VectorReach: ReachEnv, VectorPush: PushEnv}[make]()
    vector = make(1)
    rng = np.random.default_rng(0)
    ours, theirs = single.reset(seed=9)[0], vector.reset(seed=9)[0][0]
    for _ in range(120):
        assert np.array_equal(ours, theirs)
        action = rng.uniform(-1, 1, (1, 2)).astype(np.float32)
        ours, reward, terminated, truncated, _ = single.step(action[0])
        theirs, rewards, died, cut, _ = vector.step(action)
        theirs = theirs[0]
        assert (reward, terminated, truncated) == (rewards[0], died[0], cut[0])
        if terminated or truncated:
            assert np.array_equal(ours, theirs)  # the true final observation
            ours = single.reset()[0]
            theirs, rewards, died, cut, _ = vector.step(action)  # a dummy step
            theirs = theirs[0]
            assert rewards[0] == 0.0 and not died[0] and not cut[0]


def servo(env: ReachEnv, gain: float = 4.0) -> np.ndarray:
    """Steer the joints to where the target is, by the closed form."""
    wanted = inverse_kinematics(env.core.target)[0]
    return np.clip(gain * (wanted - env.core.qpos[0]) / SPEED_LIMIT, -1, 1)


def test_success_terminates_and_time_truncates():
    ends = []
    env = ReachEnv(reward="sparse")
    for seed in range(20):
        env.reset(seed=seed)
        for t in range(1, EPISODE_STEPS + 1):
            _, reward, terminated, truncated, info = env.step(servo(env))
            assert not (terminated and truncated)
            assert info["is_success"] == terminated
            assert reward == (0.0 if terminated else -1.0)
            if terminated:
                assert info["distance"] < 0.03 and env.core.tip_speed()[0] < REST_M_PER_S
            if terminated or truncated:
                ends.append((terminated, t))
                break
    assert sum(terminated for terminated, _ in ends) >= 14  # a servo that knows the target
    env.reset(seed=0)
    env.core.target[:] = 10.0
    flags = [env.step(np.zeros(2))[2:4] for _ in range(EPISODE_STEPS)]
    assert flags == [(False, False)] * (EPISODE_STEPS - 1) + [(False, True)]


def test_passing_through_the_target_fast_is_no_success():
    env = ReachEnv()
    env.reset(seed=0)
    env.core.target[:] = env.core.tip
    env.core.datas[0].qvel[:] = 3.0, 0.0
    _, _, terminated, _, info = env.step(np.array([1.0, 0.0]))
    assert not terminated and not info["is_success"]


def test_the_puck_moves_only_when_touched():
    env = PushEnv()
    env.reset(seed=4)
    before = env.core.qpos[0, 2:].copy()
    env.step(np.array([-1.0, 0.0]))
    assert np.allclose(env.core.qpos[0, 2:], before)
    env.core.datas[0].qpos[:2] = inverse_kinematics(before[None] - [[0.0, 0.05]])[0]
    for _ in range(8):
        env.step(np.array([1.0, 0.0]))
    assert np.linalg.norm(env.core.qpos[0, 2:] - before) > 0.01


@BOTH_VECTOR
def test_state_continues_to_the_bit(make):
    ranges = Ranges(mass=(0.5, 2.0), latency_steps=(0, 2))
    env = VectorEnvAdapter(make(4, randomisation=ranges, episode_steps=12))
    env.reset(3)
    generator = torch.Generator().manual_seed(0)
    actions = torch.rand(40, 4, 2, generator=generator) * 2 - 1
    for action in actions[:20]:
        env.step(action)
    other = VectorEnvAdapter(make(4, randomisation=ranges, episode_steps=12))
    other.reset(8)
    other.set_state(env.get_state())
    for action in actions[20:]:
        ours, theirs = env.step(action), other.step(action)
        assert torch.equal(ours.next_observations, theirs.next_observations)
        assert torch.equal(ours.rewards, theirs.rewards)


@BOTH
def test_a_state_put_back_is_seen_and_continues_to_the_bit(make):
    env, other, still = make(), make(), make()
    env.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(9):
        env.step(rng.uniform(-1, 1, 2))
    other.reset(seed=3)
    still.reset(seed=3)
    state = env.get_state()
    other.set_state(state)
    data, engine = other.core.datas[0], other.get_state()["engine"]
    assert torch.equal(engine, state["engine"])  # with the warm start of the solver
    # The scene is the one of the angles that are now.
    assert np.allclose(data.sensor("shoulder angle").data, other.core.qpos[0, 0])
    forward = mujoco.MjData(other.core.models[0])
    mujoco.mj_setState(other.core.models[0], forward, engine[0].numpy(), STATE)
    mujoco.mj_forward(other.core.models[0], forward)
    for name in ("geom_xpos", "geom_xmat", "site_xpos", "cam_xpos", "cam_xmat", "light_xpos"):
        assert np.array_equal(getattr(data, name), getattr(forward, name)), name
    assert not np.array_equal(data.geom_xpos, still.core.datas[0].geom_xpos)
    for _ in range(20):
        action = rng.uniform(-1, 1, 2)
        assert np.array_equal(env.step(action)[0], other.step(action)[0])
        assert torch.equal(env.get_state()["engine"], other.get_state()["engine"])


def test_no_episode_no_step():
    env = ReachEnv()
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(np.zeros(2))
    env.reset(seed=0)
    other = ReachEnv()
    other.set_state(env.get_state())
    assert np.array_equal(env.step(np.zeros(2))[0], other.step(np.zeros(2))[0])


def test_latency_delays_the_motors_by_whole_steps():
    env = ReachEnv()
    for steps in (0, 2):
        env.set_physics(Physics(latency_steps=steps))
        env.reset(seed=1)
        moved = []
        for _ in range(4):
            env.step(np.array([1.0, 0.0]))
            moved.append(bool(abs(env.core.qvel[0, 0]) > 1e-6))
        assert moved == [t >= steps for t in range(4)]


def test_randomisation_draws_within_ranges_from_the_seed():
    ranges = Ranges(mass=(0.5, 2.0), damping=(0.5, 3.0), latency_steps=(0, 2), camera_m=0.02)
    env = RandomisePhysics(ReachEnv(), ranges)
    drawn = [env.reset(seed=7)[1]["physics"]] + [env.reset()[1]["physics"] for _ in range(30)]
    again = [env.reset(seed=7)[1]["physics"]] + [env.reset()[1]["physics"] for _ in range(30)]
    assert drawn == again
    assert len({physics.mass for physics in drawn}) == 31
    assert {physics.latency_steps for physics in drawn} == {0, 1, 2}
    assert all(0.5 <= p.mass <= 2.0 and max(map(abs, p.camera_m)) <= 0.02 for p in drawn)
    assert all(p.friction == 1.0 and p.light == 1.0 for p in drawn)
    assert {p.camera_rad for p in drawn} == {(0.0, 0.0, 0.0)}
    turning = RandomisePhysics(ReachEnv(), replace(ranges, camera_rad=0.1))
    turned = [turning.reset(seed=7)[1]["physics"], turning.reset()[1]["physics"]]
    assert replace(turned[0], camera_rad=(0.0, 0.0, 0.0)) == drawn[0]  # a turn is drawn last
    assert turned[0].camera_rad != turned[1].camera_rad
    assert all(0 < abs(angle) <= 0.1 for p in turned for angle in p.camera_rad)
    with pytest.raises(TypeError, match="set_physics"):
        RandomisePhysics(gym.make("CartPole-v1"), ranges)


def test_the_vector_form_gives_each_episode_its_own_arm():
    env = VectorReach(8, randomisation=Ranges(mass=(0.5, 2.0)), episode_steps=3)
    env.reset(seed=0)
    first = [physics.mass for physics in env.core.physics]
    assert len(set(first)) == 8
    for _ in range(4):
        env.step(np.zeros((8, 2)))
    assert all(a != b.mass for a, b in zip(first, env.core.physics, strict=True))
    with pytest.raises(ValueError, match="not both"):
        VectorReach(2, randomisation=Ranges(), physics=Physics())


def test_make_control_env_takes_the_native_form():
    env = make_control_env("nbkit/Reach-v0", 3, reward="sparse")
    assert isinstance(env, VectorEnvAdapter) and env.reset(0).shape == (3, 12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ReachEnv(reward="nice"), "reward"),
        (lambda: ReachEnv(render_mode="human"), "render_mode"),
        (lambda: Ranges(mass=(2.0, 1.0)), "mass"),
        (lambda: Ranges(camera_m=-0.1), "camera_m"),
        (lambda: Ranges(camera_rad=float("inf")), "camera_rad"),
        (lambda: Ranges(camera_m=float("nan")), "camera_m"),
        (lambda: Ranges(mass=(0.0, 1.0)), "mass.*above 0"),
        (lambda: Ranges(damping=(0.0, float("inf"))), "damping"),
        (lambda: Ranges(latency_steps=(0, 1.5)), "latency_steps.*whole"),
        (lambda: Ranges(latency_steps=(0.5, 1)), "latency_steps.*whole"),
    ],
)
def test_nonsense_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_actions_that_are_no_numbers_are_refused():
    env = VectorReach(2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="diverged"):
        env.step(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        env.step(np.zeros((3, 2)))
