"""In the learner's process: one rank of several, whose messages go through the judge."""

import types
from typing import Any

import torch

from bookkit.builds.inside.core import Channel, Handler, Log, Wrong, described, entry, weights_of
from bookkit.builds.network import network
from bookkit.builds.wire import Arrays


class World:
    """The ranks that take part.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.

    """

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        self._channel = channel
        self.rank: int = data["rank"]
        self.size: int = data["size"]

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of the ranks' tensors; every rank calls it, with the same shape."""
        return self._collective("all_reduce", tensor)

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor of rank 0; every rank calls it, with the same shape."""
        return self._collective("broadcast", tensor)

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """This rank's rows of a step: features (B, T, F), classes (B, T), mask (B, T)."""
        _, arrays = self._channel.ask("batch", {"step": int(step)})
        return tuple(torch.from_numpy(arrays[name]) for name in ("x", "y", "mask"))  # type: ignore[return-value]

    def _collective(self, kind: str, tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch.Tensor):
            raise Wrong(f"`world.{kind}` wants a tensor; it got {described(tensor)}")
        sent = tensor.detach().to(torch.float32).numpy()
        _, arrays = self._channel.ask(kind, arrays={"x": sent})
        return torch.from_numpy(arrays["x"])


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train`."""

    def train(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        model = network()
        model.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        settings = types.SimpleNamespace(**data["settings"])
        world = World(channel, data["world"])
        trained = entry(module, "train")(model, world, settings, log=Log(channel))
        return {}, weights_of(trained, model)

    return {"train": train}
