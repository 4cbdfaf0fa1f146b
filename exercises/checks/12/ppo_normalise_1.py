"""ppo.normalise.1: advantages of one scale."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

EPS = 1e-8


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
        case("one row of 122", [1.0] + [0.0] * 121, "1" * 122),
        case("numbers in the hundreds", [300.0, -500.0, 100.0], "111"),
        case("a small scale", [0.001, 0.003, -0.002], "111"),
    )


CHECK = Check(
    id="ppo.normalise.1",
    outputs=(Output("advantages", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "dummy rows counted",
            "(counted - counted.mean()) / (counted.std() + 1e-8)",
            "(counted - advantages.mean()) / (advantages.std() + 1e-8)",
            "dummy rows enter mean and standard deviation: take both over the valid rows alone",
        ),
        edit(
            "dummy rows counted as zeros",
            "result[valid] = (counted - counted.mean()) / (counted.std() + 1e-8)",
            "filled = torch.where(valid, advantages, 0.0)\n"
            "        result[valid] = (counted - filled.mean()) / (filled.std() + 1e-8)",
            "dummy rows enter as zeros, which pulls the mean to 0 and shrinks the spread: "
            "select the valid rows first",
        ),
        edit(
            "divided by n",
            "std()",
            "std(correction=0)",
            "the standard deviation divides by n; `torch.std` divides by n - 1, and so does this",
        ),
        edit(
            "not centred",
            "(counted - counted.mean())",
            "counted",
            "the mean is not subtracted: then a minibatch of good actions pushes every "
            "one of them up",
        ),
        edit(
            "not scaled",
            " / (counted.std() + 1e-8)",
            "",
            "the spread is not divided out: only the mean is removed",
        ),
        edit(
            "variance",
            "counted.std",
            "counted.var",
            "it divides by the variance; the standard deviation is its square root",
        ),
        edit(
            "nan for one row",
            "> 1",
            "> 0",
            "a single row has no standard deviation, and yours is nan there: return 0",
        ),
        edit(
            "no epsilon",
            "(counted.std() + 1e-8)",
            "counted.std()",
            "equal advantages give 0/0 = nan: add 1e-8 to the standard deviation",
        ),
        edit(
            "raw for one row",
            "torch.zeros_like(advantages)",
            "torch.where(valid, advantages, 0.0)",
            "a single row keeps its raw advantage, of whatever scale: with nothing to "
            "compare it with it is 0 here",
        ),
        edits(
            "dummy rows not cleared",
            ("torch.zeros_like(advantages)", "torch.where(valid, 0.0, advantages)"),
            ("result[valid] = (counted -", "result = (advantages -"),
            message="dummy rows are scaled and kept; they must be 0",
        ),
        edit(
            "a large epsilon",
            "1e-8",
            "0.01",
            "the added number is so large that small advantages shrink: 1e-8 only guards 0/0",
        ),
    ),
    not_tested="whether normalising helps: that depends on the task.",
    wide=("advantages",),
)
