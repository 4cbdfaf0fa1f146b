"""score.ess.1: how many samples the old ones are worth."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(log_target: list[float], log_behaviour: list[float]) -> float:
    """Compare every pair of samples; only ratios of weights enter."""
    log_weights = [t - b for t, b in zip(log_target, log_behaviour, strict=True)]
    top = max(log_weights)
    sum_of_products = math.fsum(
        math.exp(x - top) * math.exp(y - top) for x in log_weights for y in log_weights
    )
    return sum_of_products / math.fsum(math.exp(2 * (x - top)) for x in log_weights)


def cases(draw: Draw) -> Case:
    """Log-probabilities of whole texts: far below zero, not far apart."""
    n = draw.dimension()
    behaviour = -draw.uniform(1.0, 40.0, n)
    target = behaviour + draw.normal(n)
    return Case(f"{n} samples", {"log_target": target, "log_behaviour": behaviour})


def edges() -> tuple[Case, ...]:
    """Paper, one sample, equal policies, and weights beyond what a float can hold."""

    def case(name: str, target: list[float], behaviour: list[float]) -> Case:
        inputs = {"log_target": target, "log_behaviour": behaviour}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in inputs.items()})

    half, quarter = math.log(0.5), math.log(0.25)
    return (
        case("weights 1/2, 1, 2", [quarter, quarter, half], [half, quarter, quarter]),
        case("one sample", [-3.0], [-1.0]),
        case("the same policy", [-5.0, -6.0, -7.0, -8.0], [-5.0, -6.0, -7.0, -8.0]),
        case("four samples", [-10.0, -12.0, -9.0, -30.0], [-11.0, -11.5, -10.0, -29.0]),
        case("one weight rules", [-1.0, -50.0, -60.0], [-30.0, -30.0, -30.0]),
        case("twelve alike", [-2.0] * 12, [-3.0] * 12),
        case("one weight above all others", [1000.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        case("long texts", [-2000.0, -2001.0, -1999.5], [-2000.5, -2000.0, -2000.0]),
        case("weights that overflow", [-100.0, -101.0, -102.0], [-1100.0, -1100.0, -1100.0]),
        case("weights that underflow", [-1100.0, -1101.0, -1102.5], [-100.0, -100.0, -100.0]),
    )


CHECK = Check(
    id="score.ess.1",
    outputs=(Output("ess", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "weights overflow",
            "log_weights - log_weights.max()",
            "log_weights",
            "exp of a log-ratio of 1000 is inf, and of -1000 it is 0, so the quotient is "
            "nan: the size does not depend on the scale of the weights, so take off the "
            "largest log-weight",
        ),
        edit(
            "ratio of probabilities",
            "(log_weights - log_weights.max()).exp",
            "log_target.exp() / log_behaviour.exp",
            "the probabilities are formed before they are divided; that of a long text "
            "underflows to 0. Take the difference of the logarithms first",
        ),
        edit(
            "share of the samples",
            ".square().sum()",
            ".square().sum() / len(weights)",
            "this is the effective size divided by n: a share between 0 and 1. The size "
            "itself lies between 1 and n",
        ),
        edit(
            "ratio upside down",
            "log_target - log_behaviour",
            "(log_behaviour - log_target)",
            "the weights are upside down: a sample counts by target over behaviour, the "
            "policy that is asked about over the one that was sampled from",
        ),
        edit(
            "quotient upside down",
            "weights.sum().square() / weights.square().sum()",
            "(weights.square().sum() / weights.sum().square())",
            "the quotient is upside down: equal weights must give n, not 1/n",
        ),
        edit(
            "sum not squared",
            ".square() /",
            " /",
            "the sum in the numerator is not squared: the result then depends on the scale "
            "of the weights, which it must not",
        ),
        edit(
            "perplexity of the weights",
            "weights.sum().square() / weights.square().sum()",
            "torch.special.entr(weights / weights.sum()).sum().exp()",
            "this is exp of the entropy of the normalised weights, another measure of the "
            "same thing; asked for is the squared sum over the sum of squares",
        ),
        edits(
            "mean weight taken for 1",
            ("(log_weights - log_weights.max())", "log_weights"),
            (
                "weights.sum().square() / weights.square().sum()",
                "len(weights) / weights.square().mean()",
            ),
            message="n over the mean square is right only if the weights average to exactly 1; in "
            "a sample they do not, so divide by their own sum",
        ),
        edit(
            "log-ratio clamped",
            "log_target - log_behaviour",
            "(log_target - log_behaviour).clamp(-20.0, 20.0)",
            "the log-ratios are clamped: this hides exactly the weights that the measure is "
            "there to warn of",
        ),
        edit(
            "behaviour ignored",
            "log_target - log_behaviour",
            "log_target",
            "`log_behaviour` has no effect: the weight is the ratio of both policies",
        ),
    ),
    not_tested="whether the size measured tells the truth: weights never drawn are not in it.",
    wide=(
        "log_target",
        "log_behaviour",
    ),
)
