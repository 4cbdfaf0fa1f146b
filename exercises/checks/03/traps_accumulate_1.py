"""traps.accumulate.1: micro-batches that add up to the batch."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(per_token: list[list[list[float]]], mask: list[list[list[bool]]]) -> list[float]:
    """Count first, then add."""
    count = sum(flag for batch in mask for row in batch for flag in row)
    answer = []
    for batch, flags in zip(per_token, mask, strict=True):
        total = math.fsum(
            loss
            for row, row_flags in zip(batch, flags, strict=True)
            for loss, counts in zip(row, row_flags, strict=True)
            if counts
        )
        answer.append(total / count if count else 0.0)
    return answer


def cases(draw: Draw) -> Case:
    """A few micro-batches with rows of different length."""
    parts, rows, columns = draw.integer(1, 3), draw.integer(1, 3), draw.dimension()
    inputs = {
        "per_token": draw.normal(parts, rows, columns),
        "mask": draw.prefix_mask(parts * rows, columns).reshape(parts, rows, columns),
    }
    return Case(f"{parts} micro-batches of {rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Paper, unequal counts, an empty micro-batch, nothing at all, nan under the mask."""

    def case(name: str, per_token: list, mask: list) -> Case:
        values = torch.tensor(per_token, dtype=torch.float64)
        return Case(name, {"per_token": values, "mask": torch.tensor(mask).bool()})

    two = [[[1.0, 1.0, 1.0, 1.0]], [[3.0, 9.0, 9.0, 9.0]]]
    return (
        case("four tokens and one", two, [[[1, 1, 1, 1]], [[1, 0, 0, 0]]]),
        case("one micro-batch", two[:1], [[[1, 1, 0, 0]]]),
        case("an empty micro-batch", two, [[[1, 1, 1, 0]], [[0, 0, 0, 0]]]),
        case("nothing counts", two, [[[0, 0, 0, 0]], [[0, 0, 0, 0]]]),
        case(
            "rows of different length",
            [[[1.0, 2.0], [3.0, 0.0]], [[-1.0, 4.0], [0.5, 2.5]]],
            [[[1, 1], [1, 0]], [[1, 0], [1, 1]]],
        ),
        case("nan under the mask", [[[1.0, math.nan]], [[2.0, 4.0]]], [[[1, 0]], [[1, 1]]]),
    )


CHECK = Check(
    id="traps.accumulate.1",
    outputs=(Output("losses", "(M,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "mean of means",
            "sums / mask.sum().clamp(min=1)",
            "sums / mask.sum(dim=(1, 2)).clamp(min=1) / len(mask)",
            "each micro-batch is averaged by itself and the means are averaged: the tokens "
            "of a short micro-batch count more. Divide all sums by the one global count",
        ),
        edit(
            "local means",
            "().clamp(min=1)",
            "(dim=(1, 2)).clamp(min=1)",
            "each number is the mean of its own micro-batch: added up they are M times too "
            "large, and tokens count unequally",
        ),
        edit(
            "sums",
            " / mask.sum().clamp(min=1)",
            "",
            "the sums are not divided: divide by the number of counted tokens of the whole batch",
        ),
        edit(
            "all places",
            "mask.sum().clamp(min=1)",
            "mask.numel()",
            "the divisor is the number of all places, padding included: count the mask",
        ),
        edit(
            "divided twice",
            "sums / mask.sum().clamp(min=1)",
            "(sums / mask.sum().clamp(min=1)) / len(mask)",
            "the sums are divided by the global count and by the number of micro-batches as "
            "well: gradients of micro-batches add up, nothing averages them",
        ),
        edit(
            "product with the mask",
            "0.0",
            "per_token * mask",
            "multiplying by the mask does not remove nan (0 · nan is nan): choose with torch.where",
        ),
        edit(
            "nan where nothing counts",
            "min=1",
            "min=0",
            "a batch in which nothing counts gives 0/0: clamp the count to at least 1",
        ),
        edit(
            "the whole mean each time",
            "sums / mask.sum().clamp(min=1)",
            "(sums / mask.sum().clamp(min=1)).sum().expand(len(mask)).clone()",
            "every micro-batch gets the mean of the whole batch, so that backward runs M "
            "times over everything: each number may hold its own tokens only",
        ),
        edits(
            "means of rows",
            (".sum(dim=(1, 2))", ".sum(dim=2)"),
            (
                "sums / mask.sum().clamp(min=1)",
                "(sums / mask.sum(dim=2).clamp(min=1)).mean(dim=1) / len(mask)",
            ),
            message="each row is averaged over its own length, which is the mean of sequence "
            "means; the token mean gives every token the same weight",
        ),
        edit(
            "mask never used",
            "sums / mask.sum().clamp(min=1)",
            "per_token.sum(dim=(1, 2)) / per_token.numel()",
            "the mask is never used: padding counts as well",
        ),
    ),
    not_tested="several ranks, where the count must be summed over all of them first.",
    gradient_to=("per_token",),
    wide=("per_token",),
)
