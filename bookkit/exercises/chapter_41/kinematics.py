"""robot.tip.1: where the tip of a two-link arm is."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def tip(angles: Tensor, lengths: Tensor) -> Tensor:
    """The second link's direction is the sum of both angles."""
    directions = angles.cumsum(dim=1)
    x = (lengths * directions.cos()).sum(dim=1)
    y = (lengths * directions.sin()).sum(dim=1)
    return torch.stack([x, y], dim=1)


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


def _absolute(angles: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack(
        [(lengths * angles.cos()).sum(dim=1), (lengths * angles.sin()).sum(dim=1)], dim=1
    )


def _swapped(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles, lengths).flip(1)


def _lengths_swapped(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles, lengths.flip(0))


def _elbow(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles, lengths * torch.tensor([1.0, 0.0], dtype=lengths.dtype))


def _difference(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles * torch.tensor([1.0, -1.0], dtype=angles.dtype), lengths)


def _degrees(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles * math.pi / 180, lengths)


def _equal(angles: Tensor, lengths: Tensor) -> Tensor:
    return tip(angles, lengths[:1].expand(2))


KINEMATICS = Exercise(
    id="robot.tip.1",
    title="Where is the tip?",
    chapter=41,
    difficulty=1,
    minutes=10,
    goal="The position of the tip of each two-link arm, seen from above, from its joint angles.",
    outputs=(Output("tip", "(N, 2)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=tip,
    gradient_to=("angles",),
    mutants=(
        Mutant(
            "angles taken as absolute",
            _absolute,
            "the elbow's angle is measured from the table; it is measured from the upper arm, so "
            "the second link points along the sum of both angles",
        ),
        Mutant("x and y swapped", _swapped, "x and y are swapped: x goes with the cosine"),
        Mutant(
            "lengths swapped",
            _lengths_swapped,
            "the lengths are swapped: `lengths[0]` belongs to the link at the shoulder",
        ),
        Mutant(
            "stops at the elbow",
            _elbow,
            "this is the elbow, not the tip: add the second link, from the elbow on",
        ),
        Mutant(
            "angles subtracted",
            _difference,
            "the second link turns the other way: its direction is the sum of the angles, not the "
            "difference",
        ),
        Mutant("degrees", _degrees, "the angles are in radians already; do not convert them"),
        Mutant(
            "one length for both",
            _equal,
            "the first length is used for both links: they may differ",
        ),
    ),
    not_tested="whether the arm can take such angles: joints have limits.",
)
