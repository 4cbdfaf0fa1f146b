"""The chapter's tasks: heads, environments, the judge; and learning, at a small budget."""

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nbkit.control.actor_critic import DiagonalGaussian
from nbkit.control.actor_critic_batched import make_batched_actor_critic
from nbkit.control.squashed import SquashedGaussian
from nbkit.envs.arm_model import Physics
from nbkit.recipes.arm_settings import PUSH, REACH, REACH_REWARDS, arm_success

STUDY = Path(__file__).resolve().parents[2] / "studies" / "manipulation_rewards.py"
pytestmark = pytest.mark.chapter(41)


def test_only_the_head_differs_from_chapter_12():
    ours = REACH.trainer(3).policy
    theirs = replace(REACH, squash=False).trainer(3).policy
    plain = make_batched_actor_critic(replace(REACH, squash=False).env(1), seed=3, log_std=-0.5)
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    for policy, form in ((ours, SquashedGaussian), (theirs, DiagonalGaussian)):
        distribution, values = policy(x)
        assert type(distribution) is form
        assert torch.equal(distribution.mean, plain(x)[0].mean)
        assert torch.equal(values, plain(x)[1])


def test_settings_reach_the_environment():
    for form, task in REACH_REWARDS.items():
        arms = task.env(2).env.vector_env
        assert arms.core.reward == form and arms.core.gamma == task.config.gamma
    physics = Physics(latency_steps=2)
    arms = PUSH.env(2, physics=physics).env.vector_env
    assert arms.core.physics == [physics] * 2 and arms.core.task.model == "push"


def test_the_judge_counts_an_episode_an_environment():
    class Still:
        """Asks for no speed."""

        def act(self, observations):
            return DiagonalGaussian(torch.zeros(len(observations), 2), torch.zeros(2))

    env = REACH.env(20)
    core = env.env.vector_env.core
    env.reset(0)
    near = core.task.distance_m(core) < 0.03
    judged = arm_success(env, Still(), None, seed=0)
    assert judged["success"] == pytest.approx(near.mean())


def test_a_study_without_a_success_writes_json_that_others_can_read():
    spec = importlib.util.spec_from_file_location("manipulation_rewards", STUDY)
    assert spec is not None and spec.loader is not None
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    study.follow = lambda trainer: {}
    study.judged = lambda task, trainer, seed: {"success": 0.0, "mean_steps": math.nan}
    study.REACH_REWARDS = {"sparse": SimpleNamespace(trainer=lambda seed: None)}
    result = study.run_arm("sparse", 11)
    assert (
        json.dumps(result, allow_nan=False) == '{"held_out": {"success": 0.0, "mean_steps": null}}'
    )


@pytest.mark.slow
def test_reach_gets_better_within_a_few_updates():
    trainer = REACH.trainer(100, total_steps=60_000)
    before = trainer.step()
    while not trainer.finished:
        last = trainer.step()
    assert last["ratio_error"] < 1e-3
    first = [episode[1] for episode in trainer.episodes.finished[:100]]
    assert trainer.episodes.mean_return() > sum(first) / 100 + 5
    assert last["explained_variance"] > before["explained_variance"] + 0.3
