"""Rollouts of control environments: collecting them, and what the loss sees of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.advantages import gae
from nbkit.control.actor_critic import Policy, bounded
from nbkit.control.environments import ControlEnv


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments. Row T+1 of ``stream`` is where the next rollout starts.

    Attributes:
        stream: (T+1, N, O) observations as the policy saw them. ``stream[t + 1]`` is what step t
            returned, the final observation where an episode ended.
        raw_stream: the same before normalisation (the same tensor without a normaliser).
        actions: (T, N) int64 or (T, N, A) float32, as drawn, before any bound.
        rewards: (T, N), as the environment gave them.
        terminated: (T, N) bool.
        truncated: (T, N) bool.
        valid: (T, N) bool; False on the dummy steps of an autoreset.
        logprobs: (T, N) log pi(a|s) of the policy that acted.
        values: (T+1, N) of its value head.

    """

    stream: Tensor
    raw_stream: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    logprobs: Tensor
    values: Tensor

    @property
    def observations(self) -> Tensor:
        """(T, N, O) that were acted on."""
        return self.stream[:-1]

    @property
    def next_observations(self) -> Tensor:
        """(T, N, O) that the steps led to, the true ones."""
        return self.stream[1:]

    @property
    def done(self) -> Tensor:
        """(T, N) bool, terminated or truncated."""
        return self.terminated | self.truncated


@torch.no_grad()
def collect(
    env: ControlEnv,
    policy: Policy,
    observations: Tensor,
    steps: int,
    generator: torch.Generator,
    *,
    action_bounds: Literal["clip", "scale"] = "clip",
    normaliser: Callable[[Tensor], Tensor] | None = None,
) -> Rollout:
    """Let the policy act for ``steps`` steps in every environment.

    Log-probabilities and values need no step of the environment, so they are computed for the
    whole rollout at once, afterwards.

    Args:
        env: already reset.
        policy: acts, and values what it saw.
        observations: (N, O) raw, what ``reset`` or the last row of the rollout before gave.
        steps: T.
        generator: of the actions.
        action_bounds: see ``nbkit.control.actor_critic.bounded``.
        normaliser: applied to what the policy sees.

    Raises:
        ValueError: ``steps`` below 1; observations of another shape than (N, O).

    """
    check_number("steps", steps, 1)
    shape = (env.num_envs, env.observation_size)
    if observations.shape != shape:
        raise ValueError(f"observations must be (N, O) = {shape}; got {tuple(observations.shape)}")
    raw = torch.empty(steps + 1, *shape)
    stream = raw if normaliser is None else torch.empty_like(raw)
    raw[0] = observations
    chosen: list[Tensor] = []
    transitions = []
    for t in range(steps):
        if normaliser is not None:
            stream[t] = normaliser(raw[t])
        actions = policy.act(stream[t]).sample(generator)
        transition = env.step(bounded(actions, env.action_space, action_bounds))
        raw[t + 1] = transition.next_observations
        chosen.append(actions)
        transitions.append(transition)
    if normaliser is not None:
        stream[-1] = normaliser(raw[-1])
    actions = torch.stack(chosen)
    distribution, values = policy(stream.flatten(0, 1))
    padded = torch.cat([actions, actions[-1:]]).flatten(0, 1)  # the last row's are not used
    logprobs = distribution.log_prob(padded).view(steps + 1, -1)[:-1]
    return Rollout(
        stream,
        raw,
        actions,
        torch.stack([step.rewards for step in transitions]),
        torch.stack([step.terminated for step in transitions]),
        torch.stack([step.truncated for step in transitions]),
        torch.stack([step.valid for step in transitions]),
        logprobs,
        values.view(steps + 1, -1),
    )


@dataclass(frozen=True)
class Batch:
    """The M rows of a rollout that count, flat.

    Attributes:
        observations: (M, O).
        actions: (M,) or (M, A).
        logprobs: (M,) under the policy that acted.
        advantages: (M,).
        returns: (M,) targets of the value head.
        values: (M,) that it predicted when the rollout was collected.

    """

    observations: Tensor
    actions: Tensor
    logprobs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor

    def __len__(self) -> int:
        return len(self.logprobs)

    def rows(self, index: Tensor) -> "Batch":
        """Return some of the rows."""
        return Batch(
            self.observations[index],
            self.actions[index],
            self.logprobs[index],
            self.advantages[index],
            self.returns[index],
            self.values[index],
        )

    def split(self, sizes: list[int]) -> list["Batch"]:
        """Cut into consecutive parts, without copying."""
        fields = (
            *(self.observations, self.actions, self.logprobs),
            *(self.advantages, self.returns, self.values),
        )
        return [Batch(*part) for part in zip(*(x.split(sizes) for x in fields), strict=True)]


def make_batch(
    rollout: Rollout,
    *,
    gamma: float,
    lam: float,
    rewards: Tensor | None = None,
    truncation_as_death: bool = False,
    dummy_rows: bool = False,
) -> Batch:
    """Estimate advantages and returns, and flatten the rows that count.

    Args:
        rollout: T steps of N environments.
        gamma: the discount.
        lam: the trace parameter.
        rewards: (T, N) in place of the rollout's, such as scaled ones.
        truncation_as_death: the fault of taking a time limit for a terminal state.
        dummy_rows: the fault of learning from dummy steps as if they were real.

    Raises:
        ValueError: parameters out of range; no row counts.

    """
    dead = rollout.done if truncation_as_death else rollout.terminated
    valid = torch.ones_like(rollout.valid) if dummy_rows else rollout.valid
    if not bool(valid.any()):
        raise ValueError("rollout holds no valid row: take more steps than one")
    advantages, returns = gae(
        rollout.rewards if rewards is None else rewards,
        rollout.values[:-1],
        rollout.values[1:],
        dead,
        rollout.done,
        gamma=gamma,
        lam=lam,
        valid=valid,
    )
    rows = valid.flatten().nonzero().squeeze(1)

    def flat(x: Tensor) -> Tensor:
        return x.flatten(0, 1)[rows]

    return Batch(
        flat(rollout.observations),
        flat(rollout.actions),
        flat(rollout.logprobs),
        flat(advantages),
        flat(returns),
        flat(rollout.values[:-1]),
    )
