"""Batches of control environments on tensors, with gymnasium's next-step autoreset told apart.

After the last step of an episode the *next* call of ``step`` ignores its action and returns the
first observation of a new episode with reward 0: a dummy step. Two things follow. What a step
returns is always the true next observation, at a truncation the final one. And the observation
that is acted on at step t+1 is the one that step t returned, so that T steps make one stream of
T+1 observations. ``Transition.valid`` is False on dummy steps; they belong in no loss and in no
normaliser.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from torch import Tensor

from nbkit._inputs import check_choice, check_number
from nbkit.control import env_state
from nbkit.control.classic import VECTOR_ENVIRONMENTS

Backend = Literal["auto", "native", "loop", "sync"]


@dataclass(frozen=True)
class Transition:
    """One step of all N environments.

    Attributes:
        next_observations: (N, O) float32, the true ones: final where the episode ended.
        rewards: (N,) float32.
        terminated: (N,) bool; a terminal state was reached, no value lies behind it.
        truncated: (N,) bool; the time was up, the value of the final observation counts.
        valid: (N,) bool; False on the dummy step of an autoreset.

    """

    next_observations: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor


class ControlEnv(Protocol):
    """What trainers need of N environments that are stepped together."""

    num_envs: int
    observation_size: int
    action_space: gym.Space[Any]  # of one environment: Discrete or Box

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return the observations (N, O)."""
        ...

    def step(self, actions: Tensor) -> Transition:
        """Act: (N,) int64 for Discrete, (N, A) float32 within the bounds for Box."""
        ...

    def get_state(self) -> dict[str, Any]:
        """Return tensors and plain data from which ``set_state`` continues exactly."""
        ...

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where ``get_state`` was called."""
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


def _check_spaces(observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> int:
    """Return the size of an observation."""
    if not isinstance(observation_space, spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(
            f"observation_space must be a Box of one axis; got {observation_space}: "
            "wrap the environment in gymnasium's FlattenObservation"
        )
    if isinstance(action_space, spaces.Discrete) and action_space.start == 0:
        return observation_space.shape[0]
    if isinstance(action_space, spaces.Box) and len(action_space.shape) == 1:
        return observation_space.shape[0]
    raise ValueError(
        f"action_space must be Discrete from 0 or a Box of one axis; got {action_space}"
    )


class LoopEnv:
    """Single gymnasium environments, stepped one after the other with as little as possible.

    Args:
        envs: at least one, all with the same spaces.

    Errors:
        ValueError: no environment, or spaces that are not vectors of numbers or one choice.

    """

    def __init__(self, envs: Sequence[gym.Env[Any, Any]]) -> None:
        if not envs:
            raise ValueError("envs must hold at least one environment; got none")
        self.envs = list(envs)
        self.num_envs = len(envs)
        self.action_space = envs[0].action_space
        self.observation_size = _check_spaces(envs[0].observation_space, self.action_space)
        self._discrete = isinstance(self.action_space, spaces.Discrete)
        self._ended = [True] * self.num_envs
        self._begun = False

    def reset(self, seed: int) -> Tensor:
        """Seed environment i with ``seed + i`` and return the observations (N, O)."""
        first = [env.reset(seed=seed + i)[0] for i, env in enumerate(self.envs)]
        self._ended, self._begun = [False] * self.num_envs, True
        return torch.from_numpy(np.array(first, dtype=np.float32))

    def step(self, actions: Tensor) -> Transition:
        """Step every environment, or reset it where its episode ended the step before."""
        if not self._begun:
            raise RuntimeError("step was called before reset: call reset(seed) first")
        chosen = actions.tolist() if self._discrete else actions.numpy()
        observations = np.empty((self.num_envs, self.observation_size), dtype=np.float32)
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        flags = np.zeros((3, self.num_envs), dtype=bool)
        for i, env in enumerate(self.envs):
            if self._ended[i]:
                observations[i], _ = env.reset()
                self._ended[i] = False
            else:
                observations[i], rewards[i], terminated, truncated, _ = env.step(chosen[i])
                flags[0, i], flags[1, i], flags[2, i] = terminated, truncated, True
                self._ended[i] = bool(terminated or truncated)
        terminated_, truncated_, valid = torch.from_numpy(flags)
        return Transition(
            torch.from_numpy(observations),
            torch.from_numpy(rewards),
            terminated_,
            truncated_,
            valid,
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state of every environment; see ``nbkit.control.env_state``."""
        single = [env_state.single_state(env) for env in self.envs]
        return {"envs": single, "ended": list(self._ended)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        if len(state["envs"]) != self.num_envs:
            raise ValueError(
                f"state holds {len(state['envs'])} environments; this one has {self.num_envs}"
            )
        for env, single in zip(self.envs, state["envs"], strict=True):
            env_state.set_single_state(env, single)
        self._ended, self._begun = list(state["ended"]), True

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


def single_env(env: gym.Env[Any, Any]) -> LoopEnv:
    """Wrap one gymnasium environment: a batch of one."""
    return LoopEnv([env])


class VectorEnvAdapter:
    """A gymnasium vector environment, its own or a hand-made one.

    Args:
        vector_env: with autoreset mode NEXT_STEP, gymnasium's default.

    Errors:
        ValueError: another autoreset mode, or spaces that do not fit.

    """

    def __init__(self, vector_env: VectorEnv[Any, Any, Any]) -> None:
        mode = vector_env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.NEXT_STEP:
            raise ValueError(
                f"vector_env must reset in mode AutoresetMode.NEXT_STEP; its metadata says {mode}"
            )
        self.vector_env = vector_env
        self.num_envs = vector_env.num_envs
        self.action_space = vector_env.single_action_space
        self.observation_size = _check_spaces(
            vector_env.single_observation_space, self.action_space
        )
        self._ended: np.ndarray | None = None

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return the observations (N, O)."""
        observations, _ = self.vector_env.reset(seed=seed)
        self._ended = np.zeros(self.num_envs, dtype=bool)
        return torch.from_numpy(np.array(observations, dtype=np.float32))

    def step(self, actions: Tensor) -> Transition:
        """Step all environments; those that ended the step before return a dummy."""
        if self._ended is None:
            raise RuntimeError("step was called before reset: call reset(seed) first")
        observations, rewards, terminated, truncated, _ = self.vector_env.step(actions.numpy())
        valid = ~self._ended
        self._ended = terminated | truncated
        return Transition(
            torch.from_numpy(np.asarray(observations, dtype=np.float32)),
            torch.from_numpy(np.asarray(rewards, dtype=np.float32)),
            torch.from_numpy(terminated),
            torch.from_numpy(truncated),
            torch.from_numpy(valid),
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state of the vector environment; see ``nbkit.control.env_state``."""
        if self._ended is None:
            raise RuntimeError("get_state was called before reset: call reset(seed) first")
        state = env_state.vector_state(self.vector_env)
        return {"vector": state, "ended": torch.from_numpy(self._ended.copy())}

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what ``get_state`` returned."""
        if len(state["ended"]) != self.num_envs:
            raise ValueError(
                f"state holds {len(state['ended'])} environments; this one has {self.num_envs}"
            )
        env_state.set_vector_state(self.vector_env, state["vector"])
        self._ended = state["ended"].numpy().copy()

    def close(self) -> None:
        """Close the vector environment."""
        self.vector_env.close()


def make_control_env(
    env_id: str,
    num_envs: int,
    *,
    backend: Backend = "auto",
    wrapper: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    **settings: Any,
) -> LoopEnv | VectorEnvAdapter:
    """Make N environments of a gymnasium id.

    Args:
        env_id: such as "CartPole-v1".
        num_envs: N.
        backend: "native" computes all environments in one array operation, where the id has such
            a form (CartPole in gymnasium; Pendulum and MountainCar in ``nbkit.control.classic``);
            "loop" steps single environments in Python; "sync" is gymnasium's SyncVectorEnv;
            "auto" is native where there is one and no ``wrapper`` is given, else loop.
        wrapper: put around each single environment.
        **settings: handed to the environment.

    Errors:
        ValueError: an unknown backend, or "native" where there is no such form.

    """
    check_choice("backend", backend, ("auto", "native", "loop", "sync"))
    check_number("num_envs", num_envs, 1)
    ours = VECTOR_ENVIRONMENTS.get(env_id)
    native = wrapper is None and (ours is not None or gym.spec(env_id).vector_entry_point)
    if backend == "auto":
        backend = "native" if native else "loop"
    if backend == "native":
        if not native:
            raise ValueError(
                f"backend 'native': {env_id} has no vectorised form here (or a wrapper was given); "
                "use 'loop'"
            )
        if ours is not None:
            return VectorEnvAdapter(ours(num_envs, **settings))
        made = gym.make_vec(env_id, num_envs, vectorization_mode="vector_entry_point", **settings)
        return VectorEnvAdapter(made)

    def single() -> gym.Env[Any, Any]:
        env = gym.make(env_id, disable_env_checker=True, **settings)
        return env if wrapper is None else wrapper(env)

    if backend == "sync":
        return VectorEnvAdapter(SyncVectorEnv([single] * num_envs))
    return LoopEnv([single() for _ in range(num_envs)])
