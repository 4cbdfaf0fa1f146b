"""Nobody trains outside the count of steps: a simulator of the usual CartPole does not fit."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from bookkit.builds.control import disguise, play
from bookkit.builds.engine import run
from bookkit.builds.physics import CARTPOLE, Physics
from bookkit.builds.registry import SOLUTIONS, get_build, source_of
from bookkit.builds.solving import TaskStage
from bookkit.builds.verdict import Build
from nbkit.control.environments import VectorEnvAdapter, make_control_env

# A few real steps give the disguise away; the rest is trained in a simulator that nobody counts.
SIMULATOR = '''
import itertools

def dynamics(state, actions):
    """CartPole as gymnasium has it."""
    x, speed, angle, spin = state.unbind(1)
    force = (2.0 * actions - 1.0) * 10.0
    pushed = (force + 0.05 * spin.square() * angle.sin()) / 1.1
    turned = (9.8 * angle.sin() - angle.cos() * pushed) / (
        0.5 * (4.0 / 3.0 - 0.1 * angle.cos().square() / 1.1)
    )
    moved = pushed - 0.05 * turned * angle.cos() / 1.1
    return state + 0.02 * torch.stack([speed, moved, spin, turned], 1)


class Simulated:
    """The usual world in the disguise of the real one."""

    def __init__(self, env, seed):
        self.num_envs, self.observation_size, self.num_actions = env.num_envs, 4, 2
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.signs, self.flipped = self.guessed(env)

    def shown(self, state):
        return state[:, self.order] * self.signs

    def guessed(self, env):
        """Order, signs and actions under which a few real steps are those of the simulator."""
        rows, seen = [], env.reset()
        for _ in range(40):
            actions = torch.randint(0, 2, (env.num_envs,), generator=self.generator)
            step = env.step(actions)
            rows.append((seen[step.valid], actions[step.valid], step.next_observations[step.valid]))
            seen = step.next_observations
        before, actions, after = (torch.cat(column) for column in zip(*rows))
        best = None
        for order in itertools.permutations(range(4)):
            for signs in itertools.product((-1.0, 1.0), repeat=4):
                for flipped in (False, True):
                    places, turn = torch.tensor(order), torch.tensor(signs)
                    state = torch.zeros_like(before)
                    state[:, places] = before * turn
                    chosen = 1 - actions if flipped else actions
                    told = dynamics(state, chosen.float())[:, places] * turn
                    error = (told - after).abs().mean().item()
                    if best is None or error < best[0]:
                        best = (error, places, turn, flipped)
        return best[1:]

    def reset(self):
        self.state = self.fresh(self.num_envs)
        self.time = torch.zeros(self.num_envs)
        self.ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self.shown(self.state)

    def fresh(self, count):
        return torch.rand(count, 4, generator=self.generator) * 0.1 - 0.05

    def step(self, actions):
        valid, again = ~self.ended, self.ended
        chosen = (1 - actions if self.flipped else actions).float()
        self.state = torch.where(valid[:, None], dynamics(self.state, chosen), self.state)
        self.time = torch.where(valid, self.time + 1, 0)
        self.state[again] = self.fresh(int(again.sum()))
        fell = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.2094)
        fell, late = fell & valid, (self.time >= 500) & valid
        self.ended = fell | late
        return types.SimpleNamespace(
            next_observations=self.shown(self.state), rewards=valid.float(),
            terminated=fell, truncated=late & ~fell, valid=valid,
        )


def train(env, settings, *, seed, log):
    """Train in the simulator; the real world sees some hundred steps."""
    if not settings.total_steps:
        return in_the_world(env, settings, seed=seed, log=log)
    return in_the_world(Simulated(env, seed), settings, seed=seed, log=log)
'''
SEED = 11


def cheat() -> str:
    """The solution, with a simulator in the place of the world."""
    source = source_of(get_build(12), SOLUTIONS)
    head = "def train(env, settings, *, seed, log):"
    assert source.count(head) == 1
    return (
        "import types\n" + source.replace(head, head.replace("train", "in_the_world")) + SIMULATOR
    )


def cartpole() -> tuple[Build, TaskStage]:
    build = get_build(12)
    (stage,) = (one for one in build.stages if one.title == "CartPole-v1")
    assert isinstance(stage, TaskStage)
    return build, stage


@pytest.mark.slow
def test_a_hidden_simulator_passes_in_the_usual_world_and_not_in_that_of_the_judge() -> None:
    build, stage = cartpole()
    usual = replace(build, stages=(replace(stage, physics={}),))
    verdict = run(usual, cheat(), seed=SEED, films=False)
    assert verdict.passed, verdict.sentences  # the trick works, where the world is the usual one
    assert verdict.findings[0].used < 1000
    drawn = replace(build, stages=(stage,))
    scores = []
    for seed in (SEED, SEED + 1):
        verdict = run(drawn, cheat(), seed=seed, films=False)
        assert not verdict.passed and verdict.findings[0].used < 1000
        scores.append(verdict.findings[0].score)
    assert max(scores) < stage.threshold


def test_numbers_are_drawn_anew_and_put_into_single_and_vectorised_worlds() -> None:
    first, second = (Physics.drawn(CARTPOLE, random.Random(seed)) for seed in (1, 2))
    assert first.factors != second.factors and first.factors.keys() == CARTPOLE.keys()
    made = make_control_env("CartPole-v1", 3)
    assert isinstance(made, VectorEnvAdapter)
    first.put_into(made.vector_env)
    single = first.single("CartPole-v1")
    for world in (made.vector_env.unwrapped, single.unwrapped):
        assert world.gravity == pytest.approx(9.8 * first.factors["gravity"])
        assert world.total_mass == pytest.approx(world.masscart + world.masspole)
        assert world.polemass_length == pytest.approx(world.masspole * world.length)
    state = np.array([0.01, 0.2, -0.03, 0.1])
    made.reset(1)
    made.vector_env.unwrapped.state = np.stack([state] * 3, axis=1)
    single.reset()
    single.unwrapped.state = state.copy()
    one = made.step(torch.ones(3, dtype=torch.int64)).next_observations[0]
    assert np.allclose(one.numpy(), single.step(1)[0], atol=1e-6)
    with pytest.raises(AttributeError):
        Physics({"colour": 2.0}).put_into(make_control_env("CartPole-v1", 1).vector_env)


def test_the_judge_plays_in_the_world_of_the_training() -> None:
    """With a track of a hundredth of the length every episode ends within a few steps."""
    physics = Physics({"x_threshold": 0.01})
    env = make_control_env("CartPole-v1", 4)
    physics.put_into(env.vector_env)

    def act(observations: np.ndarray) -> torch.Tensor:
        return torch.zeros(len(observations), dtype=torch.int64)

    returns = play(env, disguise(env, None), act, episodes=8, seed=3)
    assert max(returns) < 8
