"""rlvr.aggregate.1: from losses of tokens to the loss of a batch, in three ways."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

MODES = ("token", "sequence", "constant")


def aggregate(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    """One number for a batch; a row without a token counts as a row of loss 0."""
    kept = torch.where(mask, per_token, 0.0)
    sums, lengths = kept.sum(1), mask.sum(1)
    if mode == "token":
        return sums.sum() / lengths.sum().clamp(min=1)
    if mode == "sequence":
        return (sums / lengths.clamp(min=1)).mean()
    return sums.sum() / (len(sums) * max_tokens)


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


def _other(mode: str, changed: str, into: str) -> str:
    return into if mode == changed else mode


def _means_for_tokens(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    return aggregate(per_token, mask, _other(mode, "token", "sequence"), max_tokens)


def _tokens_for_means(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    return aggregate(per_token, mask, _other(mode, "sequence", "token"), max_tokens)


def _product(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    return aggregate(per_token * mask, torch.ones_like(mask), "token", 1) * (
        _denominator(mask, mode, max_tokens)
    )


def _denominator(mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    """Used by a mutant that is right on clean numbers in two of the modes."""
    size = mask.numel()
    if mode == "constant":
        return torch.tensor(size / (mask.shape[0] * max_tokens))
    return size / mask.sum().clamp(min=1)


def _padded(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    kept = torch.where(mask, per_token, 0.0)
    if mode == "constant":
        return aggregate(per_token, mask, mode, max_tokens)
    return kept.mean()


def _no_rows(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    result = aggregate(per_token, mask, mode, max_tokens)
    return result * len(mask) if mode == "constant" else result


def _longest(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    return aggregate(per_token, mask, mode, mask.shape[1])


def _empty_excluded(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    if mode != "sequence":
        return aggregate(per_token, mask, mode, max_tokens)
    sums, lengths = torch.where(mask, per_token, 0.0).sum(1), mask.sum(1)
    return (sums / lengths.clamp(min=1)).sum() / (lengths > 0).sum().clamp(min=1)


def _nan_for_empty(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    kept = torch.where(mask, per_token, 0.0)
    sums, lengths = kept.sum(1), mask.sum(1)
    if mode == "token":
        return sums.sum() / lengths.sum()
    if mode == "sequence":
        return (sums / lengths).mean()
    return aggregate(per_token, mask, mode, max_tokens)


def _sum(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    if mode == "sequence":
        return aggregate(per_token, mask, mode, max_tokens) * len(mask)
    return aggregate(per_token, mask, mode, max_tokens)


def _padding_counted(per_token: Tensor, mask: Tensor, mode: str, max_tokens: int) -> Tensor:
    return aggregate(per_token, torch.ones_like(mask), mode, max_tokens)


AGGREGATE = Exercise(
    id="rlvr.aggregate.1",
    title="From tokens to a batch",
    chapter=23,
    difficulty=2,
    minutes=20,
    goal=(
        "The loss of a batch: the mean of all tokens (`token`), the mean over rows of the mean of "
        "each (`sequence`), or the sum over rows and tokens over rows times max_tokens "
        "(`constant`). Rows without a token count as rows; without any token the loss is 0."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=aggregate,
    gradient_to=("per_token",),
    mutants=(
        Mutant(
            "mean of means for `token`",
            _means_for_tokens,
            "`token` gives a mean of means: a token of a short row then weighs more than one of a "
            "long row; sum everything, divide by the number of tokens",
        ),
        Mutant(
            "one mean for `sequence`",
            _tokens_for_means,
            "`sequence` gives one mean of all tokens: here each row counts once, whatever its "
            "length",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan in the padding, and `sequence` is one mean: choose "
            "with `torch.where`, then go row by row",
        ),
        Mutant(
            "divided by the padded length",
            _padded,
            "the padding is divided by as well: the mean of a row is over its own tokens",
        ),
        Mutant(
            "number of rows forgotten",
            _no_rows,
            "`constant` forgets to divide by the number of rows: the step would grow with the "
            "batch",
        ),
        Mutant(
            "longest row for max_tokens",
            _longest,
            "`constant` divides by the longest row of this batch: the divisor is `max_tokens`, "
            "the same in every batch, which is its whole point",
        ),
        Mutant(
            "empty rows left out",
            _empty_excluded,
            "rows without a token are left out of the number of rows in `sequence`: here they "
            "count, with loss 0",
        ),
        Mutant(
            "nan for an empty row",
            _nan_for_empty,
            "a row (or a batch) without a token gives 0/0 = nan: clamp the divisor at 1",
        ),
        Mutant(
            "sum of rows",
            _sum,
            "`sequence` sums over the rows: take their mean",
        ),
        Mutant(
            "padding counted",
            _padding_counted,
            "the mask is never used: the padding enters the loss",
        ),
    ),
    not_tested="batches that are cut into parts, which must use the counts of the whole.",
)
