"""The still picture of the interactive figure `bandit-gradient`: noise of a gradient, exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bookkit.site.pictures.fallbacks import PANEL, Panel
from bookkit.site.pictures.svg import dot, drawing, line, words

MEANS = (1.0, 2.0, 4.0)
POLICY = (0.5, 0.25, 0.25)
ESTIMATES, PULLS = 40, 8


def score(policy: Sequence[float], arm: int) -> list[float]:
    """Gradient of the log-probability of an arm in the scores of a softmax."""
    return [(1.0 if other == arm else 0.0) - p for other, p in enumerate(policy)]


def exact_gradient(policy: Sequence[float]) -> list[float]:
    """Gradient of the expected reward: the mean over arms of reward times score."""
    parts = [
        [p * MEANS[arm] * entry for entry in score(policy, arm)] for arm, p in enumerate(policy)
    ]
    return [sum(column) for column in zip(*parts, strict=True)]


def variance(policy: Sequence[float], baseline: float) -> float:
    """Total variance of the estimate from one pull with a constant baseline."""
    second = sum(
        p * (MEANS[arm] - baseline) ** 2 * sum(entry**2 for entry in score(policy, arm))
        for arm, p in enumerate(policy)
    )
    return second - sum(entry**2 for entry in exact_gradient(policy))


def estimates(baseline: float, seed: int) -> list[list[float]]:
    """Estimates of the gradient from a few pulls each."""
    dice = random.Random(seed)
    found = []
    for _ in range(ESTIMATES):
        arms = dice.choices(range(3), weights=POLICY, k=PULLS)
        parts = [
            [(MEANS[arm] - baseline) * entry / PULLS for entry in score(POLICY, arm)]
            for arm in arms
        ]
        found.append([sum(column) for column in zip(*parts, strict=True)])
    return found


def bandit_gradient() -> str:
    """Estimates around the exact gradient, without and with a baseline; variance against it."""
    shapes: list[str] = []
    exact = exact_gradient(POLICY)
    for left, baseline, title in (
        (0.0, 0.0, "no baseline"),
        (290.0, 2.4, "best baseline, b = 2.4"),
    ):
        panel = Panel(left, (-2.0, 2.0), (-2.0, 2.0))
        shapes += panel.axes(title, "change of arm 1's score", (-2, -1, 0, 1, 2), (-2, -1, 0, 1, 2))
        for one in estimates(baseline, seed=1):
            ends = [(0.0, 0.0), (one[0], one[2])]
            inside = [(max(-2.0, min(2.0, x)), max(-2.0, min(2.0, y))) for x, y in ends]
            shapes.append(line([panel.place(*end) for end in inside], "muted", 1))
        shapes.append(line([panel.place(0, 0), panel.place(exact[0], exact[2])], "build", 2.8))
        shapes.append(dot(*panel.place(exact[0], exact[2]), "build", 4.5))
    panel = Panel(580.0, (-1.0, 6.0), (0.0, 6.0))
    shapes += panel.axes("variance of one pull", "baseline b", (0, 2, 4, 6), (0, 2, 4, 6))
    grid = [-1 + step / 20 for step in range(141)]
    curve = [(b, variance(POLICY, b)) for b in grid]
    shapes.append(line([panel.place(b, v) for b, v in curve if v <= 6], "build", 2.8))
    shapes.append(line([panel.place(2.4, 0), panel.place(2.4, 6)], "break", 1.6, "5 4"))
    shapes.append(words(*panel.place(2.55, 5.4), "b* = 2.4", "break", 12, "start"))
    return drawing(*shapes, width=580 + PANEL[0], height=PANEL[1])
