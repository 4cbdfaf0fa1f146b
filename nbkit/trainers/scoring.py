"""Scoring completions: what a reward function sees and returns, shaping, and the tally."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbkit.rewards.compose import Composed
from nbkit.text.protocols import EncodedProblem, Problem


@dataclass(frozen=True)
class Completion:
    """What a reward function sees.

    Attributes:
        text: up to the EOS.
        length: tokens, EOS included.
        truncated: the limit ended it, not an EOS.
        ids: its tokens, EOS included; empty where a caller made it from text.

    """

    text: str
    length: int
    truncated: bool
    ids: tuple[int, ...] = ()


Reward = float | Composed | None
RewardFunction = Callable[[Sequence[Any], Sequence[Completion]], Sequence[Reward]]


def overlong_penalty(lengths: Tensor, limit: int, buffer: int, penalty: float = 1.0) -> Tensor:
    """What a completion near the limit is paid less (DAPO, arXiv:2503.14476, eq. 13).

    Args:
        lengths: (R,) tokens.
        limit: most tokens of a completion.
        buffer: the penalty begins this many tokens before the limit; 0: there is none.
        penalty: its size at the limit.

    Returns:
        (R,) from 0 to -penalty.

    """
    if buffer == 0:
        return torch.zeros(lengths.shape, device=lengths.device)
    return -penalty * ((lengths - (limit - buffer)) / buffer).clamp(0.0, 1.0)


def has_signal(rewards: Tensor, valid: Tensor, group_size: int) -> Tensor:
    """Whether a group's rewards differ, (R,) -> (R / group_size,); unscorable ones do not count."""
    grouped = rewards.view(-1, group_size)
    there = valid.view(-1, group_size)
    highest = torch.where(there, grouped, -math.inf).amax(1)
    lowest = torch.where(there, grouped, math.inf).amin(1)
    return (there.sum(1) > 1) & (highest > lowest)


def score(
    reward_fn: RewardFunction, problems: Sequence[Problem], completions: Sequence[Completion]
) -> tuple[list[float], list[Composed | None]]:
    """Call the reward function and check what it returns.

    Returns:
        a number a completion (NaN for None: could not be scored), and the parts where it gave any.

    Raises:
        ValueError: another number of rewards than completions, or one that is not finite.

    """
    given = list(reward_fn(problems, completions))
    if len(given) != len(completions):
        raise ValueError(
            f"reward_fn returned {len(given)} rewards for {len(completions)} completions; it must "
            "return one each, None where it cannot score"
        )
    numbers: list[float] = []
    for completion, reward in zip(completions, given, strict=True):
        number = reward.total if isinstance(reward, Composed) else reward
        if number is not None and not math.isfinite(number):
            raise ValueError(
                f"reward_fn returned {number} for {completion.text!r}; rewards must be finite, or "
                "None where it cannot score"
            )
        numbers.append(math.nan if number is None else float(number))
    return numbers, [r if isinstance(r, Composed) else None for r in given]


@dataclass(frozen=True)
class Note:
    """A row of a batch, for whoever reads samples.

    Attributes:
        problem: that was asked.
        ids: of the completion.
        reward: as the reward function gave it; NaN: it could not be scored.
        parts: of the reward; {}: it has none.

    """

    problem: Problem | EncodedProblem
    ids: Sequence[int]
    reward: float
    parts: Mapping[str, float]


def take_notes(
    problems: Sequence[Problem],
    rows: Sequence[Sequence[int]],
    numbers: Sequence[float],
    composed: Sequence[Composed | None],
) -> list[Note]:
    """One note a completion.

    Args:
        problems: as many completions of each stand together.
        rows: the ids of the completions.
        numbers: their rewards.
        composed: with parts, or None; [] where no reward has any.

    """
    each = len(rows) // len(problems)
    parts = composed or [None] * len(rows)
    return [
        Note(problems[row // each], ids, numbers[row], {} if one is None else one.parts)
        for row, (ids, one) in enumerate(zip(rows, parts, strict=True))
    ]


@dataclass
class Tally:
    """What a batch cost and what was seen on the way, discarded groups included."""

    completions: int = 0
    tokens: int = 0
    kept_tokens: int = 0
    groups: int = 0
    silent: int = 0
    unscored: int = 0
    rounds: int = 0
    reward: float = 0.0
    right: float = 0.0
    log_probability: float = 0.0
    truncated: int = 0
    generate_seconds: float = 0.0
    reward_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.parts: Counter[str] = Counter()
        self.parts_count = 0

    def metrics(self) -> dict[str, float]:
        """Means over everything that was sampled for this batch."""
        scored = max(1, self.completions - self.unscored)
        return {
            "reward": self.reward / scored,
            "accuracy": self.right / scored,
            **{f"reward/{k}": v / max(1, self.parts_count) for k, v in self.parts.items()},
            "length": self.tokens / self.completions,
            "truncated": self.truncated / self.completions,
            "entropy": -self.log_probability / self.tokens,
            "silent_groups": self.silent / self.groups,
            "unscored": float(self.unscored),
            "rounds": float(self.rounds),
            "tokens": float(self.tokens),
            "discarded_tokens": float(self.tokens - self.kept_tokens),
            "seconds/generate": self.generate_seconds,
            "seconds/reward": self.reward_seconds,
        }
