"""rlhf.controller.1: a coefficient that steers the KL to a target."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

LIMIT = 0.2


def steer(start: float, kls: Tensor, target: float, sequences: int, horizon: int) -> Tensor:
    """The coefficient after each update."""
    coefficient, after = start, torch.zeros_like(kls)
    for i, kl in enumerate(kls):
        error = (kl / target - 1).clamp(-LIMIT, LIMIT)
        coefficient = coefficient * (1 + error * sequences / horizon)
        after[i] = coefficient
    return after


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
        case("a long horizon", [5.5, 5.6], horizon=10_000, sequences=10),
    )


def _loop(start, kls, target, sequences, horizon, **how):  # type: ignore[no-untyped-def]
    coefficient, after = start, []
    share = 1.0 if how.get("no_horizon") else sequences / horizon
    if how.get("inverted"):
        share = horizon / sequences
    for kl in kls:
        after.append(torch.as_tensor(coefficient, dtype=kls.dtype))
        error = kl - target if how.get("absolute") else kl / target - 1
        if how.get("unbounded"):
            pass
        elif how.get("bounded_late"):
            error = (error * share).clamp(-LIMIT, LIMIT) / share
        elif how.get("bounded_above"):
            error = error.clamp(max=LIMIT)
        elif how.get("bound_on_factor"):
            error = error.clamp(1 - LIMIT, 1 + LIMIT)
        else:
            error = error.clamp(-LIMIT, LIMIT)
        error = -error if how.get("sign") else error
        base = start if how.get("from_start") else coefficient
        step = error * share
        coefficient = base + step if how.get("added") else base * (1 + step)
        coefficient = base * torch.exp(step) if how.get("exponential") else coefficient
    after.append(torch.as_tensor(coefficient, dtype=kls.dtype))
    return torch.stack(after[:-1] if how.get("before") else after[1:])


def _mutant(name: str, message: str, **how: bool) -> Mutant:
    def function(start: float, kls: Tensor, target: float, sequences: int, horizon: int) -> Tensor:
        return _loop(start, kls, target, sequences, horizon, **how)

    return Mutant(name, function, message)


CONTROLLER = Exercise(
    id="rlhf.controller.1",
    title="A coefficient that steers",
    chapter=21,
    difficulty=2,
    minutes=15,
    goal=(
        "After each update, multiply the coefficient by 1 + e · sequences / horizon, where e is "
        "the relative error KL / target - 1, bounded to ±0.2; return the coefficient after each."
    ),
    outputs=(Output("coefficients", "(N,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=steer,
    mutants=(
        _mutant(
            "not bounded",
            "the error is not bounded: one batch that is far off would throw the coefficient",
            unbounded=True,
        ),
        _mutant(
            "sign",
            "the sign is opposite: a KL above the target must raise the coefficient",
            sign=True,
        ),
        _mutant(
            "absolute error",
            "the error is the difference in nats; divide by the target, so that the same setting "
            "suits a target of 1 and one of 100",
            absolute=True,
        ),
        _mutant(
            "added",
            "the step is added: multiply, so that the coefficient stays positive and a step means "
            "the same at 0.001 and at 1",
            added=True,
        ),
        _mutant(
            "horizon ignored",
            "`sequences` and `horizon` have no effect: a larger batch has seen more and steps "
            "further",
            no_horizon=True,
        ),
        _mutant(
            "share upside down",
            "the share is horizon over sequences; it is sequences over horizon",
            inverted=True,
        ),
        _mutant(
            "bounded after scaling",
            "the product with sequences / horizon is bounded; bound the relative error itself, "
            "then scale it",
            bounded_late=True,
        ),
        _mutant(
            "bounded from above only",
            "the error is bounded from above only: a batch far below the target throws the "
            "coefficient just as well",
            bounded_above=True,
        ),
        _mutant(
            "bounded around 1",
            "the error is bounded to 1 ± 0.2; it lies around 0, so the bounds are ±0.2",
            bound_on_factor=True,
        ),
        _mutant(
            "always from the start",
            "every step begins at the first coefficient: the steps must build on each other",
            from_start=True,
        ),
        _mutant(
            "before the update",
            "the coefficients before each update are returned; those after it are asked for",
            before=True,
        ),
        _mutant(
            "exponential",
            "the factor is exp of the step; here it is 1 plus the step, which differs for large "
            "steps",
            exponential=True,
        ),
    ),
    not_tested="whether a policy follows: that is a loop with a delay.",
)
