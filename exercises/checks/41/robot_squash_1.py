"""robot.squash.1: the log-density of an action that went through tanh."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def oracle(u: list[list[float]], mean: list[list[float]], log_std: list[float]) -> list[float]:
    """1 - tanh(u)^2 = 4 / (e^u + e^-u)^2, with the larger exponential taken out."""
    result = []
    for actions, centres in zip(u, mean, strict=True):
        terms = []
        for x, m, s in zip(actions, centres, log_std, strict=True):
            terms.append(-((x - m) ** 2) / (2 * math.exp(2 * s)) - s - HALF_LOG_TAU)
            size = abs(x)
            terms.append(-math.log(4) + 2 * (size + math.log1p(math.exp(-2 * size))))
        result.append(math.fsum(terms))
    return result


def cases(draw: Draw) -> Case:
    """Actions of one to a few dimensions."""
    rows, dimensions = draw.dimension(), draw.dimension()
    inputs = {
        "u": draw.normal(rows, dimensions),
        "mean": draw.normal(rows, dimensions),
        "log_std": draw.normal(dimensions, scale=0.5),
    }
    return Case(f"{rows} × {dimensions}", inputs)


def edges() -> tuple[Case, ...]:
    """At 0, where tanh is the identity; far out on both sides; several dimensions."""

    def case(
        name: str, u: list[list[float]], mean: list[list[float]], log_std: list[float]
    ) -> Case:
        named = {"u": u, "mean": mean, "log_std": log_std}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()})

    return (
        case("at 0", [[0.0]], [[0.5]], [0.0]),
        case("one dimension", [[1.0]], [[0.0]], [0.0]),
        case("negative", [[-1.5]], [[0.2]], [-0.5]),
        case("two dimensions", [[0.5, -1.0]], [[0.0, 0.3]], [0.2, -0.3]),
        case("two rows", [[0.5, -1.0], [2.0, 0.1]], [[0.0, 0.3], [1.0, 0.0]], [0.2, -0.3]),
        case("at the mean, a hair", [[0.0]], [[0.0]], [-12.0]),
        case("at the mean, a plain", [[0.0]], [[0.0]], [12.0]),
        case("far out, where 1 - tanh² rounds to 0", [[10.0]], [[9.0]], [0.0]),
        case("less far out", [[-6.5]], [[-7.0]], [0.0]),
        case("far out", [[25.0]], [[24.0]], [0.0]),
        case("far out on the other side", [[-25.0]], [[-24.0]], [0.0]),
    )


CHECK = Check(
    id="robot.squash.1",
    outputs=(Output("logprobs", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "no correction",
            " - log_slope",
            "",
            "this is the density of u, not of tanh(u): where tanh squeezes, the density "
            "rises by one over its slope",
        ),
        edit(
            "correction added",
            "gaussian - log_slope",
            "gaussian + log_slope",
            "the logarithm of the slope is added: a slope below 1 squeezes the same "
            "probability into less room, so the density must rise; subtract it",
        ),
        edit(
            "Gaussian of the squashed action",
            "u - m",
            "u.tanh() - m",
            "the Gaussian is evaluated at tanh(u): it is u that was drawn from it",
        ),
        edit(
            "slope at the squashed action",
            "u - torch.nn.functional.softplus(-2 * u)",
            "u.tanh() - torch.nn.functional.softplus(-2 * u.tanh())",
            "the slope is taken at tanh(u), so tanh is applied twice: the slope belongs to u",
        ),
        edit(
            "log of zero",
            "2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))",
            "torch.log(1 - u.tanh() ** 2)",
            "far out 1 - tanh(u)² rounds to 0 and its logarithm is -inf: write it as 2 "
            "(log 2 - u - softplus(-2u))",
        ),
        edit(
            "a small number added",
            "2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))",
            "torch.log(1 - u.tanh() ** 2 + 1e-06)",
            "a small number inside the logarithm hides the infinity and gives another "
            "density far out: write the logarithm as 2 (log 2 - u - softplus(-2u))",
        ),
        edit(
            "slope clamped",
            "2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))",
            "(1 - u.tanh() ** 2).clamp(min=1e-7).log()",
            "far out the slope is clamped, at 1e-7 or so: the density stops falling "
            "there, and is another one; write the logarithm as 2 (log 2 - u - "
            "softplus(-2u))",
        ),
        edit(
            "log of the variance",
            "z =",
            "log_std = 0.5 * log_std\n    z =",
            "`log_std` is taken for the logarithm of the variance: the spread is "
            "exp(log_std), not its square root",
        ),
        edit(
            "square missing",
            "2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))",
            "torch.log(1 - u.tanh())",
            "the slope of tanh is 1 - tanh(u)²; the square is missing",
        ),
        edit(
            "half the correction",
            "2 * (math.log(2)",
            "(math.log(2)",
            "only half of the logarithm of the slope is taken",
        ),
        edit(
            "not summed",
            ".sum(dim=-1)",
            "",
            "one number a dimension is left: densities multiply, so sum the logarithms "
            "over the last axis",
        ),
        edit(
            "averaged",
            ".sum(dim=-1)",
            ".mean(dim=-1)",
            "the dimensions are averaged: logarithms of independent densities add",
        ),
    ),
    not_tested="the entropy, which has no closed form here.",
    gradient_to=("mean", "log_std"),
    wide=(
        "u",
        "mean",
    ),
)
