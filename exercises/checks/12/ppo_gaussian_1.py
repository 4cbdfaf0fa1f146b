"""ppo.gaussian.1: a continuous action of several dimensions."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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
        case("at the mean, a hair", [[0.5]], [[0.5]], [-12.0]),
        case("at the mean, a plain", [[0.5]], [[0.5]], [12.0]),
        case("narrow", [[0.3]], [[0.2]], [-2.0]),
        case("wide", [[3.0]], [[-1.0]], [1.5]),
        case("two dimensions", [[1.0, -1.0]], [[0.0, 0.5]], [0.0, -0.5]),
        case("two rows", [[1.0, -1.0], [0.0, 2.0]], [[0.0, 0.5], [1.0, 1.0]], [0.3, -0.5]),
        case("three dimensions", [[1.0, 0.0, -1.0]], [[0.0, 0.0, 0.0]], [0.5, 0.5, 0.5]),
    )


CHECK = Check(
    id="ppo.gaussian.1",
    outputs=(Output("logprobs", "(B,)"), Output("entropy", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "averaged over the dimensions",
            "sum(dim=-1)",
            "mean(dim=-1)",
            "the dimensions are averaged: densities of independent dimensions multiply, "
            "so their logarithms add. With the mean the ratio of PPO is a root of the "
            "true one",
        ),
        edit(
            "not summed",
            "(-0.5 * z**2 - log_std - half_log_tau).sum(dim=-1)",
            "-0.5 * z**2 - log_std - half_log_tau",
            "one log-density a dimension is left: sum over the last axis. PPO would clip "
            "each dimension by itself, and (B, D) against (B,) broadcasts",
        ),
        edit(
            "first dimension only",
            ".sum(dim=-1)",
            "[:, 0]",
            "only the first dimension counts: sum over all of them",
        ),
        edit(
            "constant missing",
            "log_std - half_log_tau",
            "log_std",
            "½ log 2π is missing for each dimension: ratios do not notice, comparisons "
            "with a library do",
        ),
        edit(
            "log_std missing",
            "-0.5 * z**2 - log_std",
            "(-0.5 * z**2)",
            "the normalising term -log σ is missing: then a wide policy makes everything "
            "likely, and σ grows without end",
        ),
        edit(
            "log_std with the wrong sign",
            "-0.5 * z**2 - log_std",
            "(-0.5 * z**2 + log_std)",
            "log σ is added; a wider density is lower, so it is subtracted",
        ),
        edit(
            "standard deviation taken for the variance",
            "half_log_tau =",
            "log_std = 0.5 * log_std\n    half_log_tau =",
            "exp(log_std) is used as the variance; it is the standard deviation, so square it",
        ),
        edit(
            "the half missing",
            "-0.5",
            "-1",
            "the square is not halved: the exponent is -½ ((a - μ)/σ)²",
        ),
        edit(
            "entropy averaged",
            "sum()",
            "mean()",
            "the entropy is averaged over the dimensions; entropies of independent dimensions add",
        ),
        edit(
            "entropy of the spread",
            "+ log_std",
            "+ log_std.exp()",
            "the entropy holds σ where log σ belongs: it is ½ log(2πe) + log σ a dimension",
        ),
        edit(
            "half a nat missing",
            "0.5 +",
            "0 +",
            "the entropy lacks ½ a dimension: ½ log(2πe) is ½ + ½ log 2π",
        ),
        edit(
            "entropy a row",
            ".sum()\n",
            ".sum().repeat(len(actions))\n",
            "the entropy has one entry a row; log_std does not depend on the state, so it "
            "is one number",
        ),
        edit(
            "entropy with the opposite sign",
            "logprobs, ",
            "logprobs, -",
            "the entropy has the opposite sign: a wide policy has a large entropy",
        ),
    ),
    not_tested="action bounds: clipping happens in the environment, and the density is unclipped.",
    gradient_to=("mean", "log_std"),
    wide=(
        "actions",
        "mean",
    ),
)
