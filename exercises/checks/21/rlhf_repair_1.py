"""rlhf.repair.1: an update of RLHF that runs, never complains, and goes astray.

The learner's function takes a policy and a recorded rollout. The check's policy returns two tables,
so that the oracle can follow every number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from rlhf_faults import FAULTS
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output

EOS = 2  # also the pad


@dataclass(frozen=True)
class Recorded:
    """B answers of at most T tokens, as they were sampled and scored; (B, T) unless stated."""

    ids: Tensor
    mask: Tensor
    logprobs: Tensor
    ref_logprobs: Tensor
    values: Tensor
    scores: Tensor  # (B,)
    eos_id: int


def call(
    function: Callable[..., Any],
    theta: Tensor,
    critic: Tensor,
    beta: float,
    penalty: float,
    lam: float,
    clip: float,
    value_coefficient: float,
    eos_id: int,
    **recorded: Tensor,
) -> Any:
    """Build policy and rollout from the case and call the learner's function."""

    def policy(ids: Tensor) -> tuple[Tensor, Tensor]:
        return theta + 0.0, critic + 0.0

    rollout = Recorded(**recorded, eos_id=eos_id)
    return function(policy, rollout, beta, penalty, lam, clip, value_coefficient)


Table = list[list[float]]


def oracle(
    theta: Table,
    critic: Table,
    ids: list[list[int]],
    mask: list[list[bool]],
    logprobs: Table,
    ref_logprobs: Table,
    values: Table,
    scores: list[float],
    eos_id: int,
    beta: float,
    penalty: float,
    lam: float,
    clip: float,
    value_coefficient: float,
) -> tuple[Table, Table, float]:
    """One answer after the other, all in numbers."""
    rows, columns = len(ids), len(ids[0])
    rewards = [[0.0] * columns for _ in range(rows)]
    advantages = [[0.0] * columns for _ in range(rows)]
    tokens = []
    for b in range(rows):
        length = sum(mask[b])
        ended = eos_id in ids[b][:length]
        for t in range(length):
            rewards[b][t] = beta * (ref_logprobs[b][t] - logprobs[b][t])
        rewards[b][length - 1] += scores[b] if ended else scores[b] - penalty
        worth = [*values[b][:length], 0.0]
        deltas = [rewards[b][t] + worth[t + 1] - worth[t] for t in range(length)]
        for t in range(length):
            advantages[b][t] = math.fsum(lam ** (s - t) * deltas[s] for s in range(t, length))
            tokens.append((b, t))
    raw = [advantages[b][t] for b, t in tokens]
    mean = math.fsum(raw) / len(raw)
    spread = math.sqrt(math.fsum((a - mean) ** 2 for a in raw) / max(1, len(raw) - 1))
    losses = []
    for (b, t), advantage in zip(tokens, raw, strict=True):
        weight = (advantage - mean) / (spread + 1e-8) if len(raw) > 1 else 0.0
        ratio = math.exp(theta[b][t] - logprobs[b][t])
        surrogate = min(ratio * weight, min(max(ratio, 1 - clip), 1 + clip) * weight)
        square = 0.5 * (critic[b][t] - advantage - values[b][t]) ** 2
        losses.append(-surrogate + value_coefficient * square)
    return rewards, advantages, math.fsum(losses) / len(losses)


def _case(draw: Draw, name: str, answers: list[str], columns: int, ratio: float, **how) -> Case:  # type: ignore[no-untyped-def]
    """`answers` has a string a row: a letter a token, e for an end."""
    shape = (len(answers), columns)
    lengths = torch.tensor([len(answer) for answer in answers])
    mask = torch.arange(columns)[None, :] < lengths[:, None]
    ids = torch.full(shape, EOS)
    for b, answer in enumerate(answers):
        for t, letter in enumerate(answer):
            ids[b, t] = EOS if letter == "e" else 5 + t
    old = -draw.uniform(0.2, 2.0, *shape)
    ratios = torch.full(shape, ratio, dtype=torch.float64)
    if ratio == 0:
        flat = [draw.choice([0.6, 0.9, 1.0, 1.1, 1.5]) for _ in range(mask.numel())]
        ratios = torch.tensor(flat, dtype=torch.float64).reshape(shape)
    settings = {
        "beta": 0.1,
        "penalty": 1.0,
        "lam": 0.8,
        "clip": 0.2,
        "value_coefficient": 0.5,
        "eos_id": EOS,
        **how,
    }
    inputs = {
        "theta": old + ratios.log(),
        "critic": draw.normal(*shape),
        "ids": ids,
        "mask": mask,
        "logprobs": old,
        "ref_logprobs": -draw.uniform(0.2, 2.0, *shape),
        "values": draw.normal(*shape),
        "scores": draw.normal(shape[0]),
    }
    return Case(name, {**inputs, **settings})


def cases(draw: Draw) -> Case:
    """Answers of unequal length; some end, some are cut off."""
    columns = draw.dimension(2)
    answers = []
    for _ in range(draw.integer(1, 3)):
        length = draw.integer(1, columns)
        answers.append("a" * (length - 1) + draw.choice(["a", "e"]))
    return _case(
        draw,
        f"{len(answers)} × {columns}",
        answers,
        columns,
        0.0,
        beta=draw.choice([0.05, 0.2]),
        penalty=draw.choice([0.5, 1.0]),
        lam=draw.choice([0.8, 0.95]),
        value_coefficient=draw.choice([0.1, 0.5]),
    )


def edges() -> tuple[Case, ...]:
    """Rollouts in which one fault at a time shows."""
    draw = Draw(21)

    def case(name: str, answers: list[str], columns: int, ratio: float = 1.0, **how) -> Case:  # type: ignore[no-untyped-def]
        return _case(draw, name, answers, columns, ratio, **how)

    return (
        case("one token, the end", ["e"], 1),
        case("one token, cut off", ["a"], 1),
        case("three tokens, ended", ["aae"], 3),
        case("three tokens, cut off", ["aaa"], 3),
        case("ended early", ["ae"], 4),
        case("cut off, padded with the end", ["aa"], 4),
        case("no KL", ["aae"], 3, beta=0.0),
        case("likelier", ["aaae"], 4, 1.5, value_coefficient=0.0),
        case("rarer", ["aaae"], 4, 0.6, value_coefficient=0.0),
        case("the critic alone", ["aae"], 3, value_coefficient=1.0),
        case("two rows", ["aaae", "ae"], 4, 1.1),
        case("two rows, one cut off", ["aaa", "e"], 4, 0.0),
    )


CHECK = Check(
    id="rlhf.repair.1",
    outputs=(
        Output("rewards", "(B, T)"),
        Output("advantages", "(B, T)"),
        Output("loss", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=FAULTS,
    not_tested="several epochs and minibatches, clipping of the values, results beyond ±10, "
    "and learning.",
    gradient_to=("theta", "critic"),
    call=call,
    draws=12,
    special=(
        ("beta", 1.0),
        ("penalty", 0.0),
        ("lam", 0.0),
        ("lam", 1.0),
        ("clip", 0.0),
        ("clip", 1.0),
    ),
)
