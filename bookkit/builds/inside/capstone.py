"""In the learner's process: the capstone's pupil, and a world that marks what is paid for."""

import copy
import types
from typing import Any

import torch

from bookkit.builds.inside.core import Channel, Handler, Log, entry, weights_of
from bookkit.builds.inside.writing import World
from bookkit.builds.wire import Arrays
from nbkit.text.policies import TransformerPolicy


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train`."""

    def train(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        pupil = TransformerPolicy(**data["shape"])
        pupil.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        world = World(channel, data["world"])
        trained = entry(module, "train")(
            copy.deepcopy(pupil), world, seed=data["seed"], log=Log(channel)
        )
        return {}, weights_of(trained, pupil)

    return {"train": train}
