"""ppo.explained.1: does the critic know anything?"""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def explained_variance(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    """One minus the variance that is left over the variance that was there."""
    v, g = values[valid].double(), returns[valid].double()
    if g.numel() < 2 or bool((g == g[0]).all()):
        return 0.0
    return 1.0 - (g - v).var().item() / g.var().item()


def oracle(values: list[float], returns: list[float], valid: list[bool]) -> float:
    """Both variances written out."""
    pairs = [(v, g) for v, g, counts in zip(values, returns, valid, strict=True) if counts]
    if len(pairs) < 2:
        return 0.0
    n = len(pairs)
    mean_return = math.fsum(g for _, g in pairs) / n
    mean_rest = math.fsum(g - v for v, g in pairs) / n
    there = math.fsum((g - mean_return) ** 2 for _, g in pairs)
    left = math.fsum((g - v - mean_rest) ** 2 for v, g in pairs)
    same = all(g == pairs[0][1] for _, g in pairs)
    return 0.0 if same else 1.0 - left / there


def cases(draw: Draw) -> Case:
    """Critics of any quality, with some dummy rows."""
    n = draw.dimension(3)
    returns = draw.normal(n, scale=3.0)
    noise = draw.normal(n, scale=draw.choice([0.3, 3.0]))
    inputs = {
        "values": returns + noise + draw.choice([0.0, 5.0]),
        "returns": returns,
        "valid": draw.holed_mask(1, n)[0],
    }
    return Case(f"{n} rows", inputs)


def edges() -> tuple[Case, ...]:
    """A perfect critic, a constant one, an offset, a wrong sign, constant returns, dummy rows."""

    def case(name: str, values: list[float], returns: list[float], valid: str = "") -> Case:
        inputs = {
            "values": torch.tensor(values, dtype=torch.float64),
            "returns": torch.tensor(returns, dtype=torch.float64),
            "valid": torch.tensor([letter == "1" for letter in valid or "1" * len(values)]),
        }
        return Case(name, inputs)

    returns = [1.0, 2.0, 4.0, 5.0]
    return (
        case("perfect", returns, returns),
        case("constant", [3.0] * 4, returns),
        case("right up to an offset", [11.0, 12.0, 14.0, 15.0], returns),
        case("half the truth", [0.5, 1.0, 2.0, 2.5], returns),
        case("the wrong way round", [-1.0, -2.0, -4.0, -5.0], returns),
        case("worse than nothing", [9.0, -3.0, 2.0, 7.0], returns),
        case("constant returns", [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]),
        case("constant returns, perfect", [2.0, 2.0], [2.0, 2.0]),
        case("one row", [3.0], [1.0]),
        case("no row", [3.0, 1.0], [1.0, 2.0], "00"),
        case("a dummy row", [1.0, 2.5, 90.0, 3.0], [1.0, 2.0, -40.0, 4.0], "1101"),
        case("nan on a dummy row", [1.0, math.nan, 3.0], [1.0, 2.0, 4.0], "101"),
    )


def _guard(g: Tensor) -> bool:
    return g.numel() < 2 or bool((g == g[0]).all())


def _swapped(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    return explained_variance(returns, values, valid)


def _mean_square(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    if _guard(g):
        return 0.0
    return 1.0 - ((g - v) ** 2).mean().item() / g.var(correction=0).item()


def _left_over(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    return 0.0 if _guard(g) else (g - v).var().item() / g.var().item()


def _ratio_of_variances(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    return 0.0 if _guard(g) else v.var().item() / g.var().item()


def _correlation(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    if _guard(g) or _guard(v):
        return 0.0
    dv, dg = v - v.mean(), g - g.mean()
    return ((dv * dg).sum() ** 2 / ((dv**2).sum() * (dg**2).sum())).item()


def _deviations(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    return 0.0 if _guard(g) else 1.0 - (g - v).std().item() / g.std().item()


def _dummies_counted(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    return explained_variance(values, returns, torch.ones_like(valid))


def _clamped(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    return max(0.0, explained_variance(values, returns, valid))


def _mixed_divisors(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    if _guard(g):
        return 0.0
    return 1.0 - (g - v).var(correction=0).item() / g.var().item()


def _one_for_constant(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    return 1.0 if _guard(returns[valid]) else explained_variance(values, returns, valid)


def _unguarded(values: Tensor, returns: Tensor, valid: Tensor) -> float:
    v, g = values[valid].double(), returns[valid].double()
    return (1.0 - (g - v).var() / g.var()).item()


EXPLAINED = Exercise(
    id="ppo.explained.1",
    title="Does the critic know anything?",
    chapter=12,
    difficulty=2,
    minutes=15,
    goal=(
        "Explained variance over the valid rows: one minus the variance of returns minus values "
        "over the variance of the returns; 0 where the returns do not vary."
    ),
    outputs=(Output("explained variance", "a float, at most 1", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=explained_variance,
    mutants=(
        Mutant(
            "values and returns exchanged",
            _swapped,
            "the variance of the values is the divisor; what is to be explained are the returns",
        ),
        Mutant(
            "mean square",
            _mean_square,
            "the mean square of the error stands where its variance belongs: a constant offset "
            "does not count here (it is no help to an advantage, and no harm once normalised)",
        ),
        Mutant(
            "what is left",
            _left_over,
            "this is the share of the variance that is left: the share explained is 1 minus it",
        ),
        Mutant(
            "ratio of variances",
            _ratio_of_variances,
            "the variances of values and returns are compared; a critic that varies as much but "
            "at the wrong places would look perfect. Use the variance of the difference",
        ),
        Mutant(
            "squared correlation",
            _correlation,
            "this is the squared correlation, which forgives a critic its scale and its sign",
        ),
        Mutant(
            "standard deviations",
            _deviations,
            "standard deviations are divided; the definition has variances",
        ),
        Mutant(
            "dummy rows counted",
            _dummies_counted,
            "`valid` has no effect: dummy rows enter both variances",
        ),
        Mutant(
            "clamped at 0",
            _clamped,
            "negative values are cut off at 0, and they are the alarm: below 0 the critic is worse "
            "than a constant",
        ),
        Mutant(
            "different divisors",
            _mixed_divisors,
            "one variance divides by n and the other by n - 1: use the same for both",
        ),
        Mutant(
            "1 for constant returns",
            _one_for_constant,
            "returns that do not vary leave nothing to explain: this is to be 0, not 1",
        ),
        Mutant(
            "division by zero",
            _unguarded,
            "returns that do not vary give a division by 0: return 0.0 there, and for fewer than "
            "two rows",
        ),
    ),
    not_tested="that the values are unbiased: a constant offset is not seen.",
)
