"""mdp.bellman.1: values of a chain as a linear system."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(transitions: list[list[float]], rewards: list[float], gamma: float) -> list[float]:
    """Add up the discounted expected rewards of each step until nothing is left."""
    states = len(rewards)
    values = []
    for start in range(states):
        presence = [1.0 if s == start else 0.0 for s in range(states)]
        total = 0.0
        for _ in range(4000):
            total += math.fsum(p * r for p, r in zip(presence, rewards, strict=True))
            presence = [
                gamma * math.fsum(presence[s] * transitions[s][n] for s in range(states))
                for n in range(states)
            ]
            if max(presence) < 1e-18:
                break
        values.append(total)
    return values


def cases(draw: Draw) -> Case:
    """Random chains that end with some probability in every state."""
    states = draw.dimension()
    weights = draw.uniform(0.05, 1.0, states, states + 1)
    inputs = {
        "transitions": (weights / weights.sum(1, keepdim=True))[:, :-1],
        "rewards": draw.normal(states),
        "gamma": draw.choice([1.0, 0.9, 0.5, 0.0]),
    }
    return Case(f"{states} states", inputs)


def edges() -> tuple[Case, ...]:
    """The chapter's chains, one state, a loop that never ends, and no discount at all."""

    def case(name: str, transitions: list[list[float]], rewards: list[float], g: float) -> Case:
        inputs = {
            "transitions": torch.tensor(transitions, dtype=torch.float64),
            "rewards": torch.tensor(rewards, dtype=torch.float64),
            "gamma": g,
        }
        return Case(name, inputs)

    coin = [[0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.5], [0.0] * 4]
    sure = [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4]
    loops = [[0.2, 0.3, 0.1], [0.0, 0.5, 0.2], [0.4, 0.0, 0.3]]
    return (
        case("coin flips", coin, [0.0, 0.0, 0.0, 8.0], 1.0),
        case("always on, discount", sure, [0.0, 0.0, 0.0, 8.0], 0.5),
        case("one state, for ever", [[1.0]], [1.0], 0.9),
        case("one state, for ever, hardly discounted", [[1.0]], [1.0], 0.99),
        case("two states that alternate", [[0.0, 1.0], [1.0, 0.0]], [1.0, -2.0], 0.8),
        case("three states with loops", loops, [1.0, 2.0, -1.0], 0.9),
        case("gamma 0", sure, [1.0, 2.0, 3.0, 4.0], 0.0),
    )


CHECK = Check(
    id="mdp.bellman.1",
    outputs=(Output("values", "(S,)", rtol=1e-3, atol=1e-4),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "transposed",
            "transitions,",
            "transitions.T,",
            "the transitions are transposed: row s holds where s leads to, and a value "
            "looks forwards along the row",
        ),
        edit(
            "one step only",
            "torch.linalg.solve(identity - gamma * transitions, rewards)",
            "rewards + gamma * transitions @ rewards",
            "only one step of looking ahead: the equation holds V on both sides, so put "
            "the whole of it on one side and solve",
        ),
        edit(
            "too few sweeps",
            "return torch.linalg.solve(identity - gamma * transitions, rewards)",
            "values = torch.zeros_like(rewards)\n"
            "    for _ in range(10):\n"
            "        values = rewards + gamma * transitions @ values\n"
            "    return values",
            "ten sweeps of the equation are not enough where the discount is near 1: a "
            "loop keeps earning. Solve the system, or sweep until nothing moves",
        ),
        edit(
            "sign of the matrix",
            "identity - gamma * transitions",
            "(identity + gamma * transitions)",
            "the sign in the matrix is wrong: V - gamma P V = r, so the matrix is 1 - gamma P",
        ),
        edit(
            "own reward discounted",
            "torch.linalg.solve",
            "gamma * torch.linalg.solve",
            "the first reward is discounted as well: the reward of a step counts in full, "
            "the discount begins with the next state",
        ),
        edit(
            "gamma ignored",
            "solve(identity - gamma * transitions, rewards)",
            "pinv(identity - transitions) @ rewards",
            "`gamma` has no effect: every later state counts gamma times as much",
        ),
        edit(
            "own reward missing",
            "(identity - gamma * transitions, rewards)",
            "(identity - gamma * transitions, rewards) - rewards",
            "the reward of the state itself is missing: a value counts from the step "
            "about to be taken",
        ),
        edit(
            "rows made to add to 1",
            "return torch.linalg.solve(identity - gamma * transitions, rewards)",
            "totals = transitions.sum(1, keepdim=True)\n"
            "    normalised = transitions / torch.where(totals == 0, 1.0, totals)\n"
            "    return torch.linalg.pinv(identity - gamma * normalised) @ rewards",
            "the rows are divided by their sums: what is missing to 1 is the chance of "
            "ending, and behind the end there is nothing to earn",
        ),
    ),
    not_tested="chains too large for a dense matrix, and a policy that chooses actions.",
    wide=("rewards",),
    special=(("gamma", 0.99),),
)
