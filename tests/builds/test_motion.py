"""Build 41: worlds with continuous actions, the arms, and what does not pass there."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bookkit.builds.engine import run
from bookkit.builds.libraries import sb3_push
from bookkit.builds.limits import Budget
from bookkit.builds.motion import HeldMotion, MotionDisguise, motion_disguise
from bookkit.builds.pushing import PushStage
from bookkit.builds.registry import SOLUTIONS, get_build, source_of
from bookkit.builds.report import as_text
from bookkit.builds.session import Stopped
from bookkit.builds.trials import Act, Part, arms, as_film, filmed, play
from bookkit.builds.verdict import Build, Verdict
from nbkit.envs.arm_model import FORE_M, UPPER_M, inverse_kinematics
from nbkit.envs.probes import ProbeEnv

pytestmark = pytest.mark.chapter(41)
PUSH = get_build(41).stages[1]
assert isinstance(PUSH, PushStage)
GAMMA = PUSH.settings["gamma"]
SMALL = replace(PUSH, settings={**PUSH.settings, "total_steps": 3200})
IDLE = """
import torch

def agent(observations):
    return torch.zeros(len(observations), 2), torch.zeros(len(observations))
"""
HEAD = "def train(env, settings, *, seed, log):\n    "


@pytest.fixture(scope="module")
def small() -> Build:
    return replace(get_build(41), stages=(SMALL,), budget=Budget(processor_seconds=60.0))


def judged(build: Build, source: str, seed: int = 1) -> Verdict:
    verdict = run(build, IDLE + source, seed=seed, films=False)
    assert not verdict.passed
    return verdict


def place(observations: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
    """Joint angles, tool, puck and target of observations without a disguise, each (N, 2)."""
    seen = observations.astype(np.float64)
    reach = UPPER_M + FORE_M
    angles, puck = np.arctan2(seen[:, 2:4], seen[:, 0:2]), seen[:, 6:8] * reach
    return angles, puck - seen[:, 8:10] * reach, puck, seen[:, 12:14] * reach


def driven(aim: Callable[..., NDArray[np.float64]]) -> Act:
    """A servo that brings the tool to where `aim` says."""

    def act(observations: NDArray[np.float32]) -> torch.Tensor:
        angles, *seen = place(observations)
        asked = np.clip(2.0 * (inverse_kinematics(aim(*seen)) - angles), -1.0, 1.0)
        return torch.from_numpy(asked.astype(np.float32))

    return act


def behind(
    tool: NDArray[np.float64], puck: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Go behind the puck, as seen from its target, then through it."""
    way = (target - puck) / np.linalg.norm(target - puck, axis=1, keepdims=True)
    apart = tool - puck
    along = (apart * way).sum(1, keepdims=True)
    aside = np.linalg.norm(apart - along * way, axis=1, keepdims=True)
    ready = (along < -0.02) & (aside < 0.012)
    return np.where(ready, puck + 0.02 * way, puck - 0.05 * way)


REACHERS = {
    "it goes to the puck and stops": lambda tool, puck, target: (
        puck - 0.045 * (puck - tool) / np.linalg.norm(puck - tool, axis=1, keepdims=True)
    ),
    "it follows the puck": lambda tool, puck, target: puck,
    "it goes to the target": lambda tool, puck, target: target,
}


@pytest.fixture(scope="module")
def plain() -> MotionDisguise:
    return motion_disguise(arms(1, GAMMA), None)


@pytest.mark.parametrize("name", REACHERS)
def test_an_arm_that_only_reaches_does_not_pass(plain: MotionDisguise, name: str) -> None:
    trials = play(arms(200, GAMMA), driven(REACHERS[name]), plain, seed=7)
    assert trials.won.mean() < 0.4
    assert trials.looks()


def test_an_arm_that_pushes_from_behind_passes_and_one_that_rests_moves_nothing(
    plain: MotionDisguise,
) -> None:
    trials = play(arms(200, GAMMA), driven(behind), plain, seed=7)
    assert trials.won.mean() > PUSH.threshold and not trials.looks()
    resting = play(arms(50, GAMMA), lambda seen: torch.zeros(len(seen), 2), plain, seed=7)
    assert not resting.won.any() and (resting.last_m == resting.first_m).all()
    (look,) = resting.looks()
    assert "the puck was moved in 0% of the episodes" in look


def test_a_disguise_changes_places_and_signs_and_nothing_else() -> None:
    env, other = arms(4, GAMMA), arms(4, GAMMA)
    hidden = motion_disguise(env, random.Random(3))
    held = HeldMotion(env, 5, 4 * 20, hidden)
    bare = HeldMotion(other, 5, 4 * 20, motion_disguise(other, None))
    seen = bare.answer("reset", {}, {})[1]["observations"]
    worn = held.answer("reset", {}, {})[1]["observations"]
    generator = torch.Generator().manual_seed(0)
    assert not np.allclose(worn, seen)
    for _ in range(20):
        assert np.allclose(worn, seen[:, hidden.order] * hidden.signs.numpy())
        actions = torch.rand((4, 2), generator=generator) * 2 - 1
        assert torch.equal(hidden.meant(hidden.shown(actions)), actions)
        seen = bare.answer("step", {}, {"actions": actions.numpy()})[1]["next_observations"]
        _, found = held.answer("step", {}, {"actions": hidden.shown(actions).numpy()})
        worn = found["next_observations"]
    with pytest.raises(Stopped, match="more than its 80 environment steps"):
        bare.answer("step", {}, {"actions": actions.numpy()})


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (None, r"wants actions \(N, A\) = \(2, 2\); it got the shape None"),
        (np.zeros((2, 3), dtype=np.float32), r"got the shape \(2, 3\)"),
        (np.zeros((2, 2), dtype=np.int64), r"got the shape \(2, 2\)"),
        (np.full((2, 2), 1.2, dtype=np.float32), "from -1 to 1; it got 1.20: bound them"),
        (np.full((2, 2), np.nan, dtype=np.float32), "not finite"),
    ],
)
def test_actions_that_are_none_are_refused(actions: object, words: str) -> None:
    env = arms(2, GAMMA)
    held = HeldMotion(env, 5, 100, motion_disguise(env, None))
    held.answer("reset", {}, {})
    with pytest.raises(Stopped, match=words):
        held.answer("step", {}, {} if actions is None else {"actions": actions})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (f"{HEAD}return lambda o: torch.zeros(len(o), 2)\n", "is a function from observations"),
        (f"{HEAD}return lambda o: (torch.zeros(len(o), 3), o[:, 0])\n", "shapes (100, 3)"),
        (f"{HEAD}return lambda o: (torch.full((len(o), 2), 1.5), o[:, 0])\n", "it got 1.50"),
        (f"{HEAD}return lambda o: (torch.zeros(len(o), 2) / 0, o[:, 0])\n", "not finite"),
        (f"{HEAD}return lambda o: (torch.zeros(len(o), 2), o[:, 0] / 0)\n", "not finite"),
        (f"{HEAD}env.reset(); env.step('left')\n", "wants a tensor (64, 2); it got a str"),
        (f"WITHOUT = 'clip'\n{HEAD}return agent\n", "`WITHOUT` wants a tuple of names"),
        ("import mujoco\nmujoco.MjModel\n", "`mujoco`, which is not here"),
    ],
)
def test_a_mistake_has_its_sentence(small: Build, source: str, words: str) -> None:
    assert words in judged(small, source).stopped


def test_a_printed_score_counts_nothing_and_an_untrained_agent_fails(small: Build) -> None:
    verdict = judged(small, f"{HEAD}print('passed: 100%'); log(score=1.0)\n    return agent\n")
    (finding,) = verdict.findings
    assert finding.score == 0.0 and finding.used == 0
    assert any("0 of 3,200 steps were used" in look for look in finding.looks)


def test_more_steps_than_the_budget_are_refused(small: Build) -> None:
    source = (
        f"{HEAD}env.reset()\n"
        "    while True:\n"
        "        env.step(torch.zeros(env.num_envs, env.action_size))\n"
        "        env.steps_left = 10**9\n"
    )
    assert "more than its 3,200 environment steps" in judged(small, source).stopped


BY_HAND = """
import math

def angles_of(point, reach=0.4):
    squared = point.square().sum(1)
    elbow = ((squared - 0.08) / 0.08).clamp(-1, 1).arccos()
    inside = torch.atan2(0.2 * elbow.sin(), 0.2 + 0.2 * elbow.cos())
    return torch.stack([torch.atan2(point[:, 1], point[:, 0]) - inside, elbow], 1)

def train(env, settings, *, seed, log):
    def act(o):
        o = o.double()
        angles = torch.atan2(o[:, 2:4], o[:, 0:2])
        puck, tool, target = o[:, 6:8] * 0.4, (o[:, 6:8] - o[:, 8:10]) * 0.4, o[:, 12:14] * 0.4
        way = (target - puck) / (target - puck).norm(dim=1, keepdim=True)
        apart = tool - puck
        along = (apart * way).sum(1, keepdim=True)
        aside = (apart - along * way).norm(dim=1, keepdim=True)
        ready = (along < -0.02) & (aside < 0.012)
        aim = torch.where(ready, puck + 0.02 * way, puck - 0.05 * way)
        return (2 * (angles_of(aim) - angles)).clamp(-1, 1).float(), o[:, 0].float()
    return act
"""


def test_a_controller_by_hand_meets_a_disguised_arm(
    small: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = [judged(small, BY_HAND, seed).findings[0].score for seed in range(4)]
    assert max(score for score in scores if score is not None) < 0.5 * PUSH.threshold
    # It is the disguise that stops it: without one it passes.
    monkeypatch.setattr(
        "bookkit.builds.pushing.motion_disguise", lambda env, draw: motion_disguise(env, None)
    )
    assert run(small, IDLE + BY_HAND, seed=1, films=False).passed


def steps(draws: list[torch.Tensor]) -> HeldMotion:
    """A world in which all environments look alike, with these actions."""
    env = ProbeEnv(8, length=1, reward=lambda o, t, a: o, action_space=arms(1, GAMMA).action_space)
    held = HeldMotion(env, 1, 8 * len(draws), motion_disguise(env, None))
    held.answer("reset", {}, {})
    for actions in draws:
        held.answer("step", {}, {"actions": actions.clamp(-1, 1).numpy()})
    return held


def test_odd_draws_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    good = [0.3 * torch.randn(8, 2, generator=generator) for _ in range(20)]
    assert steps(good).alike() is None
    assert "one draw, serves them all" in (steps([x[:1].expand(8, 2) for x in good]).alike() or "")
    assert "seeded anew in each step" in (steps([good[0]] * 20).alike() or "")
    assert "not its mean taken" in (steps([good[0][:1].expand(8, 2)] * 20).alike() or "")


def test_a_method_without_a_clip_is_not_asked_about_one() -> None:
    build = get_build(41)
    source = source_of(build, SOLUTIONS)
    line = "clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)"
    assert source.count(line) == 1
    unclipped = 'WITHOUT = ("clip",)\n' + source.replace(line, "clipped = ratio")
    verdict = run(build, unclipped, only=("probes",), films=False, seed=1)
    assert verdict.findings[0].passed, as_text(verdict)
    assert "without those about clip (`WITHOUT`)" in verdict.findings[0].sentence


def test_the_film_is_large_captioned_and_stands_still_where_that_is_asked(
    plain: MotionDisguise,
) -> None:
    resting = filmed(lambda seen: torch.zeros(len(seen), 2), plain, GAMMA, 3, "before training")
    pushing = filmed(driven(behind), plain, GAMMA, 3, "after training")
    assert isinstance(resting, Part) and resting.won == 0 < pushing.won
    assert len(resting.frames) == len(resting.words)
    assert "there" in pushing.words[-1] and "to go" in resting.words[-1]
    made = as_film(resting, pushing)
    assert made.size[0] >= 480 and len(made.webp) <= 500_000
    assert "prefers-reduced-motion: reduce" in made._repr_html_()
    assert f"before training 0 came there, after training {pushing.won}" in made.caption


def test_the_library_trains_on_the_same_arms() -> None:
    short = replace(PUSH, settings={**PUSH.settings, "total_steps": 8192})
    build = replace(get_build(41), stages=(short,))
    found = sb3_push.measured(build, random.Random(0))["push"]
    assert "episodes of training succeeded" in found["said"]
    steps_so_far, wins = zip(*found["curve"], strict=True)
    assert steps_so_far[-1] <= 8192 and list(steps_so_far) == sorted(steps_so_far)
    assert all(0.0 <= won <= 100.0 for won in wins)
