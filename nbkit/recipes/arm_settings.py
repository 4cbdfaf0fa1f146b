"""The tasks of chapter 41 with their settings.

Those of reach were found on seeds 100 and above. Push takes them over; no run of it is recorded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbkit.control.actor_critic import ActorCritic, DiagonalGaussian, Policy, bounded
from nbkit.control.actor_critic_batched import BatchedActorCritic, make_batched_actor_critic
from nbkit.control.environments import ControlEnv, VectorEnvAdapter
from nbkit.control.normalisation import ObservationNormaliser
from nbkit.control.squashed import SquashActions, SquashedGaussian
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.push import VectorPush
from nbkit.envs.reach import VectorReach
from nbkit.trainers.ppo import PPOTrainer
from nbkit.trainers.ppo.config import PPOConfig


class SquashedActorCritic(BatchedActorCritic):
    """The network of chapter 12 with another head: a tanh behind the Gaussian."""

    def _distribution(self, scores: torch.Tensor) -> DiagonalGaussian:
        return SquashedGaussian(scores, self.log_std)


@dataclass(frozen=True)
class ArmTaskSettings:
    """An arm, a network, a configuration.

    Attributes:
        make: ``VectorReach`` or ``VectorPush``.
        config: of PPO.
        num_envs: N.
        reward: a form of ``nbkit.envs.arm_rewards``.
        squash: a tanh behind the Gaussian; False: the clip of chapter 12.
        network: settings of ``ActorCritic``.
        env_settings: of ``make``, such as ``randomisation``.

    """

    make: Callable[..., ArmVectorEnv]
    config: PPOConfig
    num_envs: int = 32
    reward: str = "dense"
    squash: bool = True
    network: Mapping[str, Any] = field(default_factory=lambda: {"log_std": -0.5})
    env_settings: Mapping[str, Any] = field(default_factory=dict)

    def env(self, num_envs: int, **settings: Any) -> ControlEnv:
        """Make N arms; ``settings`` replace ``env_settings``."""
        given = {**self.env_settings, **settings}
        arms = self.make(num_envs, reward=self.reward, gamma=self.config.gamma, **given)
        env: ControlEnv = VectorEnvAdapter(arms)
        return SquashActions(env) if self.squash else env

    def trainer(self, seed: int, **changes: Any) -> PPOTrainer:
        """Make a trainer; environment, weights and actions all come from ``seed``.

        Args:
            seed: of the run.
            **changes: to the configuration.

        """
        env = self.env(self.num_envs)
        policy: Policy = make_batched_actor_critic(env, seed=seed, **self.network)
        if self.squash:
            generator = torch.Generator().manual_seed(seed)
            separate = ActorCritic(
                env.observation_size,
                env.action_space,
                shared=False,
                generator=generator,
                **self.network,
            )
            policy = SquashedActorCritic(separate)
        return PPOTrainer(env, policy, replace(self.config, **changes), seed=seed)


@torch.no_grad()
def arm_success(
    env: ControlEnv,
    policy: Policy,
    normaliser: ObservationNormaliser | None,
    *,
    seed: int,
    steps: int = 50,
) -> dict[str, float]:
    """Play one episode in each environment with the most likely action.

    Args:
        env: of arms, whose episodes terminate by success alone.
        policy: acts.
        normaliser: of the observations, as in training.
        seed: of the targets; not one that training used.
        steps: the time limit.

    Returns:
        "success": share of the episodes; "mean_steps" of the successful ones, NaN if there is none.

    """
    observations = env.reset(seed)
    running = torch.ones(env.num_envs, dtype=torch.bool)
    won, lengths = torch.zeros_like(running), torch.zeros(env.num_envs)
    for _ in range(steps):
        seen = observations if normaliser is None else normaliser(observations)
        actions = policy.act(seen).mode()
        transition = env.step(bounded(actions, env.action_space))
        observations = transition.next_observations
        lengths += running
        won |= running & transition.terminated
        running &= ~(transition.terminated | transition.truncated)
    return {
        "success": won.float().mean().item(),
        "mean_steps": lengths[won].mean().item() if bool(won.any()) else float("nan"),
    }


REACH = ArmTaskSettings(
    VectorReach,
    PPOConfig(
        total_steps=250_000,
        steps=32,
        gamma=0.95,
        lam=0.95,
        learning_rate=1e-3,
        epochs=6,
        minibatch_size=256,
        advantage_normalisation="batch",
        normalise_observations=True,
        normalise_rewards=True,
    ),
)
# One discount for all forms of the reward: with 0.95 an arm that needs 40 steps sees nothing of the
# end.
REACH_REWARDS = {
    form: replace(
        REACH, reward=form, config=replace(REACH.config, gamma=0.98, lam=0.9, total_steps=160_000)
    )
    for form in ("sparse", "dense", "potential", "closeness")
}
PUSH = ArmTaskSettings(VectorPush, replace(REACH.config, total_steps=1_000_000), reward="potential")
