"""What the study of films is made of: agents kept along training, and an episode of each."""

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from nbkit.control.actor_critic import bounded
from nbkit.control.environments import ControlEnv, single_env
from nbkit.envs.rendering import SceneRenderer, choose_backend
from nbkit.recipes.arm_settings import ArmTaskSettings
from nbkit.trainers.ppo import PPOTrainer

Picture = NDArray[np.uint8]
ARM_SIZE = (240, 320)  # height and width in pixels


@dataclass(frozen=True)
class Agent:
    """A policy as it was at some point of its training.

    Attributes:
        steps: of the environment that it had seen.
        policy: a copy.
        normaliser: of the observations, a copy; None: there is none.

    """

    steps: int
    policy: Any
    normaliser: Any

    @torch.no_grad()
    def act(self, observations: torch.Tensor) -> torch.Tensor:
        """The most likely actions, (N, A) or (N,), for observations (N, O)."""
        seen = observations if self.normaliser is None else self.normaliser(observations)
        most_likely: torch.Tensor = self.policy.act(seen).mode()
        return most_likely


@dataclass(frozen=True)
class Episode:
    """One episode as it was filmed.

    Attributes:
        frames: pictures (H, W, 3) of some of its steps, its last one among them.
        returns: what had been earned at each of them.
        steps: how long it was.
        arrivals: targets that were reached, where the steps are given: an arm terminates by
            nothing else.

    """

    frames: list[Picture]
    returns: list[float]
    steps: int
    arrivals: int = 0

    @property
    def score(self) -> float:
        """The return."""
        return self.returns[-1]


def agents_along(trainer: PPOTrainer, marks: Sequence[int]) -> list[Agent]:
    """Train up to the last mark and keep the agent when each has been reached.

    Args:
        trainer: new.
        marks: steps of the environment, growing, at most the trainer's budget.

    Raises:
        ValueError: the marks do not grow, or lie behind the budget.

    """
    if list(marks) != sorted(set(marks)) or marks[-1] > trainer.planned:
        raise ValueError(f"marks {list(marks)} must grow, up to the budget of {trainer.planned}")
    kept = []
    for mark in marks:
        while trainer.done < mark:
            trainer.step()
        kept.append(
            Agent(
                trainer.done,
                copy.deepcopy(trainer.policy).eval(),
                copy.deepcopy(trainer.normaliser),
            )
        )
    return kept


def gym_episode(
    env_id: str,
    agent: Agent,
    seed: int,
    *,
    every: int,
    action_bounds: Any = "clip",
    crop: tuple[slice, slice] = (slice(None), slice(None)),
    steps: int | None = None,
    **settings: Any,
) -> Episode:
    """Play one episode of a task of gymnasium and draw it as gymnasium does.

    Args:
        env_id: the task; observations that are dictionaries are flattened.
        agent: takes its most likely action.
        seed: of the first state.
        every: steps that one frame stands for.
        action_bounds: as in training.
        crop: rows and columns of the picture that are kept.
        steps: stop after so many, or go on with a new episode; None: one episode to its end.
        **settings: handed to the environment.

    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn without a window
    choose_backend()  # for those that MuJoCo draws
    real = gym.make(env_id, render_mode="rgb_array", disable_env_checker=True, **settings)

    def draw() -> Picture:
        return np.asarray(real.render(), dtype=np.uint8)[crop]

    flat = isinstance(real.observation_space, gym.spaces.Dict)
    env = single_env(gym.wrappers.FlattenObservation(real) if flat else real)
    found = _played(env, agent, seed, draw, every, steps=steps, action_bounds=action_bounds)
    env.close()
    return found


def arm_episode(
    task: ArmTaskSettings, agent: Agent, seed: int, *, every: int, steps: int
) -> Episode:
    """Let one arm go from target to target for some steps, and draw it from the side."""
    env: Any = task.env(1, randomisation=None)
    first = env.reset(seed)
    core = (env.env if hasattr(env, "env") else env).vector_env.core
    renderer = SceneRenderer(core.models[0], *ARM_SIZE, smooth=True)

    def draw() -> Picture:
        return renderer.render(core.models[0], core.datas[0], "side")

    found = _played(env, agent, seed, draw, every, steps=steps, first=first)
    renderer.close()
    return found


def _played(
    env: ControlEnv,
    agent: Agent,
    seed: int,
    draw: Callable[[], Picture],
    every: int,
    *,
    steps: int | None = None,
    first: torch.Tensor | None = None,
    action_bounds: Any = "clip",
) -> Episode:
    """Act until the episode ends, or for some steps through episode after episode."""
    observations = env.reset(seed) if first is None else first
    frames, returns, earned, done, arrivals = [draw()], [0.0], 0.0, 0, 0
    over = False
    while not over:
        actions = bounded(agent.act(observations), env.action_space, action_bounds)
        step = env.step(actions)
        observations = step.next_observations
        earned += float(step.rewards[0])
        done += 1
        arrivals += int(step.terminated[0]) if steps else 0
        over = done == steps if steps else bool((step.terminated | step.truncated)[0])
        if over or done % every == 0:
            frames.append(draw())
            returns.append(earned)
    return Episode(frames, returns, done, arrivals)
