"""rlvr.overlong.1: a soft price for length near the limit."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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
        case("far below zero, and long", [-2.0], [19], 20, 4),
        case("a buffer of one", [1.0, 1.0], [9, 10], 10, 1),
    )


CHECK = Check(
    id="rlvr.overlong.1",
    outputs=(Output("shaped", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "a bonus",
            "rewards - over",
            "rewards + over",
            "the penalty is added: long answers would be paid for their length",
        ),
        edit(
            "short answers are paid",
            "clamp(0.0, 1.0)",
            "clamp(max=1.0)",
            "short answers are paid for being short: up to limit - buffer nothing "
            "changes, so clamp at 0 below",
        ),
        edit(
            "not bounded",
            "clamp(0.0, 1.0)",
            "clamp(min=0.0)",
            "the penalty grows beyond 1 behind the limit: clamp it at 1",
        ),
        edit(
            "a step",
            "over.clamp(0.0, 1.0)",
            "(over > 0).to(rewards.dtype)",
            "the whole penalty falls at the beginning of the buffer: between, it grows linearly",
        ),
        edit(
            "only at the limit",
            "over.clamp(0.0, 1.0)",
            "(over >= 1).to(rewards.dtype)",
            "there is no penalty before the limit: the buffer in front of it is the warning",
        ),
        edit(
            "divided by the limit",
            "/ buffer",
            "/ limit",
            "the excess is divided by `limit`: divide by `buffer`, so that it is 1 at the limit",
        ),
        edit(
            "behind the limit",
            "(limit - buffer)",
            "limit",
            "the penalty begins at the limit, where the sampler has already stopped: it "
            "begins at limit - buffer",
        ),
        edit(
            "a factor",
            "rewards - over.clamp(0.0, 1.0)",
            "rewards * (1 - over.clamp(0.0, 1.0))",
            "the reward is multiplied: a wrong answer then pays nothing for its length, "
            "since 0 stays 0",
        ),
        edit(
            "reward replaced",
            "return rewards - over.clamp(0.0, 1.0)",
            "return rewards.where(over <= 0, -over.clamp(0.0, 1.0))",
            "the penalty takes the place of the reward: a right answer in the buffer must "
            "stay better than a wrong one",
        ),
        edit(
            "never below zero",
            "return rewards - over.clamp(0.0, 1.0)",
            "shaped = rewards - over.clamp(0.0, 1.0)\n"
            "    return shaped.maximum(rewards.clamp(max=0.0))",
            "the shaped reward is held at 0: a wrong answer at the limit has -1",
        ),
    ),
    not_tested="whether the model learns to be brief or to be cut off elsewhere.",
    wide=("rewards",),
)
