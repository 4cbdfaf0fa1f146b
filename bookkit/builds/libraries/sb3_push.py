"""Stable-Baselines3's PPO on the arms of build 41, trained once.

It gets the task's settings and has its own ways where they differ: a Gaussian without a squash,
whose draws are clipped, and running moments for observations and for rewards.
"""

import random
import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from bookkit.builds.pushing import PushStage
from bookkit.builds.reference import POINTS
from bookkit.builds.trials import REWARD
from bookkit.builds.verdict import Build
from nbkit.envs.push import PushEnv

SEED, WINDOW = 41, 100
LOG_STD, HIDDEN = -1.0, (64, 64)


def measured(build: Build, draw: random.Random) -> dict[str, dict[str, Any]]:
    """What the library's agent reaches in training; see ``libraries.measure``.

    Args:
        build: whose last stage is the task.
        draw: not used: the library has a seed of its own.

    """
    del draw
    stage = build.stages[-1]
    assert isinstance(stage, PushStage)
    began = time.process_time()
    ends = _trained(stage.settings, stage.num_envs)
    seconds = time.process_time() - began
    last = float(np.mean([won for _, won in ends[-WINDOW:]]))
    found = {
        "label": f"Stable-Baselines3 {version('stable_baselines3')}, one seed",
        "said": f"{last:.0%} of the last {WINDOW} episodes of training succeeded",
        "processor_seconds": round(seconds, 1),
        "curve": _curve(ends),
    }
    return {stage.title: found}


def _curve(ends: list[tuple[int, bool]]) -> list[list[float]]:
    """(steps, successes in the last `WINDOW` episodes, as if these were 100) at some places."""
    won = np.cumsum([0.0, *(success for _, success in ends)])
    places = np.unique(np.linspace(1, len(ends), POINTS).astype(int))
    return [
        [ends[i - 1][0], round(100.0 * float(won[i] - won[max(0, i - WINDOW)]) / min(i, WINDOW), 1)]
        for i in places
    ]


def _trained(settings: Mapping[str, Any], num_envs: int) -> list[tuple[int, bool]]:
    """(steps so far, success) of each episode of the training."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    ends: list[tuple[int, bool]] = []

    class Ends(BaseCallback):
        """Notes the episodes that end."""

        def _on_step(self) -> bool:
            for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
                if done:
                    ends.append((self.num_timesteps, bool(info["is_success"])))
            return True

    def single() -> PushEnv:
        return PushEnv(reward=REWARD, gamma=settings["gamma"])

    envs = VecNormalize(DummyVecEnv([single] * num_envs), gamma=settings["gamma"])
    agent = PPO(
        "MlpPolicy",
        envs,
        n_steps=settings["rollout_steps"],
        batch_size=settings["minibatch_size"],
        n_epochs=settings["epochs"],
        gamma=settings["gamma"],
        gae_lambda=settings["lam"],
        learning_rate=lambda left: left * settings["learning_rate"],
        clip_range=settings["clip"],
        ent_coef=settings["entropy_coefficient"],
        vf_coef=settings["value_coefficient"],
        max_grad_norm=settings["max_grad_norm"],
        policy_kwargs={"log_std_init": LOG_STD, "net_arch": list(HIDDEN)},
        seed=SEED,
        device="cpu",
    )
    agent.learn(settings["total_steps"], callback=Ends())
    envs.close()
    return ends
