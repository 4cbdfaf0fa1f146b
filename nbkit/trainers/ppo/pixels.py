"""PPO from frames on one device: the update of chapter 12, with a collector for pictures.

Frames stay bytes until the network reads them, go to the device once, and are stacked there.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nbkit.advantages import whiten
from nbkit.control.normalisation import ReturnScale
from nbkit.control.policies_pixels import PixelActorCritic
from nbkit.control.rollouts import Rollout, make_batch
from nbkit.parallel.base import Parallel
from nbkit.runs.ranks import rank, world_size
from nbkit.trainers.loop import Trainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.ppo.budget import Budget
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.eye import Eye, FrameSource
from nbkit.trainers.ppo.update import update


class PixelTrainer(Trainer):
    """A run of PPO on frames.

    Args:
        source: arms that are drawn; reset here.
        policy: on its device already; trained in place.
        config: of chapter 12. Its observation normaliser has no place here.
        frames: K.
        shift: see ``Eye``.
        seed: of everything that is drawn.
        budget: ends the run, and takes the learning rate to 0; None: ``config.total_steps`` end it.

    Attributes:
        history: the metrics of each update.
        steps: real environment steps so far.
        seconds: spent in "simulator", "network" (acting) and "update".

    Raises:
        ValueError: a configuration that normalises observations.

    """

    description = "PPO from pixels"

    def __init__(
        self,
        source: FrameSource,
        policy: PixelActorCritic,
        config: PPOConfig,
        *,
        frames: int = 3,
        shift: int = 0,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> None:
        if config.normalise_observations:
            raise ValueError("normalise_observations: pictures are scaled by the policy already")
        self.source, self.policy, self.config, self.seed = source, policy, config, seed
        self.learners: dict[str, Parallel] = {}  # small networks on one device need no back-end
        self.history: list[Metrics] = []
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
        self.budget, self.left = budget, 1.0
        self.steps = 0
        self.seconds = {"simulator": 0.0, "network": 0.0, "update": 0.0}

    @property
    def planned(self) -> int:
        """The budget of environment steps."""
        return self.config.total_steps

    @property
    def done(self) -> int:
        """Environment steps that are spent."""
        return self.steps

    @property
    def finished(self) -> bool:
        """Whether the budget, or else the environment steps, are spent."""
        return super().finished if self.budget is None else self.left <= 0

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
            learning_rate: of this update; None: the configuration's, by what is left of the budget.

        """
        config = self.config
        rate = config.learning_rate * self.left if learning_rate is None else learning_rate
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
        metrics = {
            "steps": float(self.steps),
            "success": sum(recent) / max(1, len(recent)),
            **metrics,
            "learning_rate": rate,
        }
        if self.budget is not None:
            metrics["frames/s"] = self.steps * world_size() / self.budget.seconds
            metrics |= {f"seconds in {name}": value for name, value in self.seconds.items()}
            self.left = self.budget.left(len(self.history) + 1)
        return self.note(metrics)

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"success {metrics['success']:.2f}"

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the arms, as tensors and plain data."""
        return {
            "config": self.plain_config(),
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "history": self.history,
            "device": self.device_state(),
            "elapsed": self.budget and self.budget.seconds,
            "ranks": world_size(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned; episodes that were running are lost."""
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.history = list(state["history"])
        self._begin_again(state["device"])
        if self.budget is not None:
            self.budget.go_on_from(state["elapsed"] or 0.0)
            self.left = self.budget.left(len(self.history))

    def check_state(self, state: Mapping[str, Any], where: Path) -> None:
        """As in ``Trainer``; with fewer ranks the others' arms would be missing in silence."""
        super().check_state(state, where)
        ranks = state.get("ranks", 1)
        if ranks != world_size():
            raise ValueError(
                f"the run was started with {ranks} processes and would go on with {world_size()}; "
                "start it with as many, or anew"
            )

    def write_own(self, folder: Path) -> None:
        """Write this rank's reward scale, draws and counts."""
        if world_size() > 1:
            torch.save(self.device_state(), folder / f"rank_{rank()}.pt")

    def read_own(self, folder: Path) -> None:
        """Read them, and begin episodes of this rank's own."""
        if world_size() > 1:
            kept = folder / f"rank_{rank()}.pt"
            self._begin_again(torch.load(kept, map_location="cpu", weights_only=True))

    def _begin_again(self, device_state: dict[str, Any]) -> None:
        """Other targets than those of the start come next."""
        self.load_device_state(device_state, seed=self.seed + 1_000_003 * len(self.history))

    def device_state(self) -> dict[str, Any]:
        """Return what this device needs to go on, besides policy, optimiser and history.

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

    def load_device_state(self, state: dict[str, Any], *, seed: int) -> None:
        """Put back what ``device_state`` returned, and begin new episodes everywhere.

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
