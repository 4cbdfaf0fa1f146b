"""One update of build 35 as it should be, and as the known mistakes make it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bookkit.builds.network import network
from bookkit.builds.sampling_clock import Group

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Way:
    """How an update is made; the default is right.

    Attributes:
        weight: of a token: truncated, left as it is, none, or 0 where a clip would be flat.
        mean: over all tokens of the batch, over the means of its groups, or over none.
        baseline: mean reward of the group, of the batch, or none.
        masked: whether what stands after the end of a completion is left out.
        sign: -1 goes the other way.

    """

    weight: Literal["truncated", "whole", "none", "clip"] = "truncated"
    mean: Literal["tokens", "groups", "sum"] = "tokens"
    baseline: Literal["group", "batch", "none"] = "group"
    masked: bool = True
    sign: int = 1


MISTAKES: dict[str, Way] = {
    "The importance weights are missing: stale tokens count as if your policy had drawn them.": Way(
        "none"
    ),
    "The importance weights are not truncated: `cap` bounds each from above.": Way("whole"),
    "The clip lies around the policy that drew the tokens, in place of your own.": Way("clip"),
    "A mean over the groups' means: divide by the number of tokens of the whole batch.": Way(
        mean="groups"
    ),
    "The loss is a sum: divide by the number of tokens of the whole batch.": Way(mean="sum"),
    "The baseline is the mean of the batch: it is that of each group.": Way(baseline="batch"),
    "There is no baseline: take the mean reward of the group off.": Way(baseline="none"),
    "The mask is not used: what stands after the end of a completion counts.": Way(masked=False),
    "The sign is opposite: it makes good completions rarer.": Way(sign=-1),
}


def updated(
    before: Weights, groups: Sequence[Group], settings: Mapping[str, Any], way: Way
) -> list[Tensor]:
    """The weights after one step of plain SGD on a batch.

    Args:
        before: the weights that the step begins with.
        groups: the batch.
        settings: `learning_rate`, `cap`.
        way: how the loss is made.

    """
    model = network()
    model.load_state_dict(before)
    every = torch.cat([group.rewards for group in groups]).mean()
    losses, counts = [], []
    for group in groups:
        logp = model(group.prompt.x).log_softmax(-1)
        logp = logp[torch.arange(group.actions.shape[1]), group.actions]
        base = {"group": group.rewards.mean(), "batch": every, "none": torch.zeros(())}
        advantages = (group.rewards - base[way.baseline])[:, None]
        ratio = (logp.detach() - group.logp).exp()
        weight = {
            "truncated": ratio.clamp(max=settings["cap"]),
            "whole": ratio,
            "none": torch.ones_like(ratio),
            "clip": torch.where(
                torch.where(advantages > 0, ratio < settings["cap"], ratio > 2 - settings["cap"]),
                ratio,
                0.0,
            ),
        }[way.weight]
        mask = group.mask if way.masked else torch.ones_like(group.mask)
        losses.append(torch.where(mask, -way.sign * weight * advantages * logp, 0.0).sum())
        counts.append(mask.sum())
    each, number = torch.stack(losses), torch.stack(counts)
    loss = {
        "tokens": each.sum() / number.sum(),
        "groups": (each / number).mean(),
        "sum": each.sum(),
    }[way.mean]
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    rate = settings["learning_rate"]
    return [p.detach() - rate * g for p, g in zip(model.parameters(), gradients, strict=True)]
