# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""Stable-Baselines3: its own rollout collection, buffer and PPO update around scripted tensors.

`PPO.train` computes its losses inside one method and reports their values to its logger. It runs
here with a policy that returns given values and log-probabilities; the derivative is the one that
its own `backward` leaves on them.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch import Tensor

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.adapters._elements import each


class ScriptedEnv:
    """A vector environment of one environment whose observation *is* the value of the state."""

    num_envs = 1

    def __init__(self, rewards: Any, after: Any, final: Any, terminated: Any, done: Any) -> None:
        self.rewards, self.after, self.final = rewards, after, final
        self.terminated, self.done, self.step_index = terminated, done, 0

    def step(self, _: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        t, self.step_index = self.step_index, self.step_index + 1
        info: dict[str, Any] = {}
        if self.done[t]:
            info["terminal_observation"] = np.array([self.final[t]], dtype=np.float32)
            info["TimeLimit.truncated"] = bool(self.done[t] and not self.terminated[t])
        return (
            np.array([[self.after[t]]], dtype=np.float32),
            np.array([self.rewards[t]], dtype=np.float32),
            np.array([bool(self.done[t])]),
            [info],
        )


class ValueIsObservation:
    """A policy that reads the value of a state off its observation."""

    squash_output = False

    def set_training_mode(self, _: bool) -> None:
        pass

    def __call__(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count = observation.shape[0]
        return torch.zeros(count, 1), observation.reshape(-1, 1), torch.zeros(count)

    def predict_values(self, observation: Tensor) -> Tensor:
        return observation.reshape(-1, 1)

    def obs_to_tensor(self, observation: np.ndarray) -> tuple[Tensor, bool]:
        return torch.as_tensor(observation), False


def collected_gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    gamma: float,
    lam: float,
) -> RolloutBuffer:
    """The buffer after `OnPolicyAlgorithm.collect_rollouts` on a scripted environment."""
    steps = len(rewards)
    box = spaces.Box(-np.inf, np.inf, (1,), dtype=np.float32)
    buffer = RolloutBuffer(steps, box, box, gamma=gamma, gae_lambda=lam, n_envs=1)
    after = torch.cat([values[1:], next_values[-1:]])
    algorithm: Any = SimpleNamespace(
        _last_obs=np.array([[float(values[0])]], dtype=np.float32),
        _last_episode_starts=np.array([True]),
        policy=ValueIsObservation(),
        use_sde=False,
        device="cpu",
        action_space=box,
        num_timesteps=0,
        gamma=gamma,
        _update_info_buffer=lambda *_: None,
    )
    quiet: Any = SimpleNamespace(
        on_rollout_start=lambda: None,
        update_locals=lambda _: None,
        on_step=lambda: True,
        on_rollout_end=lambda: None,
    )
    env: Any = ScriptedEnv(*(x.tolist() for x in (rewards, after, next_values, terminated, done)))
    OnPolicyAlgorithm.collect_rollouts(algorithm, env, quiet, buffer, n_rollout_steps=steps)
    return buffer


def ppo_update(
    *,
    logp: Tensor,
    old_logp: Tensor,
    advantages: Tensor,
    values: Tensor | None = None,
    old_values: Tensor | None = None,
    returns: Tensor | None = None,
    clip_value: float | None = None,
    normalize: bool = False,
) -> tuple[dict[str, float], Tensor, Tensor]:
    """One `PPO.train` on one minibatch of (N,).

    Returns:
        what it logged, and the derivatives of policy loss + value loss in log-probabilities and
        values.
    """
    zeros = torch.zeros_like(logp)
    logp_leaf = logp.detach().clone().requires_grad_()
    value_leaf = (zeros if values is None else values.detach()).clone().requires_grad_()
    logged: dict[str, float] = {}
    data = SimpleNamespace(
        observations=zeros,
        actions=zeros,
        old_log_prob=old_logp.detach(),
        advantages=advantages.detach(),
        returns=zeros if returns is None else returns.detach(),
        old_values=zeros if old_values is None else old_values.detach(),
    )
    policy = SimpleNamespace(
        set_training_mode=lambda _: None,
        optimizer=SimpleNamespace(zero_grad=lambda: None, step=lambda: None),
        evaluate_actions=lambda *_: (value_leaf, logp_leaf, None),
        parameters=lambda: [],
    )
    buffer = SimpleNamespace(get=lambda _: [data], values=np.zeros(2), returns=np.zeros(2))
    algorithm: Any = SimpleNamespace(
        policy=policy,
        rollout_buffer=buffer,
        _update_learning_rate=lambda _: None,
        _current_progress_remaining=1.0,
        clip_range=lambda _: 0.2,
        clip_range_vf=None if clip_value is None else (lambda _: clip_value),
        n_epochs=1,
        batch_size=len(logp),
        action_space=None,
        normalize_advantage=normalize,
        ent_coef=0.0,
        vf_coef=1.0,
        target_kl=None,
        verbose=0,
        max_grad_norm=float("inf"),
        _n_updates=0,
        logger=SimpleNamespace(record=lambda key, value, **_: logged.update({key: float(value)})),
    )
    PPO.train(algorithm)
    unused = torch.zeros_like(value_leaf)  # no gradient: the clip holds
    logp_slope, value_slope = (
        unused if x.grad is None else x.grad for x in (logp_leaf, value_leaf)
    )
    return logged, logp_slope, value_slope


def carried(value: float, at: Tensor, slope: Tensor) -> Tensor:
    """A number with the derivative that the library computed itself."""
    return value + ((at - at.detach()) * slope).sum()


class Sb3Adapter(Adapter):
    """SB3's PPO: generalised advantages, normalisation, policy loss and value loss."""

    name = "sb3"
    package = "stable_baselines3"
    sources = {  # noqa: RUF012
        "environment_gae": "OnPolicyAlgorithm.collect_rollouts, RolloutBuffer",
        "whiten": "PPO.train (normalize_advantage)",
        "ppo_loss": "PPO.train",
        "value_loss": "PPO.train",
    }

    def environment_gae(
        self,
        rewards: Tensor,
        values: Tensor,
        next_values: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
        lam: float,
    ) -> Tensor:
        buffer = collected_gae(rewards, values, next_values, terminated, done, gamma, lam)
        return torch.from_numpy(buffer.advantages[:, 0].astype(np.float64))

    def whiten(self, x: Tensor, mask: Tensor) -> Tensor:
        if not bool((mask == 1).all()):
            raise NotProvided("masks: environment steps have none")
        flat = x.reshape(-1)
        zero = torch.zeros_like(flat)
        # Where the ratio is 1 the loss is -mean(advantage * ratio).
        _, slope, _ = ppo_update(logp=zero, old_logp=zero, advantages=flat, normalize=True)
        return (-slope * len(flat)).reshape(x.shape)

    def ppo_loss(self, logp: Tensor, old_logp: Tensor, advantages: Tensor) -> Tensor:
        def one(p: Tensor, o: Tensor, a: Tensor) -> Tensor:
            logged, slope, _ = ppo_update(logp=p, old_logp=o, advantages=a)
            return carried(logged["train/policy_gradient_loss"], p, slope)

        return each(one, logp, old_logp, advantages)

    def value_loss(
        self, values: Tensor, returns: Tensor, old_values: Tensor, clip: float | None
    ) -> Tensor:
        def one(v: Tensor, r: Tensor, o: Tensor) -> Tensor:
            zero = torch.zeros_like(v)
            logged, _, slope = ppo_update(
                logp=zero, old_logp=zero, advantages=zero,
                values=v, returns=r, old_values=o, clip_value=clip,
            )  # fmt: skip
            return carried(logged["train/value_loss"], v, slope)

        return each(one, values, returns, old_values)
