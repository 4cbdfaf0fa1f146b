"""In the learner's process: environments with continuous actions, and an agent that is asked."""

import types
from typing import Any

import torch

from bookkit.builds.inside.control import BaseEnv, Transition, served
from bookkit.builds.inside.core import Channel, Handler, Wrong, described

AGENT = "a function from observations (N, O) to two tensors, actions (N, A) and values (N,)"


class Env(BaseEnv):
    """N environments in the judge's process: `reset()`, `step(actions)`."""

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        super().__init__(channel, data)
        self.action_size: int = data["action_size"]

    def step(self, actions: torch.Tensor) -> Transition:
        """Act: (N, A) from -1 to 1."""
        try:
            chosen = torch.as_tensor(actions).detach().to(torch.float32).numpy()
        except (TypeError, ValueError, RuntimeError):
            raise Wrong(
                f"`env.step` wants a tensor ({self.num_envs}, {self.action_size}); it got "
                f"{described(actions)}"
            ) from None
        return self.moved(chosen)


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train` and `look`."""
    return served(module, channel, Env, AGENT, ("actions", "values"))
