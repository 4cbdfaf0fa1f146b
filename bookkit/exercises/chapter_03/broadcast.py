"""traps.broadcast.1: a critic's loss for values of shape (B, 1)."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def critic_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Half the mean squared error, each value with its own return."""
    return 0.5 * (values.squeeze(1) - returns.detach()).square().mean()


def oracle(values: list[list[float]], returns: list[float]) -> float:
    """One loop."""
    errors = [(row[0] - wanted) ** 2 for row, wanted in zip(values, returns, strict=True)]
    return 0.5 * math.fsum(errors) / len(errors)


def cases(draw: Draw) -> Case:
    """A few states."""
    rows = draw.dimension()
    return Case(f"{rows} states", {"values": draw.normal(rows, 1), "returns": draw.normal(rows)})


def edges() -> tuple[Case, ...]:
    """Paper, one state, values that are right, and returns far away."""

    def case(name: str, values: list[float], returns: list[float]) -> Case:
        column = torch.tensor(values, dtype=torch.float64)[:, None]
        return Case(name, {"values": column, "returns": torch.tensor(returns, dtype=torch.float64)})

    return (
        case("two states by hand", [1.0, 2.0], [3.0, 2.0]),
        case("one state", [1.0], [4.0]),
        case("the values are right", [1.0, -2.0, 3.0], [1.0, -2.0, 3.0]),
        case("three states", [0.5, -1.0, 2.0], [1.5, 1.0, -2.0]),
        case("far away", [0.0, 0.0], [1000.0, -1000.0]),
    )


def _broadcast(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values - returns.detach()).square().mean()


def _no_half(values: Tensor, returns: Tensor) -> Tensor:
    return (values.squeeze(1) - returns.detach()).square().mean()


def _sum(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values.squeeze(1) - returns.detach()).square().sum()


def _mean_then_square(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values.squeeze(1) - returns.detach()).mean().square()


def _returns_trained(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values.squeeze(1) - returns).square().mean()


def _values_cut(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values.squeeze(1).detach() - returns.detach()).square().mean()


def _absolute(values: Tensor, returns: Tensor) -> Tensor:
    return 0.5 * (values.squeeze(1) - returns.detach()).abs().mean()


def _huber(values: Tensor, returns: Tensor) -> Tensor:
    return torch.nn.functional.smooth_l1_loss(values.squeeze(1), returns.detach())


BROADCAST = Exercise(
    id="traps.broadcast.1",
    title="Each value with its own return",
    chapter=3,
    difficulty=1,
    minutes=10,
    goal=(
        "Half the mean squared error between a critic's values (B, 1) and the returns (B,), state "
        "by state, with a gradient to the values alone."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=critic_loss,
    gradient_to=("values",),
    no_gradient_to=("returns",),
    mutants=(
        Mutant(
            "(B, 1) minus (B,)",
            _broadcast,
            "(B, 1) minus (B,) is (B, B): every value is compared with every return, and the best "
            "such a critic can do is their mean. Give both one shape first",
        ),
        Mutant("no half", _no_half, "the factor one half is missing in front of the squares"),
        Mutant(
            "sum over the batch",
            _sum,
            "the squares are summed: the mean is asked for, or the step grows with the batch",
        ),
        Mutant(
            "mean before the square",
            _mean_then_square,
            "the errors are averaged before they are squared, so that errors of opposite sign "
            "cancel: square first",
        ),
        Mutant(
            "returns not detached",
            _returns_trained,
            "a gradient flows into `returns`: they are the target, and when they were made with "
            "the critic's own values the target would move to meet it",
        ),
        Mutant(
            "values detached",
            _values_cut,
            "the value of the loss is right, but the critic's values are detached and it cannot "
            "learn",
        ),
        Mutant(
            "absolute error",
            _absolute,
            "this is the absolute error: its minimum is a median, and a value is a mean, which is "
            "where squares are least",
        ),
        Mutant(
            "Huber loss",
            _huber,
            "this is the Huber loss: equal near the target, linear far from it, so large surprises "
            "count less than a mean asks for",
        ),
    ),
    not_tested="values of several heads, clipping, and masks.",
)
