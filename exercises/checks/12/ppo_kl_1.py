"""ppo.kl.1: how far an update has gone."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    logprobs: list[float], old_logprobs: list[float], valid: list[bool], clip: float
) -> tuple[float, float]:
    """One action after the other."""
    gaps = [
        new - old for new, old, counts in zip(logprobs, old_logprobs, valid, strict=True) if counts
    ]
    if not gaps:
        return 0.0, 0.0
    kl = math.fsum(math.exp(gap) - 1.0 - gap for gap in gaps) / len(gaps)
    outside = sum(1 for gap in gaps if not 1 - clip <= math.exp(gap) <= 1 + clip)
    return kl, outside / len(gaps)


def cases(draw: Draw) -> Case:
    """Gaps whose ratios are well inside or outside the range."""
    n = draw.dimension(2)
    old = -draw.uniform(0.1, 2.5, n)
    ratio = torch.tensor([draw.choice([0.4, 0.7, 0.9, 1.0, 1.05, 1.35, 2.0]) for _ in range(n)])
    inputs = {
        "logprobs": old + ratio.double().log(),
        "old_logprobs": old,
        "valid": draw.holed_mask(1, n)[0],
        "clip": draw.choice([0.2, 0.5]),
    }
    return Case(f"{n} actions", inputs)


def edges() -> tuple[Case, ...]:
    """Nothing moved, one side, the other side, dummy rows, no row."""

    def case(name: str, ratios: list[float], valid: str = "", clip: float = 0.2) -> Case:
        old = torch.tensor([-1.0, -0.5, -2.0, -0.7][: len(ratios)], dtype=torch.float64)
        inputs = {
            "logprobs": old + torch.tensor(ratios, dtype=torch.float64).log(),
            "old_logprobs": old,
            "valid": torch.tensor([letter == "1" for letter in valid or "1" * len(ratios)]),
            "clip": clip,
        }
        return Case(name, inputs)

    return (
        case("nothing has moved", [1.0, 1.0]),
        case("likelier", [2.0]),
        case("rarer", [0.5]),
        case("both ways", [2.0, 0.5]),
        case("one in four outside", [1.1, 0.95, 1.5, 1.0]),
        case("one in four outside, below", [1.1, 0.95, 0.5, 1.0]),
        case("a wide clip", [1.4, 0.7, 1.1], clip=0.5),
        case("a dummy row", [1.1, 4.0, 0.9], "101"),
        case("nan on a dummy row", [1.1, math.nan, 0.7], "101"),
        case("no row", [1.1, 4.0], "00"),
        case("inside the range in probability, outside in its logarithm", [0.81, 1.0]),
    )


CHECK = Check(
    id="ppo.kl.1",
    outputs=(
        Output("approximate KL", "(), in nats"),
        Output("clip fraction", "(), 0 to 1"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "mean of minus the log-ratio",
            "(torch.expm1(log_ratio) - log_ratio)",
            "(-log_ratio)",
            "this is the plain mean of old minus new log-probability: the same on "
            "average, but it is noisy and can be negative. Add ratio - 1, whose mean is 0",
        ),
        edit(
            "mean of the log-ratio",
            "torch.expm1(log_ratio) - log_ratio",
            "log_ratio",
            "this is the mean of new minus old log-probability, which has the opposite "
            "sign: the samples come from the old policy",
        ),
        edit(
            "half the square",
            "(torch.expm1(log_ratio) - log_ratio)",
            "(0.5 * log_ratio.square())",
            "this is half the mean square of the log-ratio: close for small steps, biased "
            "for large ones, which are those that matter",
        ),
        edit(
            "ratio upside down",
            "(torch.expm1(log_ratio) - log_ratio)",
            "(torch.expm1(-log_ratio) + log_ratio)",
            "the ratio is old over new; with samples of the old policy it is new over old",
        ),
        edit(
            "the 1 missing",
            "expm1",
            "exp",
            "it is 1 too large: an update that has not moved must have a divergence of 0",
        ),
        edit("sum", "mean(),", "sum(),", "the divergence is summed over the rows; take the mean"),
        edit(
            "dummy rows counted",
            "[valid]",
            "[torch.ones_like(valid)]",
            "`valid` has no effect: dummy rows are counted",
        ),
        edit(
            "only above",
            ".abs()",
            "",
            "only ratios above 1 + clip are counted; those below 1 - clip are outside as well",
        ),
        edit(
            "only below",
            "(log_ratio.exp() - 1).abs() > clip",
            "log_ratio.exp() < 1 - clip",
            "only ratios below 1 - clip are counted; those above 1 + clip are outside as well",
        ),
        edit(
            "range of the logarithm",
            "(log_ratio.exp() - 1).abs()",
            "log_ratio.abs()",
            "the log-ratio is compared with clip; the range belongs to the ratio itself",
        ),
        edit(
            "share inside",
            "> c",
            "< c",
            "this is the share inside the range: 1 minus it is asked for",
        ),
        edit(
            "nan for no row",
            "0",
            "(-1)",
            "the mean of nothing is nan: without a valid row return two zeros",
        ),
    ),
    not_tested=(
        "which of these ratios the loss really cuts: that depends on the sign of the advantage too."
    ),
    wide=(
        "logprobs",
        "old_logprobs",
    ),
    special=(
        ("clip", 0.0),
        ("clip", 1.0),
    ),
)
