"""rlvr.overlong.1: a soft price for length near the limit."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def shape_rewards(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    """Take off 0 up to limit - buffer, 1 at the limit, and linearly between."""
    over = (lengths - (limit - buffer)).to(rewards.dtype) / buffer
    return rewards - over.clamp(0.0, 1.0)


def oracle(rewards: list[float], lengths: list[int], limit: int, buffer: int) -> list[float]:
    """Three cases."""
    shaped = []
    for reward, length in zip(rewards, lengths, strict=True):
        if length <= limit - buffer:
            penalty = 0.0
        elif length >= limit:
            penalty = 1.0
        else:
            penalty = (length - limit + buffer) / buffer
        shaped.append(reward - penalty)
    return shaped


def cases(draw: Draw) -> Case:
    """Lengths on both sides of the buffer's beginning."""
    n = draw.dimension()
    limit = draw.integer(6, 20)
    inputs = {
        "rewards": draw.choice([draw.normal(n), draw.integers(0, 1, n).double()]),
        "lengths": draw.integers(1, limit, n),
        "limit": limit,
        "buffer": draw.integer(1, 5),
    }
    return Case(f"{n} rows", inputs)


def edges() -> tuple[Case, ...]:
    """Short, at the beginning of the buffer, inside, at the limit, beyond."""

    def case(name: str, rewards: list[float], lengths: list[int], limit: int, buffer: int) -> Case:
        inputs = {
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "lengths": torch.tensor(lengths),
            "limit": limit,
            "buffer": buffer,
        }
        return Case(name, inputs)

    return (
        case("by hand", [1.0, 1.0, 1.0, 0.0], [10, 16, 18, 20], 20, 4),
        case("short", [1.0], [2], 20, 4),
        case("at the beginning of the buffer", [1.0], [16], 20, 4),
        case("at the limit", [1.0], [20], 20, 4),
        case("beyond the limit", [0.5], [24], 20, 4),
        case("wrong and long", [0.0], [19], 20, 4),
        case("negative reward", [-1.0], [18], 20, 4),
        case("a buffer of one", [1.0, 1.0], [9, 10], 10, 1),
    )


def _over(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return (lengths - (limit - buffer)).to(rewards.dtype) / buffer


def _bonus(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards + _over(rewards, lengths, limit, buffer).clamp(0.0, 1.0)


def _short_paid(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards - _over(rewards, lengths, limit, buffer).clamp(max=1.0)


def _unbounded(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards - _over(rewards, lengths, limit, buffer).clamp(min=0.0)


def _step(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards - (lengths > limit - buffer).to(rewards.dtype)


def _only_limit(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards - (lengths >= limit).to(rewards.dtype)


def _over_limit(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    over = (lengths - (limit - buffer)).to(rewards.dtype) / limit
    return rewards - over.clamp(0.0, 1.0)


def _after_limit(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    over = (lengths - limit).to(rewards.dtype) / buffer
    return rewards - over.clamp(0.0, 1.0)


def _multiplied(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    return rewards * (1 - _over(rewards, lengths, limit, buffer).clamp(0.0, 1.0))


def _replaced(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    over = _over(rewards, lengths, limit, buffer).clamp(0.0, 1.0)
    return torch.where(over > 0, -over, rewards)


def _floored(rewards: Tensor, lengths: Tensor, limit: int, buffer: int) -> Tensor:
    shaped = shape_rewards(rewards, lengths, limit, buffer)
    return torch.maximum(shaped, torch.minimum(rewards, torch.zeros_like(rewards)))


OVERLONG = Exercise(
    id="rlvr.overlong.1",
    title="A soft price near the limit",
    chapter=23,
    difficulty=1,
    minutes=15,
    goal=(
        "Rewards minus a penalty that is 0 up to limit - buffer tokens, 1 from the limit on, and "
        "linear between."
    ),
    outputs=(Output("shaped", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=shape_rewards,
    mutants=(
        Mutant(
            "a bonus",
            _bonus,
            "the penalty is added: long answers would be paid for their length",
        ),
        Mutant(
            "short answers are paid",
            _short_paid,
            "short answers are paid for being short: up to limit - buffer nothing changes, so "
            "clamp at 0 below",
        ),
        Mutant(
            "not bounded",
            _unbounded,
            "the penalty grows beyond 1 behind the limit: clamp it at 1",
        ),
        Mutant(
            "a step",
            _step,
            "the whole penalty falls at the beginning of the buffer: between, it grows linearly",
        ),
        Mutant(
            "only at the limit",
            _only_limit,
            "there is no penalty before the limit: the buffer in front of it is the warning",
        ),
        Mutant(
            "divided by the limit",
            _over_limit,
            "the excess is divided by `limit`: divide by `buffer`, so that it is 1 at the limit",
        ),
        Mutant(
            "behind the limit",
            _after_limit,
            "the penalty begins at the limit, where the sampler has already stopped: it begins at "
            "limit - buffer",
        ),
        Mutant(
            "a factor",
            _multiplied,
            "the reward is multiplied: a wrong answer then pays nothing for its length, since 0 "
            "stays 0",
        ),
        Mutant(
            "reward replaced",
            _replaced,
            "the penalty takes the place of the reward: a right answer in the buffer must stay "
            "better than a wrong one",
        ),
        Mutant(
            "never below zero",
            _floored,
            "the shaped reward is held at 0: a wrong answer at the limit has -1",
        ),
    ),
    not_tested="whether the model learns to be brief or to be cut off elsewhere.",
)
