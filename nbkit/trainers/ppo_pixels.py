"""PPO from frames on one device: the update of chapter 12, with a collector for pictures.

Frames stay bytes until the network reads them, go to the device once, and are stacked there.
"""

import time
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.advantages import whiten
from nbkit.control.normalisation import ReturnScale
from nbkit.control.policies_pixels import PixelActorCritic, shift_pictures
from nbkit.control.rollouts import Rollout, make_batch
from nbkit.envs.pixels import FrameStack
from nbkit.trainers.ppo_config import PPOConfig
from nbkit.trainers.ppo_update import update

Metrics = dict[str, float]


class FrameSource(Protocol):
    """Arms that are drawn: ``nbkit.envs.workers.PixelWorkers`` and its like."""

    num_envs: int

    def reset(self, seed: int) -> Tensor:
        """Return frames (N, 3, H, W) uint8."""
        ...

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return frames, rewards, terminated, truncated; autoreset is next-step."""
        ...


class Eye:
    """Turns frames into what the policy sees: a stack on the device, shifted if asked to.

    The shift of an environment is drawn at each reset and holds for the episode: acting and
    learning see the same picture, so that the first ratio stays 1.

    Args:
        frames: K.
        shift: farthest shift in pixels; 0: none.
        device: where the stack lives.
        seed: of the shifts.

    """

    def __init__(self, frames: int, shift: int, device: str, seed: int) -> None:
        check_number("shift", shift, 0)
        self.frames, self.shift, self.device = frames, shift, device
        self.generator = torch.Generator().manual_seed(seed)
        self._stack: FrameStack | None = None
        self._offsets = torch.zeros(0, 2, dtype=torch.int64)

    def begin(self, first: Tensor) -> Tensor:
        """Start from frames (N, 3, H, W); return (N, K * 3, H, W)."""
        self._offsets = self._draw(len(first)).to(self.device)
        self._stack = FrameStack(self.frames, self._moved(first))
        return self._stack.stack

    def see(self, newest: Tensor, new_episode: Tensor) -> Tensor:
        """Add frames; where an episode begins, draw a new shift and forget the old frames."""
        if self._stack is None:
            raise RuntimeError("see was called before begin")
        if self.shift:
            drawn = self._draw(len(newest)).to(self.device)
            fresh = new_episode.to(self.device)[:, None]
            self._offsets = torch.where(fresh, drawn, self._offsets)
        return self._stack.push(self._moved(newest), new_episode.to(self.device))

    def _draw(self, count: int) -> Tensor:
        return torch.randint(0, 2 * self.shift + 1, (count, 2), generator=self.generator)

    def _moved(self, frames: Tensor) -> Tensor:
        # A copy in any case: the source writes over its frames at the next step.
        here = frames.to(self.device, copy=True)
        return shift_pictures(here, self._offsets, self.shift) if self.shift else here


class PixelTrainer:
    """A run of PPO on frames.

    Args:
        source: arms that are drawn; reset here.
        policy: on its device already; trained in place.
        config: of chapter 12. Its observation normaliser has no place here.
        frames: K.
        shift: see ``Eye``.
        seed: of everything that is drawn.

    Attributes:
        steps: real environment steps so far.
        seconds: spent in "simulator", "network" (acting) and "update".

    Raises:
        ValueError: a configuration that normalises observations.

    """

    def __init__(
        self,
        source: FrameSource,
        policy: PixelActorCritic,
        config: PPOConfig,
        *,
        frames: int = 3,
        shift: int = 0,
        seed: int = 0,
    ) -> None:
        if config.normalise_observations:
            raise ValueError("normalise_observations: pictures are scaled by the policy already")
        self.source, self.policy, self.config = source, policy, config
        self.device = str(next(policy.parameters()).device)
        self.optimiser = torch.optim.Adam(
            policy.parameters(), lr=config.learning_rate, eps=config.adam_eps
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.noise = torch.Generator(self.device).manual_seed(seed)
        self.eye = Eye(frames, shift, self.device, seed)
        self.observations = self.eye.begin(source.reset(seed))
        self.ended = torch.zeros(source.num_envs, dtype=torch.bool)
        self.scale = ReturnScale(source.num_envs, config.gamma)
        self.outcomes: list[bool] = []
        self.steps = 0
        self.seconds = {"simulator": 0.0, "network": 0.0, "update": 0.0}

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Act for T steps in every environment."""
        seen, rows = [self.observations], []
        for _ in range(self.config.steps):
            started = time.perf_counter()
            distribution, values = self.policy(seen[-1])
            actions = distribution.sample(self.noise)
            logprobs = distribution.log_prob(actions)
            motors = (actions.tanh() if self.policy.squash else actions.clamp(-1, 1)).cpu()
            acted = time.perf_counter()
            newest, rewards, terminated, truncated = self.source.step(motors)
            self.seconds["network"] += acted - started
            self.seconds["simulator"] += time.perf_counter() - acted
            valid = ~self.ended
            seen.append(self.eye.see(newest, self.ended))
            self.ended = (terminated | truncated).clone()
            flags = (rewards.clone(), terminated.clone(), truncated.clone(), valid)
            rows.append((actions, logprobs, values, *flags))
        last = self.policy(seen[-1])[1]
        self.observations = seen[-1]
        columns = [torch.stack(column).to(self.device) for column in zip(*rows, strict=True)]
        actions, logprobs, values, rewards, terminated, truncated, valid = columns
        stream = torch.stack(seen)
        return Rollout(
            stream,
            stream,
            actions,
            rewards,
            terminated,
            truncated,
            valid,
            logprobs,
            torch.cat([values, last[None]]),
        )

    def step(self, learning_rate: float | None = None) -> Metrics:
        """Collect, learn, return the metrics of this update.

        Args:
            learning_rate: of this update; None: the configuration's.

        """
        config = self.config
        rate = config.learning_rate if learning_rate is None else learning_rate
        self.optimiser.param_groups[0]["lr"] = rate
        rollout = self.collect()
        started = time.perf_counter()
        rewards = self.scale(rollout.rewards) if config.normalise_rewards else rollout.rewards
        batch = make_batch(rollout, gamma=config.gamma, lam=config.lam, rewards=rewards)
        if config.advantage_normalisation == "batch":
            batch = replace(batch, advantages=whiten(batch.advantages))
        # As many minibatches on every device, however many dummy rows each of them met.
        parts = max(1, round(rollout.valid.numel() / (config.minibatch_size or len(batch))))
        even = replace(config, minibatch_size=max(1, len(batch) // parts))
        metrics = update(self.policy, self.optimiser, batch, even, self.generator)
        self.scale.update(rollout.rewards.cpu(), rollout.done.cpu(), rollout.valid.cpu())
        self.seconds["update"] += time.perf_counter() - started
        self.steps += int(rollout.valid.sum())
        self.outcomes += rollout.terminated[rollout.done & rollout.valid].tolist()
        recent = self.outcomes[-500:]
        return {
            "steps": float(self.steps),
            "success": sum(recent) / max(1, len(recent)),
            **metrics,
            "learning_rate": rate,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return what this device needs to go on, besides policy and optimiser.

        The arms are not in it: episodes that were running are lost.
        """
        return {
            "steps": self.steps,
            "outcomes": list(self.outcomes),
            "seconds": dict(self.seconds),
            "scale": self.scale.state_dict(),
            "generator": self.generator.get_state(),
            "noise": self.noise.get_state(),
            "shifts": self.eye.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any], *, seed: int) -> None:
        """Put back what ``state_dict`` returned, and begin new episodes everywhere.

        Args:
            state: see there.
            seed: of the new episodes; the first one's would bring the first targets again.

        """
        self.steps, self.outcomes = state["steps"], list(state["outcomes"])
        self.seconds = dict(state["seconds"])
        self.scale.load_state_dict(state["scale"])
        self.scale.running.zero_()  # what the lost episodes had earned
        self.generator.set_state(state["generator"])
        self.noise.set_state(state["noise"])
        self.eye.generator.set_state(state["shifts"])
        self.observations = self.eye.begin(self.source.reset(seed))
        self.ended = torch.zeros(self.source.num_envs, dtype=torch.bool)


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
