"""In the learner's process: environments that the judge holds, and an agent that it asks."""

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bookkit.builds.inside.core import Channel, Handler, Log, Wrong, changed, described, entry
from bookkit.builds.wire import Arrays

AGENT = "a function from observations (N, O) to two tensors, logits (N, A) and values (N,)"


@dataclass(frozen=True)
class Transition:
    """One step of all N environments, as `nbkit.control.environments.Transition`."""

    next_observations: torch.Tensor
    rewards: torch.Tensor
    terminated: torch.Tensor
    truncated: torch.Tensor
    valid: torch.Tensor


class BaseEnv:
    """N environments in the judge's process; kinds of actions add `step`."""

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        self._channel = channel
        self.num_envs: int = data["num_envs"]
        self.observation_size: int = data["observation_size"]
        self.steps_left: int = data["steps_left"]

    def reset(self) -> torch.Tensor:
        """Begin new episodes everywhere; the observations (N, O)."""
        _, arrays = self._channel.ask("reset")
        return torch.from_numpy(arrays["observations"])

    def moved(self, chosen: Any) -> Transition:
        """Ask the judge for a step with actions as it takes them."""
        data, arrays = self._channel.ask("step", arrays={"actions": chosen})
        self.steps_left = data["steps_left"]
        parts = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Transition(**parts)


class Env(BaseEnv):
    """N environments in the judge's process: `reset()`, `step(actions)`."""

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        super().__init__(channel, data)
        self.num_actions: int = data["num_actions"]

    def step(self, actions: torch.Tensor) -> Transition:
        """Act: (N,) int64."""
        try:
            chosen = torch.as_tensor(actions).detach().to(torch.int64).numpy()
        except (TypeError, ValueError, RuntimeError):
            raise Wrong(
                f"`env.step` wants a tensor of {self.num_envs} whole numbers; it got "
                f"{described(actions)}"
            ) from None
        return self.moved(chosen)


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train` and `look`."""
    return served(module, channel, Env, AGENT, ("logits", "values"))


def served(
    module: types.ModuleType,
    channel: Channel,
    make: Callable[[Channel, dict[str, Any]], BaseEnv],
    agent_is: str,
    names: tuple[str, str],
) -> dict[str, Handler]:
    """`train` and `look` for one kind of actions.

    Args:
        module: the learner's file.
        channel: to the judge.
        make: the environment that the learner's `train` gets.
        agent_is: what `train` returns, in words.
        names: of the two tensors that the agent answers with.

    """
    agents: list[Any] = []

    def train(data: dict[str, Any], _: Arrays) -> tuple[dict[str, Any], Arrays]:
        settings = changed(module, data, fixed=("total_steps",))
        env = make(channel, data["env"])
        agent = entry(module, "train")(env, settings, seed=data["seed"], log=Log(channel))
        if not callable(agent):
            raise Wrong(f"`train` returned {described(agent)}: return the agent, {agent_is}")
        agents[:] = [agent]
        return {"without": without(module)}, {}

    def look(_: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        with torch.no_grad():
            answer = agents[0](torch.from_numpy(arrays["observations"]))
        pair = isinstance(answer, (tuple, list)) and len(answer) == 2
        if not pair or not all(isinstance(part, torch.Tensor) for part in answer):
            raise Wrong(f"your agent returned {described(answer)}: it is {agent_is}")
        found = zip(names, answer, strict=True)
        return {}, {name: x.detach().to(torch.float32).numpy() for name, x in found}

    return {"train": train, "look": look}


def without(module: types.ModuleType) -> list[str]:
    """The parts that the learner's method does not have, as its file says in `WITHOUT`.

    Raises:
        Wrong: `WITHOUT` is no tuple of names.

    """
    parts = getattr(module, "WITHOUT", ())
    if not isinstance(parts, (tuple, list)) or not all(isinstance(part, str) for part in parts):
        raise Wrong('`WITHOUT` wants a tuple of names, as in WITHOUT = ("clip",)')
    return list(parts)
