"""Proximal policy optimisation (arXiv:1707.06347) for control, every detail a visible switch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from nbkit._inputs import check_choice
from nbkit.advantages import batch_moments, gae, whiten
from nbkit.control.actor_critic import Policy
from nbkit.control.environments import ControlEnv
from nbkit.control.episodes import EpisodeTracker
from nbkit.control.normalisation import ObservationNormaliser, ReturnScale
from nbkit.control.rollouts import Batch, Rollout, collect, make_batch
from nbkit.parallel.base import Parallel
from nbkit.trainers.loop import Trainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.update import FlatParameter, update


class PPOTrainer(Trainer):
    """A run of PPO: everything that the next update depends on, so that it can be written down.

    Args:
        env: is reset here.
        policy: is trained in place.
        config: settings.
        seed: of environment and actions.

    Attributes:
        history: the metrics of each update.
        episodes: an ``EpisodeTracker``: steps so far and finished episodes.

    Raises:
        ValueError: a policy whose parameters are frozen.

    """

    description = "PPO"

    def __init__(self, env: ControlEnv, policy: Policy, config: PPOConfig, *, seed: int) -> None:
        parameters = [p for p in policy.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("policy: all parameters are frozen; call requires_grad_(True) on it")
        self.env, self.policy, self.config, self.seed = env, policy, config, seed
        # Small networks on one device are stepped as one flat tensor, without a back-end.
        self.learners: dict[str, Parallel] = {}
        self.flat = FlatParameter(parameters)
        self.optimiser = torch.optim.Adam(
            [self.flat.tensor],
            lr=config.learning_rate,
            eps=config.adam_eps,
            fused=True,
        )
        self.generator = torch.Generator().manual_seed(seed)
        self.observations = env.reset(seed)
        self.episodes = EpisodeTracker(env.num_envs)
        self.normaliser = (
            ObservationNormaliser(env.observation_size) if config.normalise_observations else None
        )
        self.return_scale = (
            ReturnScale(env.num_envs, config.gamma) if config.normalise_rewards else None
        )
        self.history: list[Metrics] = []

    @property
    def planned(self) -> int:
        """The budget of environment steps."""
        return self.config.total_steps

    @property
    def done(self) -> int:
        """Environment steps that are spent."""
        return self.episodes.steps

    def step(self) -> Metrics:
        """Collect one rollout, learn from it, return the metrics of this update."""
        config = self.config
        self.flat.link()
        left = max(0.0, 1.0 - self.episodes.steps / config.total_steps)
        learning_rate = config.learning_rate * (left if config.anneal_learning_rate else 1.0)
        self.optimiser.param_groups[0]["lr"] = learning_rate
        rollout = collect(
            self.env,
            self.policy,
            self.observations,
            config.steps,
            self.generator,
            action_bounds=config.action_bounds,
            normaliser=self.normaliser,
        )
        self.observations = rollout.raw_stream[-1]
        self.episodes.add(rollout)
        metrics = update(
            self.policy,
            self.optimiser,
            self.batch(rollout),
            config,
            self.generator,
            clip=config.clip * (left if config.anneal_clip else 1.0),
        )
        self._update_normalisers(rollout)
        metrics = {
            "steps": float(self.episodes.steps),
            "episodes": float(len(self.episodes.finished)),
            "return": self.episodes.mean_return(),
            "length": self.episodes.mean_length(),
            **metrics,
            "learning_rate": learning_rate,
        }
        return self.note(metrics)

    def batch(self, rollout: Rollout) -> Batch:
        """Turn a rollout into what ``update`` learns from."""
        config = self.config
        scale = self.return_scale
        rewards = rollout.rewards if scale is None else scale(rollout.rewards)
        batch = make_batch(
            rollout,
            gamma=config.gamma,
            lam=config.lam,
            rewards=rewards,
            truncation_as_death=config.truncation_as_death,
            dummy_rows=config.dummy_rows_in_loss,
        )
        if config.advantage_normalisation == "batch":
            moments = None
            if config.dummy_rows_in_normaliser:
                moments = _moments_with_dummy_rows(rollout, rewards, batch, config)
            batch = replace(batch, advantages=whiten(batch.advantages, moments=moments))
        return batch

    def _update_normalisers(self, rollout: Rollout) -> None:
        counted = rollout.valid
        if self.config.dummy_rows_in_normaliser:
            counted = torch.ones_like(counted)
        if self.normaliser is not None:
            self.normaliser.update(rollout.raw_stream[:-1][counted])
        if self.return_scale is not None:
            self.return_scale.update(rollout.rewards, rollout.done, counted)

    def run(self, *, stop_return: float | None = None, **loop: Any) -> list[Metrics]:
        """Update until the budget is spent; return the history.

        Args:
            stop_return: stop once the mean return of the last 100 episodes reaches this.
            loop: further arguments of ``Trainer.run``.

        """

        def solved(metrics: Metrics) -> bool:
            enough = len(self.episodes.finished) >= 100
            return stop_return is not None and enough and metrics["return"] >= stop_return

        return super().run(**{"stop": solved, **loop})

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"return {metrics['return']:.1f}"

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the environment, as tensors and plain data."""
        return {
            "config": self.plain_config(),
            "seed": self.seed,
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "observations": self.observations.clone(),
            "episodes": self.episodes.state_dict(),
            "normaliser": self.normaliser and self.normaliser.state_dict(),
            "return_scale": self.return_scale and self.return_scale.state_dict(),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.seed = state["seed"]
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.observations = state["observations"].clone()
        self.episodes.load_state_dict(state["episodes"])
        if self.normaliser is not None:
            self.normaliser.load_state_dict(state["normaliser"])
        if self.return_scale is not None:
            self.return_scale.load_state_dict(state["return_scale"])
        self.history = list(state["history"])

    def beside(
        self, *, environment: Literal["exact", "restart"] = "exact", **options: Any
    ) -> dict[str, Any]:
        """What a checkpoint holds of the environments.

        Args:
            environment: "exact" stores their state; "restart" does not, and a resumed run begins
                new episodes there (for engines that hide their state, such as Box2D): it is then a
                fair continuation, not a repetition.
            options: there are no others.

        Raises:
            UnsavableEnvironment: "exact", but the environment's engine gives no exact state.

        """
        check_choice("environment", environment, ("exact", "restart"))
        exact = environment == "exact"
        return super().beside(**options) | {"environment": self.env.get_state() if exact else None}

    def load_beside(self, found: Mapping[str, Any]) -> None:
        """Put the environments where they were, or begin new episodes."""
        if found["environment"] is not None:
            self.env.set_state(found["environment"])
            return
        # New episodes from a seed that the first ones did not have; half-played ones are dropped.
        self.observations = self.env.reset(self.seed + 1_000_003 * len(self.history))
        self.episodes.open_returns.zero_()
        self.episodes.open_lengths.zero_()
        if self.return_scale is not None:
            self.return_scale.running.zero_()


def _moments_with_dummy_rows(
    rollout: Rollout, rewards: Tensor, batch: Batch, config: PPOConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """The moments of a normaliser that counts the dummy rows in: the fault, on request."""
    every_row, _ = gae(
        rewards,
        rollout.values[:-1],
        rollout.values[1:],
        rollout.terminated,
        rollout.done,
        gamma=config.gamma,
        lam=config.lam,
    )
    dummies = every_row[~rollout.valid] if not config.dummy_rows_in_loss else every_row[:0, 0]
    return batch_moments(torch.cat([batch.advantages, dummies]))
