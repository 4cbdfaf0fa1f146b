"""Judging a policy on whole episodes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nbkit.control.actor_critic import Policy, bounded
from nbkit.control.environments import ControlEnv
from nbkit.control.policies_pixels import PixelActorCritic
from nbkit.trainers.ppo.eye import Eye, FrameSource


@torch.no_grad()
def evaluate(
    env: ControlEnv,
    policy: Policy,
    *,
    episodes: int,
    seed: int,
    deterministic: bool = True,
    action_bounds: Any = "clip",
    normaliser: Callable[[Tensor], Tensor] | None = None,
) -> list[float]:
    """Return the returns of at least ``episodes`` whole episodes, equally many an environment.

    Taking the first episodes to finish would favour short ones: every environment plays the same
    number.

    Args:
        env: is reset from ``seed``.
        policy: acts.
        episodes: rounded up to a multiple of N.
        seed: of environment and actions; not one that training used.
        deterministic: the most likely action; False: a drawn one.
        action_bounds: as in training.
        normaliser: as in training.

    """
    generator = torch.Generator().manual_seed(seed)
    observations = env.reset(seed)
    wanted = -(-episodes // env.num_envs)
    totals = torch.zeros(env.num_envs, dtype=torch.float64)
    played = torch.zeros(env.num_envs, dtype=torch.int64)
    returns: list[float] = []
    while bool((played < wanted).any()):
        distribution = policy.act(observations if normaliser is None else normaliser(observations))
        actions = distribution.mode() if deterministic else distribution.sample(generator)
        transition = env.step(bounded(actions, env.action_space, action_bounds))
        totals += torch.where(transition.valid, transition.rewards, 0.0)
        ended = (transition.terminated | transition.truncated) & transition.valid
        returns += totals[ended & (played < wanted)].tolist()
        played += ended.long()
        totals[ended] = 0.0
        observations = transition.next_observations
    return returns


@torch.no_grad()
def success_rate(
    source: FrameSource, policy: PixelActorCritic, *, frames: int, seed: int, steps: int
) -> dict[str, Any]:
    """Play one episode in each environment with the most likely action.

    Args:
        source: is reset from ``seed``.
        policy: acts.
        frames: K.
        seed: not one that training used.
        steps: the time limit of an episode.

    Returns:
        "success": share of the episodes, "episodes": N, "mean_steps": of the successful ones.

    """
    device = str(next(policy.parameters()).device)
    eye = Eye(frames, 0, device, 0)
    observations = eye.begin(source.reset(seed))
    running = torch.ones(source.num_envs, dtype=torch.bool)
    won, lengths = torch.zeros_like(running), torch.zeros(source.num_envs)
    ended = ~running
    for _ in range(steps):
        mean = policy.act(observations).mode()
        motors = (mean.tanh() if policy.squash else mean.clamp(-1, 1)).cpu()
        newest, _, terminated, truncated = source.step(motors)
        observations = eye.see(newest, ended)
        ended = (terminated | truncated).clone()
        lengths += running
        won |= running & terminated
        running &= ~ended
    return {
        "success": won.float().mean().item(),
        "episodes": source.num_envs,
        "mean_steps": lengths[won].mean().item() if bool(won.any()) else float("nan"),
    }
