"""robot.tip.1: where the tip of a two-link arm is."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(angles: list[list[float]], lengths: list[float]) -> list[list[float]]:
    """Walk along the arm as complex numbers: each joint turns what comes after it."""
    places = []
    for row in angles:
        place, heading = 0j, 1 + 0j
        for angle, length in zip(row, lengths, strict=True):
            heading *= complex(math.cos(angle), math.sin(angle))
            place += length * heading
        places.append([place.real, place.imag])
    return places


def cases(draw: Draw) -> Case:
    """A few arms, links of different lengths."""
    rows = draw.dimension()
    inputs = {"angles": draw.normal(rows, 2), "lengths": draw.uniform(0.1, 0.5, 2)}
    return Case(f"{rows} arms", inputs)


def edges() -> tuple[Case, ...]:
    """Straight, folded, each joint alone, unequal links, many rows."""

    def case(name: str, angles: list[list[float]], lengths: list[float]) -> Case:
        named = {"angles": angles, "lengths": lengths}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()})

    return (
        case("straight", [[0.0, 0.0]], [0.2, 0.2]),
        case("straight to the left", [[math.pi / 2, 0.0]], [0.2, 0.2]),
        case("a right angle", [[0.0, math.pi / 2]], [0.2, 0.2]),
        case("folded", [[0.5, math.pi]], [0.3, 0.1]),
        case("unequal links", [[0.3, -0.8]], [0.4, 0.1]),
        case("three arms", [[0.3, -0.8], [-1.0, 0.5], [2.0, 1.0]], [0.25, 0.15]),
    )


CHECK = Check(
    id="robot.tip.1",
    outputs=(Output("tip", "(N, 2)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "angles taken as absolute",
            "angles.cumsum(dim=1)",
            "angles",
            "the elbow's angle is measured from the table; it is measured from the upper "
            "arm, so the second link points along the sum of both angles",
        ),
        edit(
            "x and y swapped",
            "([x, y], dim=1)",
            "([x, y], dim=1).flip(1)",
            "x and y are swapped: x goes with the cosine",
        ),
        edit(
            "lengths swapped",
            "directions =",
            "lengths = lengths.flip(0)\n    directions =",
            "the lengths are swapped: `lengths[0]` belongs to the link at the shoulder",
        ),
        edit(
            "stops at the elbow",
            "directions =",
            "lengths = lengths * torch.tensor([1.0, 0.0], dtype=lengths.dtype)\n    directions =",
            "this is the elbow, not the tip: add the second link, from the elbow on",
        ),
        edit(
            "angles subtracted",
            "angles.",
            "(angles * torch.tensor([1.0, -1.0], dtype=angles.dtype)).",
            "the second link turns the other way: its direction is the sum of the angles, "
            "not the difference",
        ),
        edit(
            "degrees",
            "angles.",
            "(angles * math.pi / 180).",
            "the angles are in radians already; do not convert them",
        ),
        edit(
            "one length for both",
            "directions =",
            "lengths = lengths[:1].expand(2)\n    directions =",
            "the first length is used for both links: they may differ",
        ),
    ),
    not_tested="segments longer than 1, and whether the arm can take such angles: "
    "joints have limits.",
    gradient_to=("angles",),
    wide=("angles",),
)
