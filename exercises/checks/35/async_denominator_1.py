"""async.denominator.1: the count below must be that of what is summed above."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    losses: list[list[float]],
    mask: list[list[bool]],
    versions: list[list[int]],
    version: int,
    bound: int,
    rows: int,
) -> list[float]:
    """Write down what counts, token by token, with the micro-batch of its row."""
    counted = [
        (row // rows, losses[row][place])
        for row in range(len(losses))
        for place in range(len(losses[row]))
        if mask[row][place] and versions[row][place] >= version - bound
    ]
    number = len(range(0, len(losses), rows))
    share = 1 / max(1, len(counted))
    return [math.fsum(share * x for part, x in counted if part == k) for k in range(number)]


def cases(draw: Draw) -> Case:
    """Rows whose versions rise from left to right, masks with holes, micro-batches with a rest."""
    rows, columns = draw.dimension(), draw.dimension()
    version, bound = draw.integer(1, 5), draw.integer(0, 2)
    begun = draw.integers(max(0, version - bound - 2), version, rows, 1)
    grown = draw.integers(0, 1, rows, columns).cumsum(1)
    inputs = {
        "losses": draw.normal(rows, columns),
        "mask": draw.holed_mask(rows, columns),
        "versions": (begun + grown).clamp(max=version),
        "version": version,
        "bound": bound,
        "rows": draw.integer(1, 3),
    }
    return Case(f"{rows} × {columns}, {inputs['rows']} rows at a time", inputs)


def edges() -> tuple[Case, ...]:
    """Nothing stale, some, all; holes and stale tokens in one row; a smaller last micro-batch."""

    def case(
        name: str,
        losses: list[list[float]],
        mask: list[list[int]],
        versions: list[list[int]],
        rows: int = 1,
        bound: int = 1,
        version: int = 4,
    ) -> Case:
        inputs = {
            "losses": torch.tensor(losses, dtype=torch.float64),
            "mask": torch.tensor(mask).bool(),
            "versions": torch.tensor(versions),
            "version": version,
            "bound": bound,
            "rows": rows,
        }
        return Case(name, inputs)

    three = [[1.0, 2.0, 4.0], [8.0, 5.0, 7.0], [3.0, 6.0, 9.0]]
    return (
        case("one token", [[3.0]], [[1]], [[4]]),
        case("one token, too stale", [[3.0]], [[1]], [[2]]),
        case("the hand example", [[2.0, 4.0], [6.0, 8.0]], [[1, 1], [1, 1]], [[3, 3], [3, 1]]),
        case("nothing stale, a hole", [[2.0, 4.0, 7.0]], [[1, 0, 1]], [[3, 3, 4]]),
        case("a stale beginning", [[2.0, 4.0, 8.0]], [[1, 1, 1]], [[2, 3, 4]]),
        case("as old as the bound", [[2.0, 4.0]], [[1, 1]], [[3, 4]]),
        case("bound 0", [[2.0, 4.0], [6.0, 1.0]], [[1, 1], [1, 1]], [[3, 4], [4, 4]], bound=0),
        case("the first version", [[2.0, 4.0]], [[1, 1]], [[0, 0]], bound=0, version=0),
        case("two rows together", three[:2], [[1, 1, 0], [1, 1, 1]], [[3, 4, 4], [2, 2, 3]], 2),
        case("a smaller last part", three, [[1, 1, 1], [1, 0, 1], [1, 1, 0]],
             [[2, 3, 3], [4, 4, 4], [1, 3, 4]], 2),
        case("a part without a token", three, [[1, 1, 1], [1, 1, 1], [0, 1, 1]],
             [[3, 3, 4], [1, 1, 2], [4, 4, 4]]),
        case("more rows than there are", three[:2], [[1, 1, 1], [0, 1, 1]],
             [[3, 2, 4], [3, 3, 4]], 5),
        case("a hole that is stale too", [[2.0, 4.0, 8.0, 1.0]], [[0, 1, 1, 0]], [[1, 2, 3, 4]]),
        case("nothing left", [[2.0, 4.0], [1.0, 3.0]], [[1, 0], [1, 1]], [[1, 4], [2, 2]]),
        case("nan in a hole", [[2.0, math.nan, 5.0]], [[1, 0, 1]], [[3, 3, 4]]),
        case("nan in a stale token", [[math.nan, 4.0, 5.0]], [[1, 1, 1]], [[1, 3, 4]]),
    )  # fmt: skip


COUNTS = "mask & (version - versions <= bound)"
MEAN = "sums / counts.sum().clamp(min=1)"
SUMS = "torch.stack([part.sum() for part in kept.split(rows)])"

CHECK = Check(
    id="async.denominator.1",
    outputs=(Output("parts", "(M,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "counted before stale tokens go",
            "counts.sum()",
            "mask.sum()",
            "the denominator still counts the stale tokens: the loss shrinks with their share, "
            "as in the function that was handed in. Count after they are masked",
        ),
        edit(
            "a mean of means",
            MEAN,
            "sums / torch.stack([c.sum() for c in counts.split(rows)]).clamp(min=1) / len(sums)",
            "each micro-batch divides by its own count, and they are averaged: tokens of a "
            "micro-batch with few of them weigh more. Divide by the count of the whole step",
        ),
        edit(
            "a sum of means",
            MEAN,
            "sums / torch.stack([c.sum() for c in counts.split(rows)]).clamp(min=1)",
            "each micro-batch divides by its own count: their sum grows with the number of "
            "micro-batches. Divide by the count of the whole step",
        ),
        edit(
            "divided by the micro-batches once more",
            MEAN,
            f"{MEAN} / len(sums)",
            "it is divided by the number of micro-batches as well: the parts are added up, and "
            "the count is already that of the step",
        ),
        edit(
            "all places",
            "counts.sum()",
            "torch.ones_like(mask).sum()",
            "the denominator is the number of all places, padding among them",
        ),
        edit(
            "stale tokens count",
            COUNTS,
            "mask.clone()",
            "`bound` is never used: tokens that are too stale are in the sum",
        ),
        edit(
            "the mask is not used",
            COUNTS,
            "version - versions <= bound",
            "`mask` is never used: what is fresh counts, padding among it",
        ),
        edit(
            "stale at the bound",
            "versions <= bound",
            "versions < bound",
            "a token exactly `bound` versions old is masked out; it is still allowed",
        ),
        edit(
            "judged by the first token",
            "version - versions <= bound",
            "version - versions[:, :1] <= bound",
            "a row is judged by its first token: weights change in flight, and the tokens behind "
            "may be fresh",
        ),
        edit(
            "judged by the last token",
            "version - versions <= bound",
            "version - versions[:, -1:] <= bound",
            "a row is judged by its last token, so that the stale ones before it count",
        ),
        edit(
            "the whole row goes",
            "(version - versions <= bound)",
            "((version - versions <= bound) | ~mask).all(1, keepdim=True)",
            "a whole row is left out where one of its tokens is too stale; its other tokens count",
        ),
        edit(
            "nothing by nothing",
            ".clamp(min=1)",
            "",
            "a step without any token left gives 0 / 0, which is nan: divide by at least 1",
        ),
        edit(
            "product with the mask",
            "torch.where(counts, losses, 0.0)",
            "(losses * counts)",
            "multiplying by the mask leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
        edit(
            "the rest is left out",
            SUMS,
            "torch.stack([part.sum() if len(part) == rows or len(kept) < rows else part.sum() * 0 "
            "for part in kept.split(rows)])",
            "the last micro-batch is empty where it has fewer rows than the others; its "
            "tokens are in the count, so they must be in a sum",
        ),
        edit(
            "one number",
            SUMS,
            "torch.stack([part.sum() for part in kept.split(rows)]).sum()",
            "the parts were added up already: each micro-batch needs its own, to call `backward` "
            "on",
        ),
        edit(
            "no gradient",
            "    kept =",
            "    losses = losses.detach()\n    kept =",
            "the values are right, but no gradient reaches `losses`",
        ),
    ),
    not_tested="several ranks, where the count is that of all of them.",
    gradient_to=("losses",),
    wide=("losses",),
    holed=("mask",),
    special=(
        ("mask", False),
        ("mask", True),
        ("version", 0.0),
        ("version", 1.0),
        ("bound", 0.0),
        ("bound", 1.0),
        ("rows", 1.0),
    ),
)
