"""Simulators on a GPU: thousands of environments as one tensor, after the interface of Isaac Lab.

Isaac Lab's ``DirectRLEnv`` and ``ManagerBasedRLEnv`` take actions (N, A) on the device and return
``(observations, rewards, terminated, time_outs, extras)`` as tensors on it, with observations in a
dictionary whose entry "policy" is what the agent sees. An environment that ends is reset *within*
the step (same-step autoreset): what comes back already belongs to the next episode, and no row is a
dummy. The last observation of the old episode is lost, unless the environment stores it. The
tensors that come back are the environment's own buffers, which the next step overwrites in place;
who keeps them must copy them.

It needs NVIDIA's simulator and an RTX card, so the adapter is tested against ``FakeIsaacReach``, an
environment with the documented interface and the closed-form kinematics of our arm.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.advantages import gae
from nbkit.control.actor_critic import Policy
from nbkit.control.rollouts import Batch

FINAL_KEY = "final_obs"


class IsaacEnv(Protocol):
    """What is used of Isaac Lab's environments."""

    num_envs: int
    device: Any
    single_action_space: Any
    single_observation_space: Any

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Begin everywhere; return the observations and extras."""
        ...

    def step(
        self, actions: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        """Act everywhere and reset what ended."""
        ...


@dataclass(frozen=True)
class SameStep:
    """One step of N environments that are reset within it; copies, which no later step changes.

    Attributes:
        observations: (N, O) to act on next: the first of a new episode where one ended.
        final: (N, O) where the step really led, or None if the environment does not tell.
        rewards: (N,).
        terminated: (N,) bool.
        truncated: (N,) bool.

    """

    observations: Tensor
    final: Tensor | None
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor


class IsaacAdapter:
    """Isaac Lab's interface on one side, tensors on the other; nothing leaves the device.

    What ``reset`` and ``step`` return are copies: Isaac Lab writes the next step into the very
    tensors that it returned, and a rollout would hold its last step T times.

    Args:
        env: such as what ``gymnasium.make("Isaac-Reach-Franka-v0", cfg=...)`` returns.
        group: the entry of the observations that the policy sees.
        clip: actions are clipped to plus or minus this; None: they are not.

    Raises:
        ValueError: no such entry, or observations that are not (N, O).

    """

    def __init__(self, env: IsaacEnv, *, group: str = "policy", clip: float | None = 1.0) -> None:
        inner: Any = getattr(env, "unwrapped", env)
        self.env, self.group, self.clip = env, group, clip
        self.num_envs, self.device = inner.num_envs, inner.device
        self.action_size = int(np.prod(inner.single_action_space.shape))

    def _seen(self, observations: dict[str, Tensor]) -> Tensor:
        """Return a copy of the policy's entry, checked."""
        if self.group not in observations:
            raise ValueError(
                f"observations have no entry {self.group!r}; there are {sorted(observations)}"
            )
        seen = observations[self.group]
        if seen.ndim != 2 or len(seen) != self.num_envs:
            raise ValueError(
                f"observations[{self.group!r}] must be (N, O) with N = {self.num_envs}; got "
                f"{tuple(seen.shape)}"
            )
        return seen.clone()

    def reset(self, seed: int) -> Tensor:
        """Begin everywhere; return observations (N, O), a copy."""
        return self._seen(self.env.reset(seed=seed)[0])

    def step(self, actions: Tensor) -> SameStep:
        """Act everywhere.

        Args:
            actions: (N, A).

        Returns:
            the step, all of it copied.

        """
        if self.clip is not None:
            actions = actions.clamp(-self.clip, self.clip)
        observations, rewards, terminated, time_outs, extras = self.env.step(actions)
        final = extras.get(FINAL_KEY)
        return SameStep(
            self._seen(observations),
            None if final is None else self._seen(final),
            rewards.to(torch.float32, copy=True),
            terminated.to(torch.bool, copy=True),
            time_outs.bool() & ~terminated.bool(),  # a tensor of its own
        )


def behind(
    values: Tensor, next_values: Tensor, final_values: Tensor | None, done: Tensor
) -> Tensor:
    """Return the value behind each row, (T, N): what the bootstrap reads.

    Where an episode goes on it is the value of the next row. Where one was cut off it is the value
    of the final observation. If that is lost, the value of the state *acted in* stands in for it
    (as in rsl_rl): it is one step old and of the right episode, while the value that the next row
    holds is of another episode.

    Args:
        values: (T, N) of the observations acted on.
        next_values: (T, N) of the rows after them.
        final_values: (T, N) of the final observations, or None.
        done: (T, N) bool, terminated or truncated.

    """
    last = values if final_values is None else final_values
    return torch.where(done, last, next_values)


@torch.no_grad()
def collect_same_step(
    env: IsaacAdapter,
    policy: Policy,
    observations: Tensor,
    steps: int,
    generator: torch.Generator,
    *,
    gamma: float,
    lam: float,
) -> tuple[Batch, Tensor, dict[str, Tensor]]:
    """Act for T steps and estimate advantages; every row counts.

    Args:
        env: already reset.
        policy: on the environment's device.
        observations: (N, O) to begin with.
        steps: T.
        generator: of the actions, on that device.
        gamma: the discount.
        lam: the trace parameter.

    Returns:
        the batch for ``nbkit.trainers.ppo.update.update``, the observations to go on with, and
        "rewards", "terminated", "truncated" (T, N).

    """
    check_number("steps", steps, 1)
    rows: list[tuple[Tensor, ...]] = []
    finals: list[Tensor] = []
    for _ in range(steps):
        distribution, values = policy(observations)
        actions = distribution.sample(generator)
        step = env.step(actions)
        if step.final is not None:
            finals.append(policy(step.final)[1])
        row = (observations, actions, distribution.log_prob(actions), values)
        rows.append((*row, step.rewards, step.terminated, step.truncated))
        observations = step.observations
    columns = [torch.stack(column) for column in zip(*rows, strict=True)]
    seen, actions, logprobs, values, rewards, terminated, truncated = columns
    after = torch.cat([values[1:], policy(observations)[1][None]])
    done = terminated | truncated
    final_values = torch.stack(finals) if len(finals) == steps else None
    advantages, returns = gae(
        rewards,
        values,
        behind(values, after, final_values, done),
        terminated,
        done,
        gamma=gamma,
        lam=lam,
    )
    flat = [x.flatten(0, 1) for x in (seen, actions, logprobs, advantages, returns, values)]
    ends = {"rewards": rewards, "terminated": terminated, "truncated": truncated}
    return Batch(*flat), observations, ends


class FakeIsaacReach:
    """Reach for N arms as tensors, with the interface of Isaac Lab's ``DirectRLEnv``.

    A point is steered by joint speeds without mass; success is to be within 3 cm. As there, each
    step writes into the tensors that the step before returned.

    Args:
        num_envs: N.
        device: of all tensors.
        episode_steps: the time limit.
        final: store the last observation of an episode under "final_obs", which Isaac Lab does not.

    """

    def __init__(
        self,
        num_envs: int,
        *,
        device: str = "cpu",
        episode_steps: int = 40,
        final: bool = False,
    ) -> None:
        check_number("num_envs", num_envs, 1)
        self.num_envs, self.device = num_envs, torch.device(device)
        self.episode_steps, self.final = episode_steps, final
        self.single_action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.single_observation_space = spaces.Dict(
            {"policy": spaces.Box(-np.inf, np.inf, (8,), np.float32)}
        )
        self.generator = torch.Generator(self.device)
        self.angles = torch.zeros(num_envs, 2, device=self.device)
        self.target = torch.zeros(num_envs, 2, device=self.device)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.reward_buf = torch.zeros(num_envs, device=self.device)
        self.reset_terminated = torch.zeros(num_envs, dtype=torch.bool, device=self.device)
        self.reset_time_outs = torch.zeros_like(self.reset_terminated)
        self.obs_buf = {"policy": torch.zeros(num_envs, 8, device=self.device)}
        self.final_buf = {"policy": torch.zeros(num_envs, 8, device=self.device)}

    def _tip(self) -> Tensor:
        joints = self.angles.cumsum(-1)
        return 0.2 * torch.stack([joints.cos().sum(-1), joints.sin().sum(-1)], -1)

    def _observe_into(self, buffer: dict[str, Tensor]) -> dict[str, Tensor]:
        """Write the observations into a dictionary of tensors and return it."""
        way = (self.target - self._tip()) / 0.4
        parts = [self.angles.cos(), self.angles.sin(), self.target / 0.4, way]
        buffer["policy"][:] = torch.cat(parts, -1)
        return buffer

    def _reset_idx(self, rows: Tensor) -> None:
        draw = torch.rand(len(rows), 4, generator=self.generator, device=self.device)
        self.angles[rows] = (2 * draw[:, :2] - 1) * torch.tensor([1.4, 2.2], device=self.device)
        radius, angle = 0.14 + 0.2 * draw[:, 2].sqrt(), (draw[:, 3] - 0.5) * math.pi
        self.target[rows] = radius[:, None] * torch.stack([angle.cos(), angle.sin()], -1)
        self.episode_length_buf[rows] = 0

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Begin everywhere."""
        if seed is not None:
            self.generator.manual_seed(seed)
        self._reset_idx(torch.arange(self.num_envs, device=self.device))
        return self._observe_into(self.obs_buf), {}

    def step(
        self, actions: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, dict[str, Any]]:
        """Act for 0.04 s, then reset what has ended."""
        if actions.shape != (self.num_envs, 2):
            raise ValueError(
                f"actions must be (N, 2) = ({self.num_envs}, 2); got {tuple(actions.shape)}"
            )
        self.angles = self.angles + 0.16 * actions
        self.episode_length_buf += 1
        distance = (self.target - self._tip()).norm(dim=-1)
        self.reset_terminated[:] = distance < 0.03
        self.reset_time_outs[:] = self.episode_length_buf >= self.episode_steps
        self.reward_buf[:] = -4.0 * distance + self.reset_terminated
        extras: dict[str, Any] = {"log": {"distance": distance.mean()}}
        if self.final:
            extras[FINAL_KEY] = self._observe_into(self.final_buf)
        ended = (self.reset_terminated | self.reset_time_outs).nonzero().squeeze(-1)
        if len(ended):
            self._reset_idx(ended)
        seen = self._observe_into(self.obs_buf)
        return seen, self.reward_buf, self.reset_terminated, self.reset_time_outs, extras
