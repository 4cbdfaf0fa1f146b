"""rlvr.ratio.1: one ratio for a whole sequence."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def sequence_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor) -> Tensor:
    """The geometric mean of the ratios of a row's tokens; 1 for a row without a token."""
    difference = torch.where(mask, logp - old_logp.detach(), 0.0)
    return (difference.sum(1) / mask.sum(1).clamp(min=1)).exp()


def oracle(
    logp: list[list[float]], old_logp: list[list[float]], mask: list[list[bool]]
) -> list[float]:
    """The root of the product."""
    result = []
    for row, old, counted in zip(logp, old_logp, mask, strict=True):
        product, count = 1.0, 0
        for now, then, counts in zip(row, old, counted, strict=True):
            if counts:
                product *= math.exp(now - then)
                count += 1
        result.append(product ** (1 / count) if count else 1.0)
    return result


def cases(draw: Draw) -> Case:
    """Ratios on both sides of 1, rows of unequal length."""
    rows, columns = draw.dimension(), draw.dimension()
    old = -draw.uniform(0.1, 2.5, rows, columns)
    inputs = {
        "logp": old + draw.uniform(-0.6, 0.6, rows, columns),
        "old_logp": old,
        "mask": draw.prefix_mask(rows, columns),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """By hand, padding, nan in the padding, an empty row, a row of one."""

    def case(name: str, ratios: list[list[float]], lengths: list[int]) -> Case:
        ratio = torch.tensor(ratios, dtype=torch.float64)
        old = torch.full_like(ratio, -1.5)
        mask = torch.arange(ratio.shape[1]) < torch.tensor(lengths)[:, None]
        return Case(name, {"logp": old + ratio.log(), "old_logp": old, "mask": mask})

    return (
        case("by hand", [[2.0, 8.0]], [2]),
        case("one token", [[1.5]], [1]),
        case("padding", [[2.0, 8.0, 5.0, 5.0]], [2]),
        case("two lengths", [[2.0, 0.5, 4.0], [0.25, 9.0, 9.0]], [3, 1]),
        case("nan in the padding", [[2.0, math.nan]], [1]),
        case("a row without a token", [[2.0, 2.0], [3.0, 3.0]], [2, 0]),
        case("below 1", [[0.5, 0.125]], [2]),
        case("unchanged", [[1.0, 1.0, 1.0]], [3]),
    )


def _difference(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, logp - old.detach(), 0.0)


def _product(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return _difference(logp, old, mask).sum(1).exp()


def _arithmetic(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    ratio = torch.where(mask, _difference(logp, old, mask).exp(), 0.0)
    mean = ratio.sum(1) / mask.sum(1).clamp(min=1)
    return torch.where(mask.any(1), mean, 1.0)


def _padded(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return _difference(logp, old, mask).mean(1).exp()


def _not_masked(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return (logp - old.detach()).mean(1).exp()


def _by_product(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    difference = (logp - old.detach()) * mask
    return (difference.sum(1) / mask.sum(1).clamp(min=1)).exp()


def _nan_for_empty(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return (_difference(logp, old, mask).sum(1) / mask.sum(1)).exp()


def _upside_down(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return 1 / sequence_ratio(logp, old, mask)


def _no_exp(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return _difference(logp, old, mask).sum(1) / mask.sum(1).clamp(min=1)


def _whole_batch(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    total = _difference(logp, old, mask).sum() / mask.sum().clamp(min=1)
    return total.exp().expand(len(mask)).clone()


def _attached(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    difference = torch.where(mask, logp - old, 0.0)
    return (difference.sum(1) / mask.sum(1).clamp(min=1)).exp()


RATIO = Exercise(
    id="rlvr.ratio.1",
    title="One ratio a sequence",
    chapter=23,
    difficulty=2,
    minutes=15,
    goal=(
        "GSPO's ratio: exp of the mean, over a row's own tokens, of the difference of the "
        "log-probabilities; 1 for a row without a token."
    ),
    outputs=(Output("ratio", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=sequence_ratio,
    gradient_to=("logp",),
    no_gradient_to=("old_logp",),
    mutants=(
        Mutant(
            "product",
            _product,
            "the differences are summed: the ratio is then a product over all tokens, which no "
            "clip can hold for a long text. Take their mean",
        ),
        Mutant(
            "mean of ratios",
            _arithmetic,
            "the ratios are averaged: average their logarithms, then exp (the geometric mean)",
        ),
        Mutant(
            "divided by the padded length",
            _padded,
            "it divides by the padded length: a short row next to a long one gets a ratio nearer "
            "to 1",
        ),
        Mutant(
            "not masked",
            _not_masked,
            "the mask is never used: the padding enters the ratio",
        ),
        Mutant(
            "masked by a product",
            _by_product,
            "multiplying by the mask leaves nan in the padding: choose with `torch.where`",
        ),
        Mutant(
            "nan for an empty row",
            _nan_for_empty,
            "a row without a token gives 0/0 = nan: clamp the divisor at 1, and exp(0) is 1",
        ),
        Mutant(
            "upside down",
            _upside_down,
            "the ratio is old over new; it is new over old",
        ),
        Mutant(
            "exp missing",
            _no_exp,
            "this is the mean of the differences: take exp of it",
        ),
        Mutant(
            "one for the batch",
            _whole_batch,
            "one ratio is made for the whole batch: each row has its own",
        ),
        Mutant(
            "old log-probabilities not detached",
            _attached,
            "the values are right, but a gradient reaches `old_logp`: they were noted while "
            "sampling, so detach them",
        ),
    ),
    not_tested="clipping, whose bounds must be far narrower here than for single tokens.",
)
