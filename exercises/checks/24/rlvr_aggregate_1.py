"""rlvr.aggregate.1: from losses of tokens to the loss of a batch, in three ways."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

MODES = ("token", "sequence", "constant")


def oracle(
    per_token: list[list[float]], mask: list[list[bool]], mode: str, max_tokens: int
) -> float:
    """Row by row."""
    rows = [
        [x for x, counts in zip(*pair, strict=True) if counts]
        for pair in zip(per_token, mask, strict=True)
    ]
    if mode == "token":
        together = [x for row in rows for x in row]
        return math.fsum(together) / len(together) if together else 0.0
    if mode == "sequence":
        return math.fsum(math.fsum(row) / len(row) if row else 0.0 for row in rows) / len(rows)
    return math.fsum(math.fsum(row) / max_tokens for row in rows) / len(rows)


def cases(draw: Draw) -> Case:
    """Rows of unequal length."""
    rows, columns = draw.dimension(), draw.dimension(2)
    inputs = {
        "per_token": draw.normal(rows, columns),
        "mask": draw.prefix_mask(rows, columns, shortest=0),
        "mode": draw.choice(MODES),
        "max_tokens": columns + draw.integer(1, 4),
    }
    return Case(f"{rows} × {columns}, {inputs['mode']}", inputs)


def edges() -> tuple[Case, ...]:
    """The hand example in each mode, an empty row, nothing at all, nan in the padding."""
    hand = [[1.0, 1.0, 1.0, 1.0], [3.0, 0.0, 0.0, 0.0]]

    def case(name: str, losses: list[list[float]], lengths: list[int], mode: str) -> Case:
        values = torch.tensor(losses, dtype=torch.float64)
        mask = torch.arange(values.shape[1]) < torch.tensor(lengths)[:, None]
        return Case(
            f"{name}, {mode}",
            {"per_token": values, "mask": mask, "mode": mode, "max_tokens": 5},
        )

    return tuple(
        case(name, losses, lengths, mode)
        for mode in MODES
        for name, losses, lengths in (
            ("by hand", hand, [4, 1]),
            ("a row without a token", hand, [4, 0]),
            ("no token", hand, [0, 0]),
            ("one row", hand[:1], [3]),
            ("nan in the padding", [[2.0, math.nan], [1.0, 5.0]], [1, 2]),
        )
    )


CHECK = Check(
    id="rlvr.aggregate.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "mean of means for `token`",
            "return sums.sum() / lengths.sum().clamp(min=1)",
            "return (sums / lengths.clamp(min=1)).mean()",
            "`token` gives a mean of means: a token of a short row then weighs more than "
            "one of a long row; sum everything, divide by the number of tokens",
        ),
        edit(
            "one mean for `sequence`",
            "return (sums / lengths.clamp(min=1)).mean()",
            "return sums.sum() / lengths.sum().clamp(min=1)",
            "`sequence` gives one mean of all tokens: here each row counts once, whatever "
            "its length",
        ),
        edits(
            "product with the mask",
            ("torch.where(mask, per_token, 0.0)", "(per_token * mask)"),
            (
                "return (sums / lengths.clamp(min=1)).mean()",
                "return sums.sum() / lengths.sum().clamp(min=1)",
            ),
            message="multiplying by the mask leaves nan in the padding, and `sequence` is one "
            "mean: choose with `torch.where`, then go row by row",
        ),
        edit(
            "divided by the padded length",
            '    if mode == "token":\n        return sums.sum() / lengths.sum().clamp(min=1)',
            '    if mode != "constant":\n        return torch.where(mask, per_token, 0.0).mean()',
            "the padding is divided by as well: the mean of a row is over its own tokens",
        ),
        edit(
            "number of rows forgotten",
            "(len(sums) * max_tokens)",
            "max_tokens",
            "`constant` forgets to divide by the number of rows: the step would grow with "
            "the batch",
        ),
        edit(
            "longest row for max_tokens",
            "len(sums) * max_tokens",
            "len(sums) * mask.shape[1]",
            "`constant` divides by the longest row of this batch: the divisor is "
            "`max_tokens`, the same in every batch, which is its whole point",
        ),
        edit(
            "empty rows left out",
            "return (sums / lengths.clamp(min=1)).mean()",
            "return (sums / lengths.clamp(min=1)).sum() / (lengths > 0).sum().clamp(min=1)",
            "rows without a token are left out of the number of rows in `sequence`: here "
            "they count, with loss 0",
        ),
        edits(
            "nan for an empty row",
            ("lengths.sum().clamp(min=1)", "lengths.sum()"),
            ("lengths.clamp(min=1)", "lengths"),
            message="a row (or a batch) without a token gives 0/0 = nan: clamp the divisor at 1",
        ),
        edit("sum of rows", ".mean()", ".sum()", "`sequence` sums over the rows: take their mean"),
        edit(
            "padding counted",
            "    sums = ",
            "    mask = torch.ones_like(mask)\n    sums = ",
            "the mask is never used: the padding enters the loss",
        ),
    ),
    not_tested="batches that are cut into parts, which must use the counts of the whole.",
    gradient_to=("per_token",),
    wide=("per_token",),
    holed=("mask",),
    special=(("max_tokens", 1.0),),
)
