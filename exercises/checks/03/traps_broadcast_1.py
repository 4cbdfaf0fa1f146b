"""traps.broadcast.1: a critic's loss for values of shape (B, 1)."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="traps.broadcast.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "(B, 1) minus (B,)",
            "values.squeeze(1)",
            "values",
            "(B, 1) minus (B,) is (B, B): every value is compared with every return, and the "
            "best such a critic can do is their mean. Give both one shape first",
        ),
        edit("no half", "0.5 * ", "", "the factor one half is missing in front of the squares"),
        edit(
            "sum over the batch",
            ".mean",
            ".sum",
            "the squares are summed: the mean is asked for, or the step grows with the batch",
        ),
        edit(
            "mean before the square",
            ".square().mean",
            ".mean().square",
            "the errors are averaged before they are squared, so that errors of opposite "
            "sign cancel: square first",
        ),
        edit(
            "returns not detached",
            "returns.detach()",
            "returns",
            "a gradient flows into `returns`: they are the target, and when they were made "
            "with the critic's own values the target would move to meet it",
        ),
        edit(
            "values detached",
            "(1)",
            "(1).detach()",
            "the value of the loss is right, but the critic's values are detached and it "
            "cannot learn",
        ),
        edit(
            "absolute error",
            ".square",
            ".abs",
            "this is the absolute error: its minimum is a median, and a value is a mean, "
            "which is where squares are least",
        ),
        edit(
            "Huber loss",
            "0.5 * (values.squeeze(1) - returns.detach()).square().mean()",
            "torch.nn.functional.smooth_l1_loss(values.squeeze(1), returns.detach())",
            "this is the Huber loss: equal near the target, linear far from it, so large "
            "surprises count less than a mean asks for",
        ),
    ),
    not_tested="values of several heads, clipping, and masks.",
    gradient_to=("values",),
    no_gradient_to=("returns",),
    wide=(
        "values",
        "returns",
    ),
)
