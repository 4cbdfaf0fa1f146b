"""Still pictures for where an interactive figure cannot run: in print, without a script."""

from __future__ import annotations

from collections.abc import Sequence

from bookkit.site.pictures.svg import Point, dot, drawing, line, polygon, words
from bookkit.site.pictures.tiny_world import tilted_means

PANEL = (300.0, 230.0)
MARGIN = {"left": 44.0, "right": 12.0, "top": 26.0, "bottom": 40.0}


class Panel:
    """A small chart with axes, at a place of the picture."""

    def __init__(self, left: float, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.left, self.x, self.y = left, x, y

    def place(self, x: float, y: float) -> Point:
        """Where a point of the data stands in the picture."""
        width = PANEL[0] - MARGIN["left"] - MARGIN["right"]
        height = PANEL[1] - MARGIN["top"] - MARGIN["bottom"]
        return (
            self.left + MARGIN["left"] + (x - self.x[0]) / (self.x[1] - self.x[0]) * width,
            PANEL[1] - MARGIN["bottom"] - (y - self.y[0]) / (self.y[1] - self.y[0]) * height,
        )

    def axes(
        self, title: str, name: str, x_ticks: Sequence[float], y_ticks: Sequence[float]
    ) -> list[str]:
        """Grid, ticks, the title above and the name of the horizontal axis below."""
        shapes = []
        for tick in x_ticks:
            shapes.append(
                line([self.place(tick, self.y[0]), self.place(tick, self.y[1])], "rule", 1)
            )
            at = self.place(tick, self.y[0])
            shapes.append(words(at[0], at[1] + 15, f"{tick:g}".replace("-", "−"), size=11))
        for tick in y_ticks:
            shapes.append(
                line([self.place(self.x[0], tick), self.place(self.x[1], tick)], "rule", 1)
            )
            at = self.place(self.x[0], tick)
            label = f"{tick:g}".replace("-", "−")
            shapes.append(words(at[0] - 6, at[1] + 4, label, size=11, anchor="end"))
        middle = self.place(sum(self.x) / 2, self.y[0])
        shapes.append(words(middle[0], middle[1] + 32, name, size=12))
        shapes.append(words(middle[0], 16, title, size=12.5))
        return shapes


def ppo_clip(epsilon: float = 0.2) -> str:
    """PPO's clipped objective against the ratio, for an advantage of +1 and of −1."""
    shapes = []
    for left, advantage in ((0.0, 1.0), (310.0, -1.0)):
        panel = Panel(left, (0.0, 2.0), (-2.0, 2.0))
        sign = "+1" if advantage > 0 else "−1"
        band = [(1 - epsilon, -2), (1 + epsilon, -2), (1 + epsilon, 2), (1 - epsilon, 2)]
        shapes.append(polygon([panel.place(*corner) for corner in band], "surface"))
        shapes += panel.axes(f"advantage {sign}", "ratio", (0, 0.5, 1, 1.5, 2), (-2, -1, 0, 1, 2))
        shapes.append(line([panel.place(r, r * advantage) for r in (0, 2)], "muted", 1.6, "5 4"))
        corners = (0, 1 - epsilon, 1 + epsilon, 2)
        clipped = [
            min(r * advantage, min(max(r, 1 - epsilon), 1 + epsilon) * advantage) for r in corners
        ]
        points = [panel.place(r, value) for r, value in zip(corners, clipped, strict=True)]
        shapes.append(line(points, "build", 2.8))
        shapes.append(dot(*panel.place(1, advantage), "break", 4.5))
    return drawing(*shapes, width=2 * PANEL[0] + 10, height=PANEL[1])


def tiny_policy() -> str:
    """Mean proxy and gold reward of the best policy for each β, against its KL to the reference."""
    betas = [2 * 0.005 ** (step / 59) for step in range(60)]
    means = [tilted_means(beta) for beta in betas]
    panel = Panel(0.0, (0.0, 12.0), (0.0, 1.0))
    shapes = panel.axes(
        "mean reward of the best policy for each β",
        "KL to the reference (nats a review)",
        (0, 2, 4, 6, 8, 10, 12),
        (0, 0.25, 0.5, 0.75, 1),
    )
    shapes.append(line([panel.place(kl, proxy) for proxy, _, kl in means], "build", 2.8))
    shapes.append(line([panel.place(kl, gold) for _, gold, kl in means], "break", 2.8))
    shapes.append(words(*panel.place(6.6, 0.86), "proxy", "build", 12, "end"))
    shapes.append(words(*panel.place(8.3, 0.45), "gold", "break", 12, "start"))
    return drawing(*shapes, width=PANEL[0], height=PANEL[1])
