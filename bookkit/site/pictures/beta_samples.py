"""The still picture of the interactive figure `beta-samples`: samples tilted by their reward."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bookkit.site.pictures.svg import box, drawing, words

# The first sixteen reviews of chapter 11's corpus, with VADER's score; a test draws them anew.
SAMPLES: tuple[tuple[str, float], ...] = (
    ("a great story.", 0.6249),
    ("boring, poor, terrible.", -0.8176),
    ("the film was clever.", 0.4588),
    ("long, strange, quiet, plain.", -0.2023),
    ("a boring script.", -0.3182),
    ("i enjoyed the story.", 0.5106),
    ("i liked the script.", 0.4215),
    ("an old cast and the script was plain.", 0.0),
    ("i noticed the cast.", 0.0),
    ("the ending was long.", 0.0),
    ("the acting was long.", 0.0),
    ("a poor ending.", -0.4767),
    ("a great plot and i liked the cast.", 0.7845),
    ("a plain script and a plain story.", 0.0),
    ("a clever cast.", 0.4588),
    ("a poor cast.", -0.4767),
)
BETAS = (1.0, 0.3, 0.1, 0.03)


def shares(rewards: Sequence[float], beta: float) -> list[float]:
    """What the best policy for `beta` makes of equal shares: times exp(r / β), normalised."""
    top = max(rewards)
    weights = [math.exp((reward - top) / beta) for reward in rewards]
    return [weight / math.fsum(weights) for weight in weights]


def beta_samples() -> str:
    """A row a review, the best paid first; a column of bars for each of four β."""
    rewards = [score for _, score in SAMPLES]
    order = sorted(range(len(SAMPLES)), key=lambda at: (-rewards[at], at))
    columns = [shares(rewards, beta) for beta in BETAS]
    left, width, height = 280.0, 84.0, 15.0
    shapes = [
        words(left + (width + 10) * at + width / 2, 14, f"β = {beta:g}", size=11)
        for at, beta in enumerate(BETAS)
    ]
    for row, sample in enumerate(order):
        y = 24 + height * row
        text, score = SAMPLES[sample]
        shapes.append(words(4, y + 10, text, size=10.5, anchor="start"))
        value = f"{score:.2f}".replace("-", "−")
        shapes.append(words(left - 14, y + 10, value, size=10.5, anchor="end"))
        for at, column in enumerate(columns):
            x = left + (width + 10) * at
            shapes.append(box(x, y + 1, max(column[sample] * width, 0.6), height - 4, "build"))
    bottom = 24 + height * len(order) + 4
    return drawing(*shapes, width=left + (width + 10) * len(BETAS), height=bottom)
