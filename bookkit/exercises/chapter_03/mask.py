"""traps.mask.1: a masked mean of ratios that is right forwards and backwards."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def masked_mean_ratio(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Replace what is masked before exp, then average over what counts."""
    log_ratio = torch.where(mask, new - old.detach(), 0.0)
    ratios = torch.where(mask, log_ratio.exp(), 0.0)
    return ratios.sum() / mask.sum().clamp(min=1)


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


def _multiply(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return ((new - old.detach()).exp() * mask).sum() / mask.sum().clamp(min=1)


def _where_after(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    ratios = torch.where(mask, (new - old.detach()).exp(), 0.0)
    return ratios.sum() / mask.sum().clamp(min=1)


def _ones_counted(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, new - old.detach(), 0.0).exp().sum() / mask.sum().clamp(min=1)


def _all_places(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, torch.where(mask, new - old.detach(), 0.0).exp(), 0.0).mean()


def _empty_is_nan(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    log_ratio = torch.where(mask, new - old.detach(), 0.0)
    return torch.where(mask, log_ratio.exp(), 0.0).sum() / mask.sum()


def _row_means(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    log_ratio = torch.where(mask, new - old.detach(), 0.0)
    rows = torch.where(mask, log_ratio.exp(), 0.0).sum(1) / mask.sum(1).clamp(min=1)
    return rows.mean()


def _old_trained(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    log_ratio = torch.where(mask, new - old, 0.0)
    return torch.where(mask, log_ratio.exp(), 0.0).sum() / mask.sum().clamp(min=1)


def _new_cut(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return masked_mean_ratio(new.detach(), old, mask)


def _geometric(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    log_ratio = torch.where(mask, new - old.detach(), 0.0)
    mean = (log_ratio.sum() / mask.sum().clamp(min=1)).exp()
    return torch.where(mask.any(), mean, 0.0)


def _upside_down(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    log_ratio = torch.where(mask, old.detach() - new, 0.0)
    return torch.where(mask, log_ratio.exp(), 0.0).sum() / mask.sum().clamp(min=1)


MASK = Exercise(
    id="traps.mask.1",
    title="A mask that holds in both directions",
    chapter=3,
    difficulty=2,
    minutes=15,
    goal=(
        "The mean over all counted tokens of the ratio exp(new - old), with a gradient to `new` "
        "alone; what stands under the mask reaches neither value nor gradient; an empty mask "
        "gives 0."
    ),
    outputs=(Output("mean_ratio", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=masked_mean_ratio,
    gradient_to=("new",),
    no_gradient_to=("old",),
    mutants=(
        Mutant(
            "product with the mask",
            _multiply,
            "multiplying by the mask does not remove nan or inf: 0 times either is nan. Choose "
            "with torch.where",
        ),
        Mutant(
            "where after exp",
            _where_after,
            "the value is right and the gradient is nan: in the backward pass 0 meets the inf "
            "that exp made under the mask. Replace the log-ratio before exp, not the ratio after",
        ),
        Mutant(
            "masked places count as 1",
            _ones_counted,
            "exp of the 0 that was put under the mask is 1, and it is added up: mask once more "
            "after exp",
        ),
        Mutant(
            "mean over all places",
            _all_places,
            "the sum is divided by all places, the masked ones included: divide by the number of "
            "tokens that count",
        ),
        Mutant(
            "empty mask is nan",
            _empty_is_nan,
            "an empty mask gives 0/0, which is nan: clamp the divisor to at least 1",
        ),
        Mutant(
            "mean of row means",
            _row_means,
            "each row is averaged by itself first, so the tokens of a short row count more: asked "
            "for is the mean over all tokens",
        ),
        Mutant(
            "old policy trained",
            _old_trained,
            "a gradient flows into `old`: the policy that sampled is data, so detach it",
        ),
        Mutant(
            "new policy cut off",
            _new_cut,
            "the value is right, but `new` is detached: nothing is trained",
        ),
        Mutant(
            "geometric mean",
            _geometric,
            "the log-ratios are averaged before exp, which is the geometric mean of the ratios; "
            "asked for is the plain one",
        ),
        Mutant(
            "ratio upside down",
            _upside_down,
            "the ratio is upside down: new over old is exp(new - old)",
        ),
    ),
    not_tested="half precision, and ratios that overflow where the mask counts.",
)
