"""In the learner's process: a trainer, whose generator lives on the judge's side."""

import types
from collections.abc import Sequence
from typing import Any

import torch

from bookkit.builds.inside.core import Channel, Handler, Log, Wrong, described, entry, weights_of
from bookkit.builds.network import network
from bookkit.builds.wire import Arrays


class World:
    """The generator, which draws on while the trainer trains."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def publish(self, policy: torch.nn.Module, version: int, numbers: Sequence[int]) -> None:
        """Give the generator weights; the groups whose update made them, none for the same ones."""
        if not isinstance(policy, torch.nn.Module):
            raise Wrong(f"`world.publish` wants the policy; it got {described(policy)}")
        data = {"version": int(version), "numbers": [int(number) for number in numbers]}
        self._channel.ask("publish", data, weights_of(policy, policy))

    def start(self, number: int) -> None:
        """Ask for a group."""
        self._channel.ask("start", {"number": int(number)})

    def next(self) -> types.SimpleNamespace:
        """Wait for a finished group, or for the news that the generator was killed."""
        data, arrays = self._channel.ask("next")
        tensors = {name: torch.from_numpy(x) for name, x in arrays.items()}
        return types.SimpleNamespace(**data, **tensors)


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train`."""

    def train(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        policy = network()
        policy.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        settings = types.SimpleNamespace(**data["settings"])
        trained = entry(module, "train")(policy, World(channel), settings, log=Log(channel))
        return {}, weights_of(trained, policy)

    return {"train": train}
