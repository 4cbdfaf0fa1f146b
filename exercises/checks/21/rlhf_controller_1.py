"""rlhf.controller.1: a coefficient that steers the KL to a target."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    start: float, kls: list[float], target: float, sequences: int, horizon: int
) -> list[float]:
    """A product of factors, each bounded."""
    share = sequences / horizon
    after = []
    for last in range(len(kls)):
        product = start
        for kl in kls[: last + 1]:
            product *= 1 + share * min(max((kl - target) / target, -0.2), 0.2)
        after.append(product)
    return after


def cases(draw: Draw) -> Case:
    """KLs on both sides of the target."""
    n = draw.dimension()
    inputs = {
        "start": draw.choice([0.05, 0.2, 1.0]),
        "kls": draw.uniform(-0.5, 12.0, n),
        "target": draw.choice([3.0, 6.0]),
        "sequences": draw.choice([16, 64]),
        "horizon": draw.choice([100, 1_000]),
    }
    return Case(f"updates: {n}", inputs)


def edges() -> tuple[Case, ...]:
    """On target, a little off, far off either way, a negative estimate, several in a row."""

    def case(name: str, kls: list[float], **numbers: float) -> Case:
        inputs = {
            "start": numbers.get("start", 0.1),
            "kls": torch.tensor(kls, dtype=torch.float64),
            "target": numbers.get("target", 5.0),
            "sequences": int(numbers.get("sequences", 50)),
            "horizon": int(numbers.get("horizon", 100)),
        }
        return Case(name, inputs)

    return (
        case("on target", [5.0]),
        case("a little above", [5.5]),
        case("a little below", [4.5]),
        case("far above", [50.0]),
        case("far below", [0.0]),
        case("a negative estimate", [-1.0]),
        case("three updates", [5.5, 4.0, 5.2]),
        case("another target", [5.5, 5.5], target=6.0, start=1.0),
        case("a large target", [110.0, 95.0], target=100.0, start=20.0),
        case("a small coefficient", [5.5], start=1e-4),
        case("a long horizon", [5.5, 5.6], horizon=10_000, sequences=10),
    )


CHECK = Check(
    id="rlhf.controller.1",
    outputs=(Output("coefficients", "(N,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "not bounded",
            "(kls / target - 1).clamp(-0.2, 0.2)",
            "kls / target - 1",
            "the error is not bounded: one batch that is far off would throw the coefficient",
        ),
        edit(
            "sign",
            "kls / target - 1",
            "(1 - kls / target)",
            "the sign is opposite: a KL above the target must raise the coefficient",
        ),
        edit(
            "absolute error",
            "(kls / target - 1)",
            "(kls - target)",
            "the error is the difference in nats; divide by the target, so that the same "
            "setting suits a target of 1 and one of 100",
        ),
        edit(
            "added",
            "start * torch.cumprod(1 + errors * sequences / horizon, dim=0)",
            "start + torch.cumsum(errors * sequences / horizon, dim=0)",
            "the step is added: multiply, so that the coefficient stays positive and a "
            "step means the same at 0.001 and at 1",
        ),
        edit(
            "horizon ignored",
            " * sequences / horizon",
            "",
            "`sequences` and `horizon` have no effect: a larger batch has seen more and "
            "steps further",
        ),
        edit(
            "share upside down",
            "sequences / horizon",
            "horizon / sequences",
            "the share is horizon over sequences; it is sequences over horizon",
        ),
        edits(
            "bounded after scaling",
            (".clamp(-0.2, 0.2)", ""),
            ("errors * sequences / horizon", "(errors * sequences / horizon).clamp(-0.2, 0.2)"),
            message="the product with sequences / horizon is bounded; bound the relative error "
            "itself, then scale it",
        ),
        edit(
            "bounded from above only",
            "clamp(-0.2, 0.2)",
            "clamp(max=0.2)",
            "the error is bounded from above only: a batch far below the target throws "
            "the coefficient just as well",
        ),
        edit(
            "bounded around 1",
            "clamp(-0.2, 0.2)",
            "clamp(0.8, 1.2)",
            "the error is bounded to 1 ± 0.2; it lies around 0, so the bounds are ±0.2",
        ),
        edit(
            "always from the start",
            "torch.cumprod(1 + errors * sequences / horizon, dim=0)",
            "(1 + errors * sequences / horizon)",
            "every step begins at the first coefficient: the steps must build on each other",
        ),
        edit(
            "before the update",
            "errors = (kls / target - 1)",
            "errors = torch.cat([kls.new_full((1,), target), kls[:-1]])\n"
            "    errors = (errors / target - 1)",
            "the coefficients before each update are returned; those after it are asked for",
        ),
        edit(
            "exponential",
            "torch.cumprod(1 + errors * sequences / horizon, dim=0)",
            "torch.exp(torch.cumsum(errors * sequences / horizon, dim=0))",
            "the factor is exp of the step; here it is 1 plus the step, which differs for "
            "large steps",
        ),
    ),
    not_tested="whether a policy follows: that is a loop with a delay.",
    wide=("kls",),
    special=(
        ("start", 0.0),
        ("target", 1.0),
        ("sequences", 0.0),
        ("sequences", 1.0),
        ("horizon", 1.0),
    ),
)
