"""In the learner's process: a writer to train, and a world of the judge's that scores texts."""

import copy
import types
from typing import Any

import torch

from bookkit.builds.inside.core import (
    Channel,
    Handler,
    Log,
    Wrong,
    changed,
    described,
    entry,
    weights_of,
)
from bookkit.builds.wire import Arrays
from nbkit.text.policies import LSTMPolicy


class World:
    """Scores texts: `score(ids)`; where there are problems, `problems(count)` draws some.

    Attributes:
        bos_id: begins every text and is not scored.
        eos_id: ends it.
        pad_id: fills what stands behind the end.
        vocabulary_size: V.
        max_new_tokens: the longest text, its end included.
        tokens_left: of the budget.

    """

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        self._channel = channel
        for name, value in data.items():
            setattr(self, name, value)
        self.tokens_left: int = data["tokens_left"]

    def problems(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw problems: their numbers (count,) and their prompts (count, P), BOS first."""
        _, arrays = self._channel.ask("problems", {"count": int(count)})
        return torch.from_numpy(arrays["numbers"]), torch.from_numpy(arrays["prompts"])

    def score(self, ids: torch.Tensor, numbers: torch.Tensor | None = None) -> torch.Tensor:
        """Rewards (B,) of texts (B, T), without BOS and prompt; numbers (B,) of their problems."""
        given = {"ids": ids} if numbers is None else {"ids": ids, "numbers": numbers}
        try:
            sent = {
                n: torch.as_tensor(x).detach().to(torch.int64).numpy() for n, x in given.items()
            }
        except (TypeError, ValueError, RuntimeError):
            told = " and ".join(described(x) for x in given.values())
            raise Wrong(f"`world.score` wants tensors of whole numbers; it got {told}") from None
        data, arrays = self._channel.ask("score", arrays=sent)
        self.tokens_left = data["tokens_left"]
        return torch.from_numpy(arrays["rewards"])


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `train`."""

    def train(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        writer = LSTMPolicy(data["world"]["vocabulary_size"], width=data["width"])
        writer.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        settings = changed(module, data)
        world = World(channel, data["world"])
        trained = entry(module, "train")(
            copy.deepcopy(writer), world, settings, seed=data["seed"], log=Log(channel)
        )
        return {}, weights_of(trained, writer)

    return {"train": train}
