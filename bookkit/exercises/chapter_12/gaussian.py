"""ppo.gaussian.1: a continuous action of several dimensions."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


def gaussian_head(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    """Independent dimensions: densities multiply, so logarithms and entropies add."""
    z = (actions - mean) * torch.exp(-log_std)
    logprobs = (-0.5 * z**2 - log_std - HALF_LOG_TAU).sum(dim=-1)
    entropy = (0.5 + HALF_LOG_TAU + log_std).sum()
    return logprobs, entropy


def oracle(
    actions: list[list[float]], mean: list[list[float]], log_std: list[float]
) -> tuple[list[float], float]:
    """The logarithm of a product of densities, one dimension after the other."""
    logprobs = []
    for action, centre in zip(actions, mean, strict=True):
        terms = []
        for a, m, s in zip(action, centre, log_std, strict=True):
            variance = math.exp(2 * s)
            terms.append(-((a - m) ** 2) / (2 * variance) - 0.5 * math.log(2 * math.pi * variance))
        logprobs.append(math.fsum(terms))
    entropy = math.fsum(0.5 * math.log(2 * math.pi * math.e * math.exp(2 * s)) for s in log_std)
    return logprobs, entropy


def cases(draw: Draw) -> Case:
    """Actions of one to a few dimensions, narrow and wide."""
    rows, dimensions = draw.dimension(), draw.dimension()
    inputs = {
        "actions": draw.normal(rows, dimensions),
        "mean": draw.normal(rows, dimensions),
        "log_std": draw.normal(dimensions, scale=0.5),
    }
    return Case(f"{rows} × {dimensions}", inputs)


def edges() -> tuple[Case, ...]:
    """One dimension, at the mean, narrow, wide, two dimensions, more dimensions than rows."""

    def case(
        name: str, actions: list[list[float]], mean: list[list[float]], log_std: list[float]
    ) -> Case:
        named = {"actions": actions, "mean": mean, "log_std": log_std}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()})

    return (
        case("one dimension", [[1.0]], [[0.0]], [0.0]),
        case("at the mean", [[0.5]], [[0.5]], [0.0]),
        case("at the mean, narrow", [[0.5]], [[0.5]], [-2.0]),
        case("narrow", [[0.3]], [[0.2]], [-2.0]),
        case("wide", [[3.0]], [[-1.0]], [1.5]),
        case("two dimensions", [[1.0, -1.0]], [[0.0, 0.5]], [0.0, -0.5]),
        case("two rows", [[1.0, -1.0], [0.0, 2.0]], [[0.0, 0.5], [1.0, 1.0]], [0.3, -0.5]),
        case("three dimensions", [[1.0, 0.0, -1.0]], [[0.0, 0.0, 0.0]], [0.5, 0.5, 0.5]),
    )


def _terms(actions: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    z = (actions - mean) * torch.exp(-log_std)
    return -0.5 * z**2 - log_std - HALF_LOG_TAU


def _averaged(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    return _terms(actions, mean, log_std).mean(dim=-1), gaussian_head(actions, mean, log_std)[1]


def _not_summed(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    return _terms(actions, mean, log_std), gaussian_head(actions, mean, log_std)[1]


def _first_dimension(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    return _terms(actions, mean, log_std)[:, 0], gaussian_head(actions, mean, log_std)[1]


def _no_constant(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    terms = _terms(actions, mean, log_std) + HALF_LOG_TAU
    return terms.sum(dim=-1), gaussian_head(actions, mean, log_std)[1]


def _no_log_std(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    terms = _terms(actions, mean, log_std) + log_std
    return terms.sum(dim=-1), gaussian_head(actions, mean, log_std)[1]


def _sign_of_log_std(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    terms = _terms(actions, mean, log_std) + 2 * log_std
    return terms.sum(dim=-1), gaussian_head(actions, mean, log_std)[1]


def _variance(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    return gaussian_head(actions, mean, 0.5 * log_std)


def _no_half(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    z = (actions - mean) * torch.exp(-log_std)
    terms = -(z**2) - log_std - HALF_LOG_TAU
    return terms.sum(dim=-1), gaussian_head(actions, mean, log_std)[1]


def _entropy_averaged(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    logprobs, entropy = gaussian_head(actions, mean, log_std)
    return logprobs, entropy / log_std.shape[0]


def _entropy_of_spread(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    logprobs, _ = gaussian_head(actions, mean, log_std)
    return logprobs, (0.5 + HALF_LOG_TAU + log_std.exp()).sum()


def _entropy_without_half(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    logprobs, _ = gaussian_head(actions, mean, log_std)
    return logprobs, (HALF_LOG_TAU + log_std).sum()


def _entropy_per_row(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    logprobs, entropy = gaussian_head(actions, mean, log_std)
    return logprobs, entropy.expand(actions.shape[0]).clone()


def _entropy_negative(actions: Tensor, mean: Tensor, log_std: Tensor) -> Pair:
    logprobs, entropy = gaussian_head(actions, mean, log_std)
    return logprobs, -entropy


GAUSSIAN = Exercise(
    id="ppo.gaussian.1",
    title="A Gaussian policy",
    chapter=12,
    difficulty=2,
    minutes=20,
    goal=(
        "The log-density of each action under a Gaussian with independent dimensions, one number a "
        "row, and the entropy of the distribution, which here does not depend on the state."
    ),
    outputs=(Output("logprobs", "(B,)"), Output("entropy", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=gaussian_head,
    gradient_to=("mean", "log_std"),
    mutants=(
        Mutant(
            "averaged over the dimensions",
            _averaged,
            "the dimensions are averaged: densities of independent dimensions multiply, so their "
            "logarithms add. With the mean the ratio of PPO is a root of the true one",
        ),
        Mutant(
            "not summed",
            _not_summed,
            "one log-density a dimension is left: sum over the last axis. PPO would clip each "
            "dimension by itself, and (B, D) against (B,) broadcasts",
        ),
        Mutant(
            "first dimension only",
            _first_dimension,
            "only the first dimension counts: sum over all of them",
        ),
        Mutant(
            "constant missing",
            _no_constant,
            "½ log 2π is missing for each dimension: ratios do not notice, comparisons with a "
            "library do",
        ),
        Mutant(
            "log_std missing",
            _no_log_std,
            "the normalising term -log σ is missing: then a wide policy makes everything likely, "
            "and σ grows without end",
        ),
        Mutant(
            "log_std with the wrong sign",
            _sign_of_log_std,
            "log σ is added; a wider density is lower, so it is subtracted",
        ),
        Mutant(
            "standard deviation taken for the variance",
            _variance,
            "exp(log_std) is used as the variance; it is the standard deviation, so square it",
        ),
        Mutant(
            "the half missing",
            _no_half,
            "the square is not halved: the exponent is -½ ((a - μ)/σ)²",
        ),
        Mutant(
            "entropy averaged",
            _entropy_averaged,
            "the entropy is averaged over the dimensions; entropies of independent dimensions add",
        ),
        Mutant(
            "entropy of the spread",
            _entropy_of_spread,
            "the entropy holds σ where log σ belongs: it is ½ log(2πe) + log σ a dimension",
        ),
        Mutant(
            "half a nat missing",
            _entropy_without_half,
            "the entropy lacks ½ a dimension: ½ log(2πe) is ½ + ½ log 2π",
        ),
        Mutant(
            "entropy a row",
            _entropy_per_row,
            "the entropy has one entry a row; log_std does not depend on the state, so it is one "
            "number",
        ),
        Mutant(
            "entropy with the opposite sign",
            _entropy_negative,
            "the entropy has the opposite sign: a wide policy has a large entropy",
        ),
    ),
    not_tested="action bounds: clipping happens in the environment, and the density is unclipped.",
)
