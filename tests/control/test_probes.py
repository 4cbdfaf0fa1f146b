"""The agent passes every probe; an agent broken in one place fails the probe that asks for it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from nbkit.control.actor_critic import ActorCritic, make_actor_critic
from nbkit.envs.probes import GAMMA, PROBES, ProbeEnv, ProbeFailed, run_probes
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.ppo import PPOConfig, PPOTrainer

CONFIG = PPOConfig(
    total_steps=5000,
    steps=8,
    gamma=GAMMA,
    lam=0.9,
    learning_rate=1e-2,
    epochs=4,
    minibatch_size=None,
    advantage_normalisation="batch",
)


class BlindActor(ActorCritic):
    """The policy does not see the observation; the value head does."""

    def act(self, observations):
        return super().act(torch.zeros_like(observations))

    def forward(self, observations):
        _, values = super().forward(observations)
        return self.act(observations), values


class BlindCritic(ActorCritic):
    def forward(self, observations):
        _, values = super().forward(torch.zeros_like(observations))
        return self.act(observations), values


class FlippedAdvantages(PPOTrainer):
    def batch(self, rollout):
        batch = super().batch(rollout)
        return replace(batch, advantages=-batch.advantages)


class ShiftedObservations(PPOTrainer):
    """Actions, advantages and returns of one row with the observation of another."""

    def batch(self, rollout):
        batch = super().batch(rollout)
        return replace(batch, observations=batch.observations.roll(1, 0))


class OtherActions(PPOTrainer):
    """Log-probabilities of actions that were not the drawn ones."""

    def batch(self, rollout):
        batch = super().batch(rollout)
        return replace(batch, actions=batch.actions.roll(1, 0))


def agent(
    name: str, *, network: Any = ActorCritic, trainer: Any = PPOTrainer, **changes: Any
) -> ActorCritic:
    env = PROBES[name].make(16)
    generator = torch.Generator().manual_seed(0)
    policy = network(1, env.action_space, width=16, layers=1, shared=False, generator=generator)
    trainer(env, policy, replace(CONFIG, **changes), seed=0).run(progress=False)
    return policy


def test_a_sound_agent_passes_every_probe() -> None:
    def train(probe, env):
        policy = make_actor_critic(env, seed=1, width=16, layers=1)
        PPOTrainer(env, policy, CONFIG, seed=1).run(progress=False)
        return policy

    assert run_probes(train) == {}


MUTANTS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    # the break; the probe that fails; a probe before it that still passes; where its message sends
    "the value loss is off": (
        {"value_coefficient": 0.0},
        "constant-reward",
        "action-reward",
        "value loss",
    ),
    "the critic is blind": (
        {"network": BlindCritic},
        "observation-reward",
        "constant-reward",
        "the way of the observations",
    ),
    "gamma is 1": ({"gamma": 1.0}, "two-step-discount", "observation-reward", "the discount"),
    "truncation is death": (
        {"truncation_as_death": True},
        "truncated-reward",
        "two-step-discount",
        "truncation treated as death",
    ),
    "dummy steps are learned from": (
        {"dummy_rows_in_loss": True},
        "truncated-reward",
        "action-reward",
        "dummy",
    ),
    "advantages are flipped": (
        {"trainer": FlippedAdvantages},
        "action-reward",
        "two-step-discount",
        "sign",
    ),
    "the actor is blind": (
        {"network": BlindActor},
        "action-observation-reward",
        "action-reward",
        "pairing",
    ),
    "rows are shifted": (
        {"trainer": ShiftedObservations},
        "observation-reward",
        "constant-reward",
        "pairing",
    ),
    "other actions are scored": (
        {"trainer": OtherActions},
        "continuous-action",
        "constant-reward",
        "Gaussian",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_agent_fails_the_right_probe(mutant: str) -> None:
    broken, fails, passes, message = MUTANTS[mutant]
    PROBES[passes].check(agent(passes, **broken))
    with pytest.raises(ProbeFailed, match=message):
        PROBES[fails].check(agent(fails, **broken))


def test_the_message_names_probe_case_error_and_place() -> None:
    policy = make_actor_critic(PROBES["constant-reward"].make(1), seed=0)
    with pytest.raises(ProbeFailed, match=r"constant-reward: the value of .* is off by .* Look at"):
        PROBES["constant-reward"].check(policy)


def test_nan_fails_a_probe() -> None:
    policy = make_actor_critic(PROBES["constant-reward"].make(1), seed=0)
    torch.nn.init.constant_(policy.value_head.bias, float("nan"))
    with pytest.raises(ProbeFailed):
        PROBES["constant-reward"].check(policy)


def test_probe_environments_resume(tmp_path) -> None:
    def trainer():
        env = PROBES["action-observation-reward"].make(4)
        return PPOTrainer(env, make_actor_critic(env, seed=0, width=8), CONFIG, seed=0)

    first, second = trainer(), trainer()
    for _ in range(3):
        first.step()
    save(tmp_path / "probe.pt", first)
    resume(tmp_path / "probe.pt", second)
    assert first.step() == second.step()


def test_wrong_probe_settings_are_named() -> None:
    with pytest.raises(ValueError, match="observation"):
        ProbeEnv(2, length=1, reward=lambda o, t, a: o, observation="one")
