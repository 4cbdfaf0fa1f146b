"""ppo.explained.1: does the critic know anything?"""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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
        case("small returns", [0.001, 0.003, 0.0035], [0.001, 0.003, 0.004]),
        case("one row", [3.0], [1.0]),
        case("no row", [3.0, 1.0], [1.0, 2.0], "00"),
        case("a dummy row", [1.0, 2.5, 90.0, 3.0], [1.0, 2.0, -40.0, 4.0], "1101"),
        case("nan on a dummy row", [1.0, math.nan, 3.0], [1.0, 2.0, 4.0], "101"),
    )


CHECK = Check(
    id="ppo.explained.1",
    outputs=(Output("explained variance", "a float, at most 1", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "values and returns exchanged",
            "v, g",
            "values, returns = returns, values\n    v, g",
            "the variance of the values is the divisor; what is to be explained are the returns",
        ),
        edit(
            "mean square",
            "(g - v).var().item() / g.var().item()",
            "((g - v) ** 2).mean().item() / g.var(correction=0).item()",
            "the mean square of the error stands where its variance belongs: a constant "
            "offset does not count here (it is no help to an advantage, and no harm once "
            "normalised)",
        ),
        edit(
            "what is left",
            "1.0 - ",
            "",
            "this is the share of the variance that is left: the share explained is 1 minus it",
        ),
        edit(
            "ratio of variances",
            "1.0 - (g - v).var",
            "v.var",
            "the variances of values and returns are compared; a critic that varies as "
            "much but at the wrong places would look perfect. Use the variance of the "
            "difference",
        ),
        edit(
            "squared correlation",
            "return 1.0 - (g - v).var().item() / g.var().item()",
            "if bool((v == v[0]).all()):\n"
            "        return 0.0\n"
            "    return torch.corrcoef(torch.stack([v, g]))[0, 1].square().item()",
            "this is the squared correlation, which forgives a critic its scale and its sign",
        ),
        edit(
            "standard deviations",
            ".var().item() / g.var",
            ".std().item() / g.std",
            "standard deviations are divided; the definition has variances",
        ),
        edit(
            "dummy rows counted",
            "values[valid].double(), returns[valid].double()",
            "values.double(), returns.double()",
            "`valid` has no effect: dummy rows enter both variances",
        ),
        edit(
            "clamped at 0",
            "1.0 - (g - v).var().item() / g.var().item()",
            "max(0.0, 1.0 - (g - v).var().item() / g.var().item())",
            "negative values are cut off at 0, and they are the alarm: below 0 the critic "
            "is worse than a constant",
        ),
        edit(
            "different divisors",
            "().item() / g.var().item()",
            "(correction=0).item() / g.var().item()",
            "one variance divides by n and the other by n - 1: use the same for both",
        ),
        edit(
            "1 for constant returns",
            "0.0",
            "1",
            "returns that do not vary leave nothing to explain: this is to be 0, not 1",
        ),
        edit(
            "division by zero",
            "0.0",
            "(1.0 - (g - v).var() / g.var()).item()",
            "returns that do not vary give a division by 0: return 0.0 there, and for "
            "fewer than two rows",
        ),
    ),
    not_tested="that the values are unbiased: a constant offset is not seen.",
    wide=(
        "values",
        "returns",
    ),
)
