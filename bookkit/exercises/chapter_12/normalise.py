"""ppo.normalise.1: advantages of one scale."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

EPS = 1e-8


def normalise(advantages: Tensor, valid: Tensor) -> Tensor:
    """Centre and scale the rows that count; the others are 0."""
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        result[valid] = (counted - counted.mean()) / (counted.std() + EPS)
    return result


def oracle(advantages: list[float], valid: list[bool]) -> list[float]:
    """Mean and standard deviation with n - 1, written out."""
    counted = [a for a, counts in zip(advantages, valid, strict=True) if counts]
    if len(counted) < 2:
        return [0.0] * len(advantages)
    mean = math.fsum(counted) / len(counted)
    spread = math.sqrt(math.fsum((a - mean) ** 2 for a in counted) / (len(counted) - 1))
    return [
        (a - mean) / (spread + EPS) if counts else 0.0
        for a, counts in zip(advantages, valid, strict=True)
    ]


def cases(draw: Draw) -> Case:
    """A minibatch with some dummy rows, of any scale."""
    n = draw.dimension(2)
    inputs = {
        "advantages": draw.normal(n, scale=draw.choice([0.3, 3.0, 30.0])),
        "valid": draw.holed_mask(1, n)[0],
    }
    return Case(f"{n} rows", inputs)


def edges() -> tuple[Case, ...]:
    """One row, none, equal rows, nan on a dummy row, a small scale."""

    def case(name: str, advantages: list[float], valid: str) -> Case:
        inputs = {
            "advantages": torch.tensor(advantages, dtype=torch.float64),
            "valid": torch.tensor([letter == "1" for letter in valid]),
        }
        return Case(name, inputs)

    return (
        case("two rows", [1.0, 3.0], "11"),
        case("one row", [5.0], "1"),
        case("one row that counts", [5.0, 7.0], "10"),
        case("no row", [5.0, 7.0], "00"),
        case("equal rows", [2.0, 2.0, 2.0], "111"),
        case("a dummy row", [1.0, 3.0, 100.0], "110"),
        case("a dummy row in the middle", [1.0, 7.0, 3.0, 4.0], "1011"),
        case("nan on a dummy row", [1.0, math.nan, 3.0], "101"),
        case("all bad", [-3.0, -1.0, -2.0, -8.0], "1111"),
        case("a small scale", [0.001, 0.003, -0.002], "111"),
    )


def _dummies_counted(advantages: Tensor, valid: Tensor) -> Tensor:
    if valid.sum() < 2:
        return torch.zeros_like(advantages)
    scaled = (advantages - advantages.mean()) / (advantages.std() + EPS)
    return torch.where(valid, scaled, 0.0)


def _zeros_counted(advantages: Tensor, valid: Tensor) -> Tensor:
    if valid.sum() < 2:
        return torch.zeros_like(advantages)
    filled = torch.where(valid, advantages, 0.0)
    return torch.where(valid, (filled - filled.mean()) / (filled.std() + EPS), 0.0)


def _spread(advantages: Tensor, valid: Tensor, centre: float, correction: int) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        mean = counted.mean()
        result[valid] = (counted - centre * mean) / (counted.std(correction=correction) + EPS)
    return result


def _biased(advantages: Tensor, valid: Tensor) -> Tensor:
    return _spread(advantages, valid, 1.0, 0)


def _not_centred(advantages: Tensor, valid: Tensor) -> Tensor:
    return _spread(advantages, valid, 0.0, 1)


def _not_scaled(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        result[valid] = counted - counted.mean()
    return result


def _variance(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        result[valid] = (counted - counted.mean()) / (counted.var() + EPS)
    return result


def _nan_for_one(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    result[valid] = (counted - counted.mean()) / (counted.std() + EPS)
    return result


def _no_eps(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        result[valid] = (counted - counted.mean()) / counted.std()
    return result


def _raw_for_one(advantages: Tensor, valid: Tensor) -> Tensor:
    if valid.sum() == 1:
        return torch.where(valid, advantages, 0.0)
    return normalise(advantages, valid)


def _dummies_kept(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    if counted.numel() < 2:
        return torch.where(valid, 0.0, advantages)
    return (advantages - counted.mean()) / (counted.std() + EPS)


def _large_eps(advantages: Tensor, valid: Tensor) -> Tensor:
    counted = advantages[valid]
    result = torch.zeros_like(advantages)
    if counted.numel() > 1:
        result[valid] = (counted - counted.mean()) / (counted.std() + 1e-2)
    return result


NORMALISE = Exercise(
    id="ppo.normalise.1",
    title="Advantages of one scale",
    chapter=12,
    difficulty=2,
    minutes=10,
    goal=(
        "Advantages minus their mean, over their standard deviation (n - 1) plus 1e-8, both taken "
        "over the valid rows; dummy rows get 0, and so does a minibatch with fewer than two."
    ),
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=normalise,
    mutants=(
        Mutant(
            "dummy rows counted",
            _dummies_counted,
            "dummy rows enter mean and standard deviation: take both over the valid rows alone",
        ),
        Mutant(
            "dummy rows counted as zeros",
            _zeros_counted,
            "dummy rows enter as zeros, which pulls the mean to 0 and shrinks the spread: select "
            "the valid rows first",
        ),
        Mutant(
            "divided by n",
            _biased,
            "the standard deviation divides by n; `torch.std` divides by n - 1, and so does this",
        ),
        Mutant(
            "not centred",
            _not_centred,
            "the mean is not subtracted: then a minibatch of good actions pushes every one of "
            "them up",
        ),
        Mutant(
            "not scaled", _not_scaled, "the spread is not divided out: only the mean is removed"
        ),
        Mutant(
            "variance",
            _variance,
            "it divides by the variance; the standard deviation is its square root",
        ),
        Mutant(
            "nan for one row",
            _nan_for_one,
            "a single row has no standard deviation, and yours is nan there: return 0",
        ),
        Mutant(
            "no epsilon",
            _no_eps,
            "equal advantages give 0/0 = nan: add 1e-8 to the standard deviation",
        ),
        Mutant(
            "raw for one row",
            _raw_for_one,
            "a single row keeps its raw advantage, of whatever scale: with nothing to compare it "
            "with it is 0 here",
        ),
        Mutant(
            "dummy rows not cleared",
            _dummies_kept,
            "dummy rows are scaled and kept; they must be 0",
        ),
        Mutant(
            "a large epsilon",
            _large_eps,
            "the added number is so large that small advantages shrink: 1e-8 only guards 0/0",
        ),
    ),
    not_tested="whether normalising helps: that depends on the task.",
)
