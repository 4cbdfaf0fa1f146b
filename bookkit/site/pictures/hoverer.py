"""The still picture of the interactive figure `hoverer`: what three weightings of a reward ask for.

The figure's own mathematics is JavaScript (book/_theme/interactive/hoverer/model.js). This is a
second writing of the flight and its costs. The controllers drawn here come from no search: the best
of a grid is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

from bookkit.site.pictures.fallbacks import PANEL, Panel
from bookkit.site.pictures.svg import drawing, line, polygon

GRAVITY, STRONGEST, TARGET_M = 9.81, 20.0, 1.0
STEP_S, STEPS = 0.05, 100
STARTS_M = (0.0, 0.5, 1.5, 2.0)
Controller = tuple[float, float, float]
Weights = tuple[float, float, float]  # of the height error, the thrust and the squared speed
WEIGHTINGS: tuple[tuple[str, Weights], ...] = (
    ("1, 0.05, 0.1", (1.0, 0.05, 0.1)),
    ("thrust costs 1.2", (1.0, 1.2, 0.1)),
    ("speed costs 5", (1.0, 0.05, 5.0)),
)
GRID = (
    *product((GRAVITY,), (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0), (2.0, 4.0, 6.0, 8.0)),
    (0.0, 0.0, 0.0),
)


@dataclass(frozen=True)
class Flight:
    """One flight of five seconds: heights in m, and means of its costs over the steps."""

    heights_m: list[float]
    off_m: float
    thrust_g: float
    speed_squared: float


def fly(controller: Controller, start_m: float) -> Flight:
    """Let a controller push the craft up; the ground stops its fall."""
    base, stiffness, damping = controller
    height, speed = start_m, 0.0
    heights, off, thrusts, squares = [height], [], [], []
    for _ in range(STEPS):
        wanted = base + stiffness * (TARGET_M - height) - damping * speed
        thrust = min(max(wanted, 0.0), STRONGEST)
        speed += STEP_S * (thrust - GRAVITY)
        height += STEP_S * speed
        squares.append(speed**2)
        if height <= 0:
            height, speed = 0.0, max(speed, 0.0)
        heights.append(height)
        off.append(abs(TARGET_M - height))
        thrusts.append(thrust / GRAVITY)
    return Flight(heights, sum(off) / STEPS, sum(thrusts) / STEPS, sum(squares) / STEPS)


def reward(controller: Controller, weights: Weights) -> float:
    """Mean over the starts of minus the weighted costs, a second."""
    flights = [fly(controller, start) for start in STARTS_M]
    costs = [
        sum(w * c for w, c in zip(weights, (f.off_m, f.thrust_g, f.speed_squared), strict=True))
        for f in flights
    ]
    return -sum(costs) / len(costs)


@cache
def best_of_grid(weights: Weights) -> Controller:
    """The controller of the grid that earns most."""
    return max(GRID, key=lambda controller: reward(controller, weights))


def hoverer() -> str:
    """Height against time for three weightings, from four starts."""
    shapes: list[str] = []
    for at, (name, weights) in enumerate(WEIGHTINGS):
        panel = Panel(290.0 * at, (0.0, 5.0), (0.0, 2.2))
        corners = [(0, 0.9), (5, 0.9), (5, 1.1), (0, 1.1)]
        shapes.append(polygon([panel.place(*corner) for corner in corners], "surface"))
        title = f"weights {name}" if at == 0 else name
        shapes += panel.axes(title, "time (s)", range(6), (0, 0.5, 1, 1.5, 2))
        for start in STARTS_M:
            heights = fly(best_of_grid(weights), start).heights_m
            points = [panel.place(step * STEP_S, height) for step, height in enumerate(heights)]
            shapes.append(line(points, "build", 2.2))
    return drawing(*shapes, width=580 + PANEL[0], height=PANEL[1])
