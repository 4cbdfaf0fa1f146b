"""A finished group: what leaves the generator, and how a batch is made of such groups."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbkit.asynchronous.tickets import Ticket
from nbkit.asynchronous.time_limit import OverTimeError, time_limit
from nbkit.generate import Generation
from nbkit.rewards.compose import Composed
from nbkit.text.protocols import Problem, Vocabulary
from nbkit.trainers.grpo.batch import GroupBatch, assemble, count_completions
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.sampling import as_completions
from nbkit.trainers.scoring import Note, RewardFunction, Tally, score, take_notes

Order = tuple[Ticket, Problem]


@dataclass(frozen=True)
class Task:
    """What a generator needs to begin.

    Attributes:
        model: a copy; weights come with a version.
        vocabulary: of prompts and completions.
        reward_fn: called with one group at a time.
        config: of the sampler.

    """

    model: nn.Module
    vocabulary: Vocabulary
    reward_fn: RewardFunction
    config: GRPOConfig


@dataclass(frozen=True)
class Group:
    """The G completions of one ticket, scored; T is the longest of them.

    Attributes:
        ticket: that was answered.
        made: the completions, on the CPU.
        versions: (G, T) weights that drew each token, -1 where there is none.
        rewards: G numbers; NaN: could not be scored.
        composed: G parts of rewards, or None.
        in_time: False: the reward function ran over its limit.

    """

    ticket: Ticket
    made: Generation
    versions: Tensor
    rewards: tuple[float, ...]
    composed: tuple[Composed | None, ...]
    in_time: bool

    @property
    def number(self) -> int:
        """Of the ticket."""
        return self.ticket.number

    @property
    def oldest(self) -> int:
        """The lowest version of a token."""
        return int(self.versions[self.made.mask].min())


@dataclass(frozen=True)
class Batch:
    """What an update learns from.

    Attributes:
        rows: the completions; advantages are still 0.
        versions: (R, T) weights that drew each token, -1 where there is none.
        notes: one a row.
        metrics: means over the completions.

    """

    rows: GroupBatch
    versions: Tensor
    notes: list[Note]
    metrics: Metrics


def split(made: Generation, versions: Tensor, size: int) -> list[tuple[Generation, Tensor]]:
    """What one call sampled, as groups on the CPU, each no wider than it has to be.

    Args:
        made: R completions.
        versions: (R, T).
        size: completions G of a group.

    """
    groups = []
    for start in range(0, len(versions), size):
        part = slice(start, start + size)
        width = int(made.mask[part].sum(1).max())
        before = int(made.prompt_mask[part].sum(1).max())
        cut = {
            "tokens": made.tokens[part, :width],
            "mask": made.mask[part, :width],
            "logprobs": made.logprobs[part, :width],
            "truncated": made.truncated[part],
            "prompt_ids": made.prompt_ids[part, made.prompt_ids.shape[1] - before :],
            "prompt_mask": made.prompt_mask[part, made.prompt_mask.shape[1] - before :],
        }
        own: dict[str, Any] = {name: tensor.cpu().clone() for name, tensor in cut.items()}
        groups.append((Generation(**own), versions[part, :width].cpu().clone()))
    return groups


def scored(
    ticket: Ticket,
    problem: Problem,
    made: Generation,
    versions: Tensor,
    vocabulary: Vocabulary,
    reward_fn: RewardFunction,
    limit_s: float | None,
) -> Group:
    """Score a group; over the limit none of its completions has a reward.

    Args:
        ticket: that is answered.
        problem: of the ticket.
        made: G completions.
        versions: (G, T).
        vocabulary: of the completions.
        reward_fn: as for ``GRPOTrainer``, called with this group alone.
        limit_s: of that call, in the main thread; None: there is none.

    Raises:
        ValueError: what the reward function returns does not fit.

    """
    completions = as_completions(made, vocabulary)
    each = [problem] * len(completions)
    numbers: list[float] = [math.nan] * len(completions)
    composed: list[Composed | None] = [None] * len(completions)
    in_time = True
    try:
        if limit_s is None:
            numbers, composed = score(reward_fn, each, completions)
        else:
            with time_limit(limit_s):
                numbers, composed = score(reward_fn, each, completions)
    except OverTimeError:
        in_time = False
    return Group(ticket, made, versions, tuple(numbers), tuple(composed), in_time)


def scored_call(
    orders: Sequence[Order],
    parts: Sequence[tuple[Generation, Tensor]],
    vocabulary: Vocabulary,
    reward_fn: RewardFunction,
    limit_s: float | None = None,
) -> list[Group]:
    """Score all groups of one call of the sampler.

    Args:
        orders: that were answered.
        parts: of each the completions and their versions, as ``split`` gives them.
        vocabulary: as for ``scored``.
        reward_fn: as for ``scored``.
        limit_s: as for ``scored``, for each group.

    """
    return [
        scored(ticket, problem, made, versions, vocabulary, reward_fn, limit_s)
        for (ticket, problem), (made, versions) in zip(orders, parts, strict=True)
    ]


def as_batch(
    groups: Sequence[Group],
    problems: Sequence[Problem],
    config: GRPOConfig,
    pad_id: int,
    device: torch.device,
) -> Batch:
    """Groups as one batch, in their order; equal to what the synchronous trainer would have made.

    Args:
        groups: at least one.
        problems: of the run, for the notes.
        config: group size, shaping of the rewards.
        pad_id: fills shorter rows.
        device: where the tensors go.

    """
    tally, notes = Tally(rounds=1), []
    kept: list[tuple[Generation, Tensor, Tensor]] = []
    all_rows = torch.arange(config.group_size, device=device)
    for group in groups:
        made = _on(group.made, device)
        ids = count_completions(tally, made, 1, group.rewards, group.composed)
        rewards = torch.tensor(group.rewards, dtype=torch.float32, device=device)
        numbers = [number for number in group.rewards if not math.isnan(number)]
        tally.silent += len(set(numbers)) < 2
        notes += take_notes([problems[group.ticket.prompt]], ids, group.rewards, group.composed)
        kept.append((made, rewards, all_rows))
    tally.kept_tokens = tally.tokens
    rows = assemble(kept, config, pad_id)
    width = rows.mask.shape[1]
    versions = torch.cat([_wide(group.versions, width) for group in groups]).to(device)
    metrics = tally.metrics()
    for name in ("seconds/generate", "seconds/reward"):
        del metrics[name]  # of another process; see the spans
    return Batch(rows, versions, notes, metrics)


def staleness(versions: Tensor, version: int) -> Metrics:
    """How old the tokens of a batch are, in versions, and how many versions a completion holds.

    Args:
        versions: (R, T) weights that drew each token, -1 where there is none.
        version: of the trainer.

    Returns:
        "staleness/mean" and "staleness/max" over the tokens; "versions_in_completion", the mean
        number of different versions in a completion, and "versions_in_completion/max".

    """
    drawn = versions >= 0
    age = (version - versions[drawn]).float()
    kinds = [len(set(row[row >= 0].tolist())) for row in versions]
    return {
        "staleness/mean": age.mean().item(),
        "staleness/max": age.max().item(),
        "versions_in_completion": sum(kinds) / len(kinds),
        "versions_in_completion/max": float(max(kinds)),
    }


def _on(made: Generation, device: torch.device) -> Generation:
    tensors = {field.name: getattr(made, field.name) for field in fields(made)}
    moved: dict[str, Any] = {
        name: value.to(device) for name, value in tensors.items() if isinstance(value, Tensor)
    }
    return replace(made, **moved)


def _wide(versions: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(versions, (0, width - versions.shape[1]), value=-1)
