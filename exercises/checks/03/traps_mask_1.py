"""traps.mask.1: a masked mean of ratios that is right forwards and backwards."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(new: list[list[float]], old: list[list[float]], mask: list[list[bool]]) -> float:
    """Look only at what counts."""
    ratios = [
        math.exp(a - b)
        for rows in zip(new, old, mask, strict=True)
        for a, b, counts in zip(*rows, strict=True)
        if counts
    ]
    return math.fsum(ratios) / len(ratios) if ratios else 0.0


def cases(draw: Draw) -> Case:
    """Masks with holes; log-probabilities not far apart."""
    rows, columns = draw.dimension(), draw.dimension()
    old = -draw.uniform(0.1, 3.0, rows, columns)
    inputs = {
        "new": old + draw.normal(rows, columns, scale=0.5),
        "old": old,
        "mask": draw.holed_mask(rows, columns),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Paper, garbage of each kind under the mask, an empty mask, one token."""

    def case(
        name: str, new: list[list[float]], old: list[list[float]], mask: list[list[int]]
    ) -> Case:
        inputs = {
            "new": torch.tensor(new, dtype=torch.float64),
            "old": torch.tensor(old, dtype=torch.float64),
            "mask": torch.tensor(mask).bool(),
        }
        return Case(name, inputs)

    half = math.log(0.5)
    nan, inf = math.nan, math.inf
    return (
        case("ratios 1/2, 1, 2", [[-1 + half, -1.0, -1.0]], [[-1.0, -1.0, -1 + half]], [[1, 1, 1]]),
        case("one token", [[-1.0]], [[-1.5]], [[1]]),
        case(
            "rows of different length",
            [[-1.0, -2.0, -0.5], [-0.3, -9.0, -9.0]],
            [[-1.2, -1.5, -0.7], [-1.0, -1.0, -1.0]],
            [[1, 1, 1], [1, 0, 0]],
        ),
        case("an empty mask", [[-1.0, -2.0]], [[-1.0, -1.0]], [[0, 0]]),
        case("nan under the mask", [[-1.0, nan]], [[-1.5, -1.0]], [[1, 0]]),
        case("exp overflows under the mask", [[-1.0, 1000.0]], [[-1.5, -1000.0]], [[1, 0]]),
        case("-inf in old under the mask", [[-1.0, -2.0]], [[-1.5, -inf]], [[1, 0]]),
    )


CHECK = Check(
    id="traps.mask.1",
    outputs=(Output("mean_ratio", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "product with the mask",
            "ratios.sum",
            "((new - old.detach()).exp() * mask).sum",
            "multiplying by the mask does not remove nan or inf: 0 times either is nan. "
            "Choose with torch.where",
        ),
        edit(
            "where after exp",
            "log_ratio.exp",
            "(new - old.detach()).exp",
            "the value is right and the gradient is nan: in the backward pass 0 meets the "
            "inf that exp made under the mask. Replace the log-ratio before exp, not the "
            "ratio after",
        ),
        edit(
            "masked places count as 1",
            "exp(), 0.0",
            "exp(), 1",
            "exp of the 0 that was put under the mask is 1, and it is added up: mask once "
            "more after exp",
        ),
        edit(
            "mean over all places",
            "mask.",
            "torch.ones_like(mask).",
            "the sum is divided by all places, the masked ones included: divide by the "
            "number of tokens that count",
        ),
        edit(
            "empty mask is nan",
            "1",
            "0",
            "an empty mask gives 0/0, which is nan: clamp the divisor to at least 1",
        ),
        edit(
            "mean of row means",
            "ratios.sum() / mask.sum().clamp(min=1)",
            "(ratios.sum(1) / mask.sum(1).clamp(min=1)).mean()",
            "each row is averaged by itself first, so the tokens of a short row count more: "
            "asked for is the mean over all tokens",
        ),
        edit(
            "old policy trained",
            "old.detach()",
            "old",
            "a gradient flows into `old`: the policy that sampled is data, so detach it",
        ),
        edit(
            "new policy cut off",
            "new -",
            "new.detach() -",
            "the value is right, but `new` is detached: nothing is trained",
        ),
        edit(
            "geometric mean",
            "log_ratio.exp",
            "(log_ratio.sum() / mask.sum().clamp(min=1)).exp",
            "the log-ratios are averaged before exp, which is the geometric mean of the "
            "ratios; asked for is the plain one",
        ),
        edit(
            "ratio upside down",
            "new - old.detach()",
            "(old.detach() - new)",
            "the ratio is upside down: new over old is exp(new - old)",
        ),
    ),
    not_tested="half precision, and ratios that overflow where the mask counts.",
    gradient_to=("new",),
    no_gradient_to=("old",),
    wide=(
        "new",
        "old",
    ),
    holed=("mask",),
)
