"""ppo.repair.1: an update that runs, never complains, and does not learn.

The learner's function takes a policy and a recorded rollout. The check builds the policy from two
tables (logits and value of each of four states), so that the oracle can follow every number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from ppo_faults import FAULTS
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output

STATES, ACTIONS = 4, 3


Policy = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Recorded:
    """A rollout of T steps in N environments; every field is (T, N) and was noted while acting."""

    observations: Tensor
    actions: Tensor
    logprobs: Tensor
    rewards: Tensor
    values: Tensor
    next_values: Tensor
    terminated: Tensor
    done: Tensor
    valid: Tensor


def table_policy(theta: Tensor, critic: Tensor) -> Policy:
    """Logits (B, A) and values (B, 1) looked up by state."""

    def policy(observations: Tensor) -> tuple[Tensor, Tensor]:
        return theta[observations], critic[observations][:, None]

    return policy


def call(
    function: Callable[..., Any],
    theta: Tensor,
    critic: Tensor,
    gamma: float,
    lam: float,
    clip: float,
    value_coefficient: float,
    entropy_coefficient: float,
    **recorded: Tensor,
) -> Any:
    """Build policy and rollout from the case and call the learner's function."""
    rollout = Recorded(**recorded)
    policy = table_policy(theta, critic)
    return function(policy, rollout, gamma, lam, clip, value_coefficient, entropy_coefficient)


Table = list[list[float]]


def _oracle_gae(
    rewards: Table,
    values: Table,
    next_values: Table,
    terminated: list[list[bool]],
    done: list[list[bool]],
    valid: list[list[bool]],
    gamma: float,
    lam: float,
) -> tuple[Table, Table]:
    steps, environments = len(rewards), len(rewards[0])
    advantages = [[0.0] * environments for _ in range(steps)]
    returns = [[0.0] * environments for _ in range(steps)]
    for n in range(environments):
        for t in range(steps):
            if not valid[t][n]:
                continue
            weight, total = 1.0, 0.0
            for s in range(t, steps):
                behind = 0.0 if terminated[s][n] else gamma * next_values[s][n]
                total += weight * (rewards[s][n] + behind - values[s][n])
                weight *= gamma * lam
                if done[s][n]:
                    break
            advantages[t][n], returns[t][n] = total, total + values[t][n]
    return advantages, returns


def oracle(
    theta: Table,
    critic: list[float],
    observations: list[list[int]],
    actions: list[list[int]],
    logprobs: Table,
    rewards: Table,
    values: Table,
    next_values: Table,
    terminated: list[list[bool]],
    done: list[list[bool]],
    valid: list[list[bool]],
    gamma: float,
    lam: float,
    clip: float,
    value_coefficient: float,
    entropy_coefficient: float,
) -> tuple[Table, Table, float]:
    """One row after the other, all in numbers."""
    advantages, returns = _oracle_gae(
        rewards, values, next_values, terminated, done, valid, gamma, lam
    )
    rows = [(t, n) for t in range(len(valid)) for n in range(len(valid[0])) if valid[t][n]]
    raw = [advantages[t][n] for t, n in rows]
    mean = math.fsum(raw) / len(raw)
    spread = math.sqrt(math.fsum((a - mean) ** 2 for a in raw) / max(1, len(raw) - 1))
    losses = []
    for (t, n), advantage in zip(rows, raw, strict=True):
        weight = (advantage - mean) / (spread + 1e-8) if len(raw) > 1 else 0.0
        logits = theta[observations[t][n]]
        total = math.log(math.fsum(math.exp(x) for x in logits))
        ratio = math.exp(logits[actions[t][n]] - total - logprobs[t][n])
        bounded = min(max(ratio, 1 - clip), 1 + clip)
        surrogate = min(ratio * weight, bounded * weight)
        square = 0.5 * (critic[observations[t][n]] - returns[t][n]) ** 2
        entropy = math.fsum(math.exp(x - total) * (total - x) for x in logits)
        losses.append(-surrogate + value_coefficient * square - entropy_coefficient * entropy)
    return advantages, returns, math.fsum(losses) / len(losses)


def _case(
    name: str,
    theta: Tensor,
    critic: Tensor,
    ends: list[str],
    ratios: Tensor,
    material: dict[str, Tensor],
    **numbers: float,
) -> Case:
    """`ends` has a string an environment: t terminated, c cut off, d dummy row, . goes on."""
    letters = [list(row) for row in zip(*ends, strict=True)]
    flags = {
        "terminated": torch.tensor([[x == "t" for x in row] for row in letters]),
        "done": torch.tensor([[x in "tc" for x in row] for row in letters]),
        "valid": torch.tensor([[x != "d" for x in row] for row in letters]),
    }
    logp = torch.log_softmax(theta, dim=-1)[material["observations"], material["actions"]]
    fields = {
        "observations": material["observations"],
        "actions": material["actions"],
        "logprobs": logp - ratios.log(),
        "rewards": torch.where(flags["valid"], material["rewards"], 0.0),
        "values": material["values"],
        "next_values": material["next_values"],
    }
    settings = {
        "gamma": 0.9,
        "lam": 0.8,
        "clip": 0.2,
        "value_coefficient": 0.5,
        "entropy_coefficient": 0.1,
        **numbers,
    }
    return Case(name, {"theta": theta, "critic": critic, **fields, **flags, **settings})


def _material(draw: Draw, steps: int, environments: int) -> dict[str, Tensor]:
    shape = (steps, environments)
    return {
        "observations": draw.integers(0, STATES - 1, *shape),
        "actions": draw.integers(0, ACTIONS - 1, *shape),
        "rewards": draw.normal(*shape),
        "values": draw.normal(*shape),
        "next_values": draw.normal(*shape),
    }


def _ends(draw: Draw, steps: int) -> str:
    letters: list[str] = []
    for _ in range(steps):
        over = bool(letters) and letters[-1] in "tc"
        letters.append("d" if over else draw.choice("tc...."))
    return "".join(letters)


def cases(draw: Draw) -> Case:
    """Short rollouts with ends of both kinds and ratios on both sides of the clip range."""
    steps, environments = draw.dimension(2), draw.integer(1, 3)
    ratios = [draw.choice([0.6, 0.9, 1.0, 1.1, 1.5]) for _ in range(steps * environments)]
    return _case(
        f"{steps} × {environments}",
        draw.normal(STATES, ACTIONS),
        draw.normal(STATES),
        [_ends(draw, steps) for _ in range(environments)],
        torch.tensor(ratios, dtype=torch.float64).reshape(steps, environments),
        _material(draw, steps, environments),
        gamma=draw.choice([0.9, 0.99]),
        lam=draw.choice([0.8, 0.95]),
        value_coefficient=draw.choice([0.5, 1.0]),
        entropy_coefficient=draw.choice([0.0, 0.1]),
    )


def edges() -> tuple[Case, ...]:
    """Rollouts in which one fault at a time shows."""
    draw = Draw(12)
    theta, critic = draw.normal(STATES, ACTIONS), draw.normal(STATES)

    def case(name: str, ends: list[str], ratio: float = 1.0, **numbers: float) -> Case:
        shape = (len(ends[0]), len(ends))
        ratios = torch.full(shape, ratio, dtype=torch.float64)
        return _case(name, theta, critic, ends, ratios, _material(draw, *shape), **numbers)

    only_policy = {"value_coefficient": 0.0, "entropy_coefficient": 0.0}
    return (
        case("one row", ["."]),
        case("one row, the critic alone", ["."], entropy_coefficient=0.0),
        case("one row, the entropy alone", ["."], value_coefficient=0.0),
        case("three rows, the critic alone", ["..."], entropy_coefficient=0.0),
        case("the policy alone", ["...."], **only_policy),
        case("the policy alone, likelier", ["...."], 1.5, **only_policy),
        case("the policy alone, rarer", ["...."], 0.6, **only_policy),
        case("terminates and is reset", [".td."]),
        case("is cut off and is reset", [".cd."]),
        case("ends with the last row", ["..c"]),
        case("two environments", ["...", ".td"], 1.5),
    )


CHECK = Check(
    id="ppo.repair.1",
    outputs=(
        Output("advantages", "(T, N)"),
        Output("returns", "(T, N)"),
        Output("loss", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=FAULTS,
    not_tested="several epochs and minibatches (here one batch is one loss), results "
    "beyond ±10, speed, and learning.",
    gradient_to=("theta", "critic"),
    call=call,
    draws=12,
    special=(
        ("gamma", 0.0),
        ("gamma", 1.0),
        ("lam", 0.0),
        ("lam", 1.0),
        ("clip", 0.0),
        ("clip", 1.0),
        ("entropy_coefficient", 1.0),
    ),
)
