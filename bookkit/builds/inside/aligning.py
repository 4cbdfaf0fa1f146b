"""In the learner's process: an assistant, comparisons of its answers, and prompts to train on."""

import copy
import types
from dataclasses import dataclass
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

SCORES = "a function (or module) from ids (B, L) and a mask (B, L) to scores (B,)"
RESULT = "the policy that it was given, trained, or a pair of it and a function of values"


@dataclass(frozen=True)
class Comparisons:
    """Pairs of answers to one prompt each: ids and masks, (N, L) each."""

    chosen: torch.Tensor
    chosen_mask: torch.Tensor
    rejected: torch.Tensor
    rejected_mask: torch.Tensor


class World:
    """Comparisons and prompts, both in the judge's process.

    Attributes:
        pad_id, bos_id, eos_id: the special tokens.
        vocabulary_size: V.
        prompt_length: P, the padding on the left included.
        max_new_tokens: the longest answer, its end included.
        comparisons_left, tokens_left: of the budgets.

    """

    def __init__(self, channel: Channel, data: dict[str, Any]) -> None:
        self._channel = channel
        for name, value in data.items():
            setattr(self, name, value)
        self.comparisons_left: int = data["comparisons_left"]
        self.tokens_left: int = data["tokens_left"]

    def comparisons(self, count: int) -> Comparisons:
        """The next comparisons."""
        data, arrays = self._channel.ask("comparisons", {"count": int(count)})
        self.comparisons_left = data["comparisons_left"]
        return Comparisons(**{name: torch.from_numpy(array) for name, array in arrays.items()})

    def prompts(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw prompts: ids (count, P), padded on the left, and a mask (count, P)."""
        _, arrays = self._channel.ask("prompts", {"count": int(count)})
        return torch.from_numpy(arrays["ids"]), torch.from_numpy(arrays["mask"])

    def sampled(self, ids: torch.Tensor) -> None:
        """Hand over the answers that are learned from: ids (B, P+T), with their prompts."""
        data, _ = self._channel.ask("sampled", arrays={"ids": _ids(ids, "world.sampled")})
        self.tokens_left = data["tokens_left"]


def _ids(ids: Any, what: str) -> Any:
    try:
        return torch.as_tensor(ids).detach().to(torch.int64).numpy()
    except (TypeError, ValueError, RuntimeError):
        raise Wrong(f"`{what}` wants a tensor of token ids; it got {described(ids)}") from None


class JudgesScores:
    """Stands where the learner's reward model stands, while the judge asks with one of its own."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __call__(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Scores (B,) of ids (B, L), mask (B, L)."""
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            raise Wrong(f"`reward_model` wants a mask of bool; it got {described(mask)}")
        sent = {"ids": _ids(ids, "reward_model"), "mask": mask.numpy()}
        _, arrays = self._channel.ask("score", arrays=sent)
        return torch.from_numpy(arrays["scores"])


def numbers_of(found: Any, shape: tuple[int, ...], what: str) -> Any:
    """A tensor of the learner's as an array.

    Raises:
        Wrong: another type or shape.

    """
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != shape:
        raise Wrong(f"your {what} gave {described(found)} for {shape[0]} rows: it gives {shape}")
    return found.detach().to(torch.float32).numpy()


def handlers(module: types.ModuleType, channel: Channel) -> dict[str, Handler]:
    """What the judge may call: `reward_model`, `score`, `train`, `values`."""
    held: dict[str, Any] = {}

    def policy_of(data: dict[str, Any], arrays: Arrays) -> LSTMPolicy:
        policy = LSTMPolicy(data["world"]["vocabulary_size"], width=data["width"])
        policy.load_state_dict({name: torch.from_numpy(x) for name, x in arrays.items()})
        return policy

    def reward_model(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        policy, settings = policy_of(data, arrays), changed(module, data)
        words = {"seed": data["seed"], "log": Log(channel)}
        function = entry(module, "train_reward_model")
        found = function(policy, World(channel, data["world"]), settings, **words)
        if not callable(found):
            raise Wrong(f"`train_reward_model` returned {described(found)}: return {SCORES}")
        held["scores"] = found
        return {}, {}

    def score(_: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        ids, mask = (torch.from_numpy(arrays[name]) for name in ("ids", "mask"))
        with torch.no_grad():
            found = held["scores"](ids, mask)
        return {}, {"scores": numbers_of(found, (len(ids),), "reward model")}

    def train(data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        policy, settings = policy_of(data, arrays), changed(module, data)
        scores = JudgesScores(channel) if data["judges_scores"] else held["scores"]
        words = {"seed": data["seed"], "log": Log(channel)}
        function, given = entry(module, "train_policy"), copy.deepcopy(policy)
        found = function(given, scores, World(channel, data["world"]), settings, **words)
        pair = isinstance(found, (tuple, list)) and len(found) == 2
        trained, held["values"] = found if pair else (found, None)
        if held["values"] is not None and not callable(held["values"]):
            raise Wrong(f"`train_policy` returned {described(found)}: return {RESULT}")
        return {"values": held["values"] is not None}, weights_of(trained, policy, "train_policy")

    def values(_: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        ids = torch.from_numpy(arrays["ids"])
        with torch.no_grad():
            found = held["values"](ids)
        return {}, {"values": numbers_of(found, tuple(ids.shape), "function of values")}

    return {"reward_model": reward_model, "score": score, "train": train, "values": values}
