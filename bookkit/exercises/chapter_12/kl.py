"""ppo.kl.1: how far an update has gone."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]
Estimate = Callable[[Tensor], Tensor]
Counts = Callable[[Tensor], Tensor]


def update_size(logprobs: Tensor, old_logprobs: Tensor, valid: Tensor, clip: float) -> Pair:
    """Mean of (ratio - 1) - log ratio, and the share of ratios outside the clip range."""
    log_ratio = (logprobs - old_logprobs)[valid]
    if log_ratio.numel() == 0:
        return logprobs.new_zeros(()), logprobs.new_zeros(())
    outside = (log_ratio.exp() - 1).abs() > clip
    return (torch.expm1(log_ratio) - log_ratio).mean(), outside.to(log_ratio.dtype).mean()


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


def _with_kl(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float, kl: Estimate) -> Pair:
    """The right share, and another estimate of the divergence; 0 where there is no row."""
    gap, fraction = (logprobs - old)[valid], update_size(logprobs, old, valid, clip)[1]
    return (kl(gap) if gap.numel() else gap.new_zeros(())), fraction


def _k1(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: -gap.mean())


def _k1_reversed(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: gap.mean())


def _k2(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: 0.5 * gap.square().mean())


def _reversed(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: (torch.expm1(-gap) + gap).mean())


def _one_missing(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: (gap.exp() - gap).mean())


def _sum(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_kl(logprobs, old, valid, clip, lambda gap: (torch.expm1(gap) - gap).sum())


def _dummies_counted(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return update_size(logprobs, old, torch.ones_like(valid), clip)


def _with_share(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float, which: Counts) -> Pair:
    """The right divergence, and the share of other log-ratios; 0 where there is no row."""
    kl, _ = update_size(logprobs, old, valid, clip)
    gap = (logprobs - old)[valid]
    return kl, (which(gap).to(gap.dtype).mean() if gap.numel() else gap.new_zeros(()))


def _above(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_share(logprobs, old, valid, clip, lambda gap: gap.exp() > 1 + clip)


def _below(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_share(logprobs, old, valid, clip, lambda gap: gap.exp() < 1 - clip)


def _logarithm(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_share(logprobs, old, valid, clip, lambda gap: gap.abs() > clip)


def _inside(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    return _with_share(logprobs, old, valid, clip, lambda gap: (gap.exp() - 1).abs() <= clip)


def _nan_for_none(logprobs: Tensor, old: Tensor, valid: Tensor, clip: float) -> Pair:
    gap = (logprobs - old)[valid]
    outside = (gap.exp() - 1).abs() > clip
    return (torch.expm1(gap) - gap).mean(), outside.to(gap.dtype).mean()


KL = Exercise(
    id="ppo.kl.1",
    title="How far an update has gone",
    chapter=12,
    difficulty=2,
    minutes=15,
    goal=(
        "Two numbers from the valid rows: the estimate mean((r - 1) - log r) of the KL divergence "
        "from the old policy to the new one, and the share of ratios outside 1 ± clip; 0 and 0 "
        "without a valid row."
    ),
    outputs=(
        Output("approximate KL", "(), in nats"),
        Output("clip fraction", "(), 0 to 1"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=update_size,
    mutants=(
        Mutant(
            "mean of minus the log-ratio",
            _k1,
            "this is the plain mean of old minus new log-probability: the same on average, but it "
            "is noisy and can be negative. Add ratio - 1, whose mean is 0",
        ),
        Mutant(
            "mean of the log-ratio",
            _k1_reversed,
            "this is the mean of new minus old log-probability, which has the opposite sign: the "
            "samples come from the old policy",
        ),
        Mutant(
            "half the square",
            _k2,
            "this is half the mean square of the log-ratio: close for small steps, biased for "
            "large ones, which are those that matter",
        ),
        Mutant(
            "ratio upside down",
            _reversed,
            "the ratio is old over new; with samples of the old policy it is new over old",
        ),
        Mutant(
            "the 1 missing",
            _one_missing,
            "it is 1 too large: an update that has not moved must have a divergence of 0",
        ),
        Mutant("sum", _sum, "the divergence is summed over the rows; take the mean"),
        Mutant(
            "dummy rows counted", _dummies_counted, "`valid` has no effect: dummy rows are counted"
        ),
        Mutant(
            "only above",
            _above,
            "only ratios above 1 + clip are counted; those below 1 - clip are outside as well",
        ),
        Mutant(
            "only below",
            _below,
            "only ratios below 1 - clip are counted; those above 1 + clip are outside as well",
        ),
        Mutant(
            "range of the logarithm",
            _logarithm,
            "the log-ratio is compared with clip; the range belongs to the ratio itself",
        ),
        Mutant(
            "share inside",
            _inside,
            "this is the share inside the range: 1 minus it is asked for",
        ),
        Mutant(
            "nan for no row",
            _nan_for_none,
            "the mean of nothing is nan: without a valid row return two zeros",
        ),
    ),
    not_tested=(
        "which of these ratios the loss really cuts: that depends on the sign of the advantage too."
    ),
)
