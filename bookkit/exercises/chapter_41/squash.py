"""robot.squash.1: the log-density of an action that went through tanh."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def _normal(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    z = (u - mean) * torch.exp(-log_std)
    return -0.5 * z**2 - log_std - HALF_LOG_TAU


def _log_slope(u: Tensor) -> Tensor:
    return 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))


def squashed_logprob(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """The density of u over the slope of tanh at u, in logarithms and summed."""
    return (_normal(u, mean, log_std) - _log_slope(u)).sum(dim=-1)


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
        case("far out", [[25.0]], [[24.0]], [0.0]),
        case("far out on the other side", [[-25.0]], [[-24.0]], [0.0]),
    )


def _no_correction(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return _normal(u, mean, log_std).sum(dim=-1)


def _added(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) + _log_slope(u)).sum(dim=-1)


def _of_the_action(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u.tanh(), mean, log_std) - _log_slope(u)).sum(dim=-1)


def _slope_at_action(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - _log_slope(u.tanh())).sum(dim=-1)


def _naive(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - torch.log(1 - u.tanh() ** 2)).sum(dim=-1)


def _epsilon(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - torch.log(1 - u.tanh() ** 2 + 1e-6)).sum(dim=-1)


def _clamped(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    slope = (1 - u.tanh() ** 2).clamp(min=1e-7)
    return (_normal(u, mean, log_std) - slope.log()).sum(dim=-1)


def _log_variance(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return squashed_logprob(u, mean, 0.5 * log_std)


def _not_squared(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - torch.log(1 - u.tanh())).sum(dim=-1)


def _half(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - 0.5 * _log_slope(u)).sum(dim=-1)


def _not_summed(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return _normal(u, mean, log_std) - _log_slope(u)


def _averaged(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return (_normal(u, mean, log_std) - _log_slope(u)).mean(dim=-1)


SQUASH = Exercise(
    id="robot.squash.1",
    title="A density through tanh",
    chapter=41,
    difficulty=3,
    minutes=25,
    goal=(
        "The log-density of the action tanh(u) of each row, where u is Gaussian with independent "
        "dimensions; right also where tanh(u) rounds to 1."
    ),
    outputs=(Output("logprobs", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=squashed_logprob,
    gradient_to=("mean", "log_std"),
    mutants=(
        Mutant(
            "no correction",
            _no_correction,
            "this is the density of u, not of tanh(u): where tanh squeezes, the density rises by "
            "one over its slope",
        ),
        Mutant(
            "correction added",
            _added,
            "the logarithm of the slope is added: a slope below 1 squeezes the same probability "
            "into less room, so the density must rise; subtract it",
        ),
        Mutant(
            "Gaussian of the squashed action",
            _of_the_action,
            "the Gaussian is evaluated at tanh(u): it is u that was drawn from it",
        ),
        Mutant(
            "slope at the squashed action",
            _slope_at_action,
            "the slope is taken at tanh(u), so tanh is applied twice: the slope belongs to u",
        ),
        Mutant(
            "log of zero",
            _naive,
            "far out 1 - tanh(u)² rounds to 0 and its logarithm is -inf: write it as "
            "2 (log 2 - u - softplus(-2u))",
        ),
        Mutant(
            "a small number added",
            _epsilon,
            "a small number inside the logarithm hides the infinity and gives another density far "
            "out: write the logarithm as 2 (log 2 - u - softplus(-2u))",
        ),
        Mutant(
            "slope clamped",
            _clamped,
            "far out the slope is clamped, at 1e-7 or so: the density stops falling there, and is "
            "another one; write the logarithm as 2 (log 2 - u - softplus(-2u))",
        ),
        Mutant(
            "log of the variance",
            _log_variance,
            "`log_std` is taken for the logarithm of the variance: the spread is exp(log_std), not "
            "its square root",
        ),
        Mutant(
            "square missing",
            _not_squared,
            "the slope of tanh is 1 - tanh(u)²; the square is missing",
        ),
        Mutant("half the correction", _half, "only half of the logarithm of the slope is taken"),
        Mutant(
            "not summed",
            _not_summed,
            "one number a dimension is left: densities multiply, so sum the logarithms over the "
            "last axis",
        ),
        Mutant(
            "averaged",
            _averaged,
            "the dimensions are averaged: logarithms of independent densities add",
        ),
    ),
    not_tested="the entropy, which has no closed form here.",
)
