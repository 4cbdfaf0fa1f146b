"""The exact state of an environment as plain data, and where there is none to be had.

Gymnasium's classic control keeps its state in a few numbers and a random generator; that is written
down and put back to the bit. Box2D (LunarLander) keeps contacts and warm-started impulses inside
its engine and offers no way to read them all: ``UnsavableEnvironment`` says so. An environment of
one's own takes part by having ``get_state`` and ``set_state``.
"""

import json
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

_CLASSIC = "gymnasium.envs.classic_control."
_SINGLE = ("state", "steps_beyond_terminated", "last_u")
_VECTOR = ("state", "steps", "prev_done", "low", "high")
_VECTOR_MODULES = (_CLASSIC, "nbkit.control.classic")


class UnsavableEnvironment(ValueError):  # noqa: N818 - an answer to a question, named as one
    """The state of this environment cannot be written down exactly."""


def single_state(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the state of one environment and its wrappers as tensors and plain data.

    Errors:
        UnsavableEnvironment: the engine hides its state, or a wrapper may have a state of its own.

    """
    layers: list[Any] = []
    current: Any = env
    while isinstance(current, gym.Wrapper):
        if not isinstance(current, TimeLimit | OrderEnforcing | PassiveEnvChecker):
            raise UnsavableEnvironment(
                f"{type(current).__name__}: this wrapper may hold a state that is not known here; "
                "save with environment='restart', which begins new episodes on resuming"
            )
        layers.append(getattr(current, "_elapsed_steps", None))
        current = current.env
    if hasattr(current, "get_state") and hasattr(current, "set_state"):
        return {"layers": layers, "own": current.get_state(), "random": random_state(current)}
    if not type(current).__module__.startswith(_CLASSIC):
        name = current.spec.id if current.spec else type(current).__name__
        raise UnsavableEnvironment(
            f"{name}: its engine gives no exact state, so a resumed run cannot equal the unbroken "
            "one; save with environment='restart', which begins new episodes on resuming"
        )
    values = {key: _plain(getattr(current, key)) for key in _SINGLE if hasattr(current, key)}
    return {"layers": layers, "values": values, "random": random_state(current)}


def set_single_state(env: gym.Env[Any, Any], state: dict[str, Any]) -> None:
    """Put back what ``single_state`` returned."""
    current: Any = env
    for elapsed in state["layers"]:
        if isinstance(current, TimeLimit):
            current._elapsed_steps = elapsed
        elif isinstance(current, OrderEnforcing):
            current._has_reset = True
        current = current.env
    if "own" in state:
        current.set_state(state["own"])
    else:
        for key, value in state["values"].items():
            setattr(current, key, _restored(value))
    set_random_state(current, state["random"])


def vector_state(env: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    """Return the state of a vector environment as tensors and plain data.

    Errors:
        UnsavableEnvironment: an environment that is neither known nor has ``get_state``.

    """
    if isinstance(env, SyncVectorEnv):
        singles = [single_state(single) for single in env.envs]
        return {"envs": singles, "autoreset": torch.from_numpy(env._autoreset_envs.copy())}
    if hasattr(env, "get_state") and hasattr(env, "set_state"):
        return {"own": env.get_state(), "random": random_state(env)}
    if not type(env).__module__.startswith(_VECTOR_MODULES):
        raise UnsavableEnvironment(
            f"{type(env).__name__}: its state is not known here; give it get_state and set_state, "
            "or save with environment='restart', which begins new episodes on resuming"
        )
    values = {key: _plain(getattr(env, key)) for key in _VECTOR if hasattr(env, key)}
    return {"values": values, "random": random_state(env)}


def set_vector_state(env: VectorEnv[Any, Any, Any], state: dict[str, Any]) -> None:
    """Put back what ``vector_state`` returned."""
    if isinstance(env, SyncVectorEnv):
        for single, values in zip(env.envs, state["envs"], strict=True):
            set_single_state(single, values)
        env._autoreset_envs = state["autoreset"].numpy().copy()
        return
    if "own" in state:
        env.set_state(state["own"])  # type: ignore[attr-defined]
    else:
        for key, value in state["values"].items():
            setattr(env, key, _restored(value))
    set_random_state(env, state["random"])


def random_state(env: Any) -> str:
    """Return the state of the environment's NumPy generator as JSON: its integers are long."""
    return json.dumps(env.np_random.bit_generator.state)


def set_random_state(env: Any, state: str) -> None:
    """Put back what ``random_state`` returned."""
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = json.loads(state)
    env.np_random = generator


def _plain(value: Any) -> Any:
    """Arrays and tuples of numbers as tensors, so that a checkpoint needs no pickled code."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, tuple):
        return {"tuple": [float(x) for x in value]}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.numpy().copy()
    return tuple(value["tuple"]) if isinstance(value, dict) else value
