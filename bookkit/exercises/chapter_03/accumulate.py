"""traps.accumulate.1: micro-batches that add up to the batch."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def micro_batch_losses(per_token: Tensor, mask: Tensor) -> Tensor:
    """Each micro-batch's sum over the number of counted tokens of them all."""
    sums = torch.where(mask, per_token, 0.0).sum(dim=(1, 2))
    return sums / mask.sum().clamp(min=1)


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


def _sums(per_token: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, per_token, 0.0).sum(dim=(1, 2))


def _mean_of_means(per_token: Tensor, mask: Tensor) -> Tensor:
    return _sums(per_token, mask) / mask.sum(dim=(1, 2)).clamp(min=1) / len(mask)


def _local_means(per_token: Tensor, mask: Tensor) -> Tensor:
    return _sums(per_token, mask) / mask.sum(dim=(1, 2)).clamp(min=1)


def _plain_sums(per_token: Tensor, mask: Tensor) -> Tensor:
    return _sums(per_token, mask)


def _all_places(per_token: Tensor, mask: Tensor) -> Tensor:
    return _sums(per_token, mask) / mask.numel()


def _twice(per_token: Tensor, mask: Tensor) -> Tensor:
    return micro_batch_losses(per_token, mask) / len(mask)


def _product(per_token: Tensor, mask: Tensor) -> Tensor:
    return (per_token * mask).sum(dim=(1, 2)) / mask.sum().clamp(min=1)


def _nan_if_empty(per_token: Tensor, mask: Tensor) -> Tensor:
    return _sums(per_token, mask) / mask.sum()


def _whole_each_time(per_token: Tensor, mask: Tensor) -> Tensor:
    return micro_batch_losses(per_token, mask).sum().expand(len(mask)).clone()


def _row_means(per_token: Tensor, mask: Tensor) -> Tensor:
    rows = torch.where(mask, per_token, 0.0).sum(2) / mask.sum(2).clamp(min=1)
    return rows.sum(1) / (mask.shape[0] * mask.shape[1])


def _no_mask(per_token: Tensor, mask: Tensor) -> Tensor:
    return per_token.sum(dim=(1, 2)) / per_token.numel()


ACCUMULATE = Exercise(
    id="traps.accumulate.1",
    title="Micro-batches that add up",
    chapter=3,
    difficulty=2,
    minutes=15,
    goal=(
        "For each of M micro-batches the number to call backward on, so that together they are "
        "the mean over all counted tokens of the whole batch."
    ),
    outputs=(Output("losses", "(M,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=micro_batch_losses,
    gradient_to=("per_token",),
    mutants=(
        Mutant(
            "mean of means",
            _mean_of_means,
            "each micro-batch is averaged by itself and the means are averaged: the tokens of a "
            "short micro-batch count more. Divide all sums by the one global count",
        ),
        Mutant(
            "local means",
            _local_means,
            "each number is the mean of its own micro-batch: added up they are M times too large, "
            "and tokens count unequally",
        ),
        Mutant(
            "sums",
            _plain_sums,
            "the sums are not divided: divide by the number of counted tokens of the whole batch",
        ),
        Mutant(
            "all places",
            _all_places,
            "the divisor is the number of all places, padding included: count the mask",
        ),
        Mutant(
            "divided twice",
            _twice,
            "the sums are divided by the global count and by the number of micro-batches as well: "
            "gradients of micro-batches add up, nothing averages them",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask does not remove nan (0 · nan is nan): choose with torch.where",
        ),
        Mutant(
            "nan where nothing counts",
            _nan_if_empty,
            "a batch in which nothing counts gives 0/0: clamp the count to at least 1",
        ),
        Mutant(
            "the whole mean each time",
            _whole_each_time,
            "every micro-batch gets the mean of the whole batch, so that backward runs M times "
            "over everything: each number may hold its own tokens only",
        ),
        Mutant(
            "means of rows",
            _row_means,
            "each row is averaged over its own length, which is the mean of sequence means; the "
            "token mean gives every token the same weight",
        ),
        Mutant("mask never used", _no_mask, "the mask is never used: padding counts as well"),
    ),
    not_tested="several ranks, where the count must be summed over all of them first.",
)
