"""In the learner's process: a decoder, prompts and draws; the learner's sampler answers."""

import types
from typing import Any

import numpy as np
import torch

from bookkit.builds.decoder import Decoder
from bookkit.builds.inside.core import Channel, Handler, Wrong, described, entry
from bookkit.builds.wire import Arrays


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `model` with weights, then `generate`."""
    models: list[Decoder] = []

    def model(_: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        made = Decoder().double().requires_grad_(False).eval()
        made.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        models[:] = [made]
        return {}, {}

    def generate(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        draws = torch.from_numpy(arrays["draws"])
        words = {"eos_id": data["eos_id"], "temperature": data["temperature"]}
        answers = entry(module, "generate")(models[0], data["prompts"], draws, **words)
        try:
            rows = [[int(token) for token in row] for row in answers]
        except (TypeError, ValueError, RuntimeError):
            raise Wrong(
                f"`generate` returned {described(answers)}: return one list of tokens a prompt"
            ) from None
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        flat = np.array([token for row in rows for token in row], dtype=np.int64)
        return {}, {"lengths": lengths, "tokens": flat}

    return {"model": model, "generate": generate}
