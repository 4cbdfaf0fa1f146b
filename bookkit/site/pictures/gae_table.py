"""The still picture of the interactive figure `gae-table`: targets of the critic for every λ."""

from __future__ import annotations

from bookkit.site.pictures.fallbacks import PANEL, Panel
from bookkit.site.pictures.svg import dot, drawing, line, words

REWARDS = (0.0, 0.0, 0.0, 8.0)
CRITIC = (2.0, 2.0, 2.0, 4.0)
GAMMA = 0.5
TONES = ("build", "break", "scale", "ink")


def step_return(start: int, steps: int, gamma: float) -> float:
    """Rewards of some steps, and behind them the critic; 0 behind the end."""
    end = min(start + steps, len(REWARDS))
    earned = sum(gamma ** (t - start) * REWARDS[t] for t in range(start, end))
    return earned + (gamma**steps * CRITIC[end] if end < len(REWARDS) else 0.0)


def target(start: int, lam: float, gamma: float = GAMMA) -> float:
    """The λ-return by its definition: the weighted mean of the returns after 1, 2, … steps."""
    left = len(REWARDS) - start
    early = sum(
        (1 - lam) * lam ** (steps - 1) * step_return(start, steps, gamma)
        for steps in range(1, left)
    )
    return early + lam ** (left - 1) * step_return(start, left, gamma)


def gae_table() -> str:
    """Targets of the four states against λ, with the returns that were earned."""
    panel = Panel(0.0, (0.0, 1.0), (-2.0, 9.0))
    shapes = panel.axes(
        "target of the critic, γ = 0.5", "λ", (0, 0.25, 0.5, 0.75, 1), (-2, 0, 2, 4, 6, 8)
    )
    for at, (name, tone) in enumerate(zip("ABCD", TONES, strict=True)):
        earned = step_return(at, len(REWARDS), GAMMA)
        shapes.append(line([panel.place(0, earned), panel.place(1, earned)], "muted", 1.2, "4 4"))
        grid = [step / 40 for step in range(41)]
        shapes.append(line([panel.place(x, target(at, x)) for x in grid], tone, 2.6))
        shapes.append(dot(*panel.place(0.5, target(at, 0.5)), tone, 4))
        x, y = panel.place(0, target(at, 0.0))
        shapes.append(words(x + 8, y - 6, name, tone, 12))
    return drawing(*shapes, width=PANEL[0], height=PANEL[1])
