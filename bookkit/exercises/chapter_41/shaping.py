"""robot.shaping.1: the reward that may be added without changing what is best."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def shaping(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Discounted potential of where the step led, minus that of where it began."""
    return gamma * torch.where(terminated, 0.0, after) - before


def oracle(
    before: list[float], after: list[float], terminated: list[bool], gamma: float
) -> list[float]:
    """Row by row."""
    rows = zip(before, after, terminated, strict=True)
    return [(0.0 if died else gamma * later) - earlier for earlier, later, died in rows]


def cases(draw: Draw) -> Case:
    """A few steps, some terminal."""
    n = draw.dimension()
    inputs = {
        "before": draw.normal(n, scale=3.0),
        "after": draw.normal(n, scale=3.0),
        "terminated": ~draw.holed_mask(1, n)[0],
        "gamma": draw.choice([0.5, 0.9, 0.99]),
    }
    return Case(f"{n} steps", inputs)


def edges() -> tuple[Case, ...]:
    """No move, a step nearer, a step away, a terminal state, nan behind it, no discount."""

    def case(
        name: str, before: list[float], after: list[float], terminated: str, gamma: float
    ) -> Case:
        inputs = {
            "before": torch.tensor(before, dtype=torch.float64),
            "after": torch.tensor(after, dtype=torch.float64),
            "terminated": torch.tensor([letter == "1" for letter in terminated]),
            "gamma": gamma,
        }
        return Case(name, inputs)

    return (
        case("standing still", [-4.0], [-4.0], "0", 0.5),
        case("nearer", [-4.0], [-1.0], "0", 0.5),
        case("away", [-1.0], [-4.0], "0", 0.5),
        case("arrived", [-2.0], [-1.0], "1", 0.5),
        case("nan behind a terminal state", [-2.0], [math.nan], "1", 0.5),
        case("no discount", [-2.0, 3.0], [-1.0, 1.0], "00", 1.0),
        case("several", [-2.0, 3.0, 1.0], [-1.0, 1.0, 5.0], "010", 0.9),
    )


def _no_gamma(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return shaping(before, after, terminated, 1.0)


def _terminal_kept(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return gamma * after - before


def _reversed(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return before - gamma * torch.where(terminated, 0.0, after)


def _progress(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return shaping(before, after, terminated, gamma).clamp(min=0.0)


def _level(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return gamma * torch.where(terminated, 0.0, after)


def _all_discounted(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return gamma * (torch.where(terminated, 0.0, after) - before)


def _past_discounted(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return torch.where(terminated, 0.0, after) - gamma * before


def _zero_at_end(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return torch.where(terminated, 0.0, gamma * after - before)


def _product(before: Tensor, after: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    return gamma * after * (~terminated) - before


SHAPING = Exercise(
    id="robot.shaping.1",
    title="A reward that may be added",
    chapter=41,
    difficulty=2,
    minutes=15,
    goal=(
        "The shaping reward γΦ(s′) − Φ(s) of each step, with Φ = 0 in a terminal state, so that "
        "no policy changes its rank."
    ),
    outputs=(Output("shaping", "(N,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=shaping,
    mutants=(
        Mutant(
            "no discount",
            _no_gamma,
            "the discount is missing: without it the terms no longer cancel along an episode, and "
            "standing still far away may pay",
        ),
        Mutant(
            "potential of a terminal state",
            _terminal_kept,
            "the potential of a terminal state is counted: it must be 0, or ending in one place "
            "pays more than ending in another",
        ),
        Mutant("opposite sign", _reversed, "the sign is turned round: what was gained is paid"),
        Mutant(
            "progress only",
            _progress,
            "only progress is paid, and going back costs nothing: to and fro earns without end",
        ),
        Mutant(
            "level instead of difference",
            _level,
            "the potential itself is paid, not its difference: then to linger near the target "
            "pays more than to arrive",
        ),
        Mutant(
            "both discounted",
            _all_discounted,
            "both terms are discounted; only the state reached is, as it lies one step ahead",
        ),
        Mutant(
            "the wrong one discounted",
            _past_discounted,
            "the discount stands at the state acted in; it belongs to the state reached",
        ),
        Mutant(
            "nothing on arrival",
            _zero_at_end,
            "a terminal step pays 0 in all: it still pays back -Φ(s), or the sum does not cancel",
        ),
        Mutant(
            "product with the flag",
            _product,
            "multiplying by the flag leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
    ),
    not_tested="whether the potential is a helpful one.",
)
