"""traps.autocast.1: steps in bfloat16 that each compute with the weights of today."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    weight: list[float],
    inputs: list[list[list[float]]],
    targets: list[list[float]],
    rate: float,
) -> tuple[list[float], list[float], bool]:
    """Gradient descent in plain numbers, number by number."""
    now, losses = list(weight), []
    for rows, wanted in zip(inputs, targets, strict=True):
        errors = [
            sum(a * b for a, b in zip(row, now, strict=True)) - y
            for row, y in zip(rows, wanted, strict=True)
        ]
        losses.append(sum(error**2 for error in errors) / len(errors))
        slopes = [
            2 * sum(error * row[place] for error, row in zip(errors, rows, strict=True))
            for place in range(len(now))
        ]
        now = [x - rate * slope / len(errors) for x, slope in zip(now, slopes, strict=True)]
    return losses, now, True


def call(
    function: Callable[..., Any], weight: Tensor, inputs: Tensor, targets: Tensor, rate: float
) -> Any:
    """Build a model around a float32 copy of the weight and watch the type of its results."""
    leaf = weight.float()[None].clone().requires_grad_()  # autocast keeps no copy of a view
    types = []

    def model(x: Tensor) -> Tensor:
        result = functional.linear(x, leaf)[:, 0]
        types.append(result.dtype)
        return result

    losses = function(model, leaf, inputs.float(), targets.float(), rate)
    if isinstance(losses, Tensor) and losses.is_floating_point():
        losses = losses.to(weight.dtype)
    return losses, leaf.detach()[0].to(weight.dtype), set(types) == {torch.bfloat16}


def cases(draw: Draw) -> Case:
    """A few batches, each another one."""
    steps, rows, width = draw.integer(2, 4), draw.dimension(), draw.dimension()
    inputs = {
        "weight": draw.normal(width),
        "inputs": draw.normal(steps, rows, width, scale=0.5),
        "targets": draw.normal(steps, rows),
        "rate": 0.1,
    }
    return Case(f"{steps} batches of {rows} × {width}", inputs)


def edges() -> tuple[Case, ...]:
    """Paper, one batch four times, one step, several rows."""

    def case(
        name: str,
        weight: list[float],
        inputs: list[list[list[float]]],
        targets: list[list[float]],
        rate: float,
    ) -> Case:
        values = (torch.tensor(x, dtype=torch.float64) for x in (weight, inputs, targets))
        names = ("weight", "inputs", "targets")
        return Case(name, {**dict(zip(names, values, strict=True)), "rate": rate})

    return (
        case("one number, two steps", [0.0], [[[1.0]], [[1.0]]], [[4.0], [4.0]], 0.25),
        case("one batch four times", [1.0, -1.0], [[[1.0, 2.0]]] * 4, [[3.0]] * 4, 0.05),
        case("one step", [2.0], [[[1.0], [3.0]]], [[0.0, 1.0]], 0.125),
        case(
            "several rows",
            [0.5, 1.5],
            [[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]] * 3,
            [[4.0, -2.0, 1.0]] * 3,
            0.25,
        ),
    )


FIELD = "        with torch.autocast("
CHECK = Check(
    id="traps.autocast.1",
    outputs=(
        Output("losses", "(S,)", rtol=0.03, atol=0.05),
        Output("weight afterwards", "(D,)", rtol=0.03, atol=0.05),
        Output("the model ran in bfloat16", "()", kind="python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "one block around the loop",
            (
                "    for x, y in zip(inputs, targets, strict=True):\n" + FIELD,
                "    stack = torch.autocast('cpu', dtype=torch.bfloat16)\n    stack.__enter__()\n"
                "    for x, y in zip(inputs, targets, strict=True):\n" + FIELD,
            ),
            (
                "    return torch.stack(losses)",
                "    stack.__exit__(None, None, None)\n    return torch.stack(losses)",
            ),
            message="each step computes with the weights of the start: a block around the loop "
            "keeps its bfloat16 copies of the weights until it ends, while the weights move on",
        ),
        edit(
            "no autocast",
            "dtype=torch.bfloat16",
            "dtype=torch.bfloat16, enabled=False",
            "the numbers are right and the model ran in float32: call it under autocast",
        ),
        edit(
            "opposite sign",
            "weight -= rate",
            "weight += rate",
            "the step goes up the slope: subtract the slope from the weight",
        ),
        edit(
            "sum of squares",
            ".mean()",
            ".sum()",
            "the squared errors are summed: the loss is their mean over the rows",
        ),
        edit(
            "no step",
            "weight -= rate * slope",
            "pass",
            "the weight never moves: change it in place, without recording a gradient",
        ),
        edit(
            "step without the rate",
            "rate * slope",
            "slope",
            "the whole slope is subtracted: multiply it by the rate",
        ),
    ),
    precision="bfloat16",
    not_tested="float16, which needs a scaler, losses under 0.001, "
    "and a sampler that reads the weights in between.",
    call=call,
    special=(
        ("rate", 0.0),
        ("rate", 1.0),
    ),
)
