"""robot.shaping.1: the reward that may be added without changing what is best."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="robot.shaping.1",
    outputs=(Output("shaping", "(N,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "no discount",
            "gamma *",
            "1.0 *",
            "the discount is missing: without it the terms no longer cancel along an "
            "episode, and standing still far away may pay",
        ),
        edit(
            "potential of a terminal state",
            "torch.where(terminated, 0.0, after)",
            "after",
            "the potential of a terminal state is counted: it must be 0, or ending in one "
            "place pays more than ending in another",
        ),
        edit(
            "opposite sign",
            "gamma * torch.where(terminated, 0.0, after) - before",
            "before - gamma * torch.where(terminated, 0.0, after)",
            "the sign is turned round: what was gained is paid",
        ),
        edit(
            "progress only",
            "gamma * torch.where(terminated, 0.0, after) - before",
            "(gamma * torch.where(terminated, 0.0, after) - before).clamp(min=0.0)",
            "only progress is paid, and going back costs nothing: to and fro earns without end",
        ),
        edit(
            "level instead of difference",
            " - before",
            "",
            "the potential itself is paid, not its difference: then to linger near the "
            "target pays more than to arrive",
        ),
        edit(
            "both discounted",
            "torch.where(terminated, 0.0, after) - before",
            "(torch.where(terminated, 0.0, after) - before)",
            "both terms are discounted; only the state reached is, as it lies one step ahead",
        ),
        edit(
            "the wrong one discounted",
            "gamma * torch.where(terminated, 0.0, after) -",
            "torch.where(terminated, 0.0, after) - gamma *",
            "the discount stands at the state acted in; it belongs to the state reached",
        ),
        edit(
            "nothing on arrival",
            "gamma * torch.where(terminated, 0.0, after) - before",
            "torch.where(terminated, 0.0, gamma * after - before)",
            "a terminal step pays 0 in all: it still pays back -Φ(s), or the sum does not cancel",
        ),
        edit(
            "product with the flag",
            "0.0",
            "gamma * after * ~terminated",
            "multiplying by the flag leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
    ),
    not_tested="whether the potential is a helpful one.",
    wide=(
        "before",
        "after",
    ),
    special=(("gamma", 0.0),),
)
