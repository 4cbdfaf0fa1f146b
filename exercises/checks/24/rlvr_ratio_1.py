"""rlvr.ratio.1: one ratio for a whole sequence."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="rlvr.ratio.1",
    outputs=(Output("ratio", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "product",
            " / mask.sum(1).clamp(min=1)",
            "",
            "the differences are summed: the ratio is then a product over all tokens, "
            "which no clip can hold for a long text. Take their mean",
        ),
        edit(
            "mean of ratios",
            "(difference.sum(1) / mask.sum(1).clamp(min=1)).exp()",
            "torch.where(\n"
            "        mask.any(1),\n"
            "        torch.where(mask, difference.exp(), 0.0).sum(1) / "
            "mask.sum(1).clamp(min=1),\n"
            "        1.0,\n"
            "    )",
            "the ratios are averaged: average their logarithms, then exp (the geometric mean)",
        ),
        edit(
            "divided by the padded length",
            "(difference.sum(1) / mask.sum(1).clamp(min=1))",
            "difference.mean(1)",
            "it divides by the padded length: a short row next to a long one gets a ratio "
            "nearer to 1",
        ),
        edits(
            "not masked",
            ("torch.where(mask, logp - old_logp.detach(), 0.0)", "logp - old_logp.detach()"),
            ("(difference.sum(1) / mask.sum(1).clamp(min=1))", "difference.mean(1)"),
            message="the mask is never used: the padding enters the ratio",
        ),
        edit(
            "masked by a product",
            "torch.where(mask, logp - old_logp.detach(), 0.0)",
            "(logp - old_logp.detach()) * mask",
            "multiplying by the mask leaves nan in the padding: choose with `torch.where`",
        ),
        edit(
            "nan for an empty row",
            ".clamp(min=1)",
            "",
            "a row without a token gives 0/0 = nan: clamp the divisor at 1, and exp(0) is 1",
        ),
        edit(
            "upside down",
            "(difference.sum",
            "(-difference.sum",
            "the ratio is old over new; it is new over old",
        ),
        edit("exp missing", ".exp()", "", "this is the mean of the differences: take exp of it"),
        edit(
            "one for the batch",
            "(difference.sum(1) / mask.sum(1).clamp(min=1)).exp()",
            "(difference.sum() / mask.sum().clamp(min=1)).exp().repeat(len(mask))",
            "one ratio is made for the whole batch: each row has its own",
        ),
        edit(
            "old log-probabilities not detached",
            "old_logp.detach()",
            "old_logp",
            "the values are right, but a gradient reaches `old_logp`: they were noted "
            "while sampling, so detach them",
        ),
    ),
    not_tested="clipping, whose bounds must be far narrower here than for single tokens.",
    gradient_to=("logp",),
    no_gradient_to=("old_logp",),
    wide=(
        "logp",
        "old_logp",
    ),
    holed=("mask",),
    special=(("mask", False),),
)
