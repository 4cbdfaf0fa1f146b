"""Pictures of the chapters on foundations and policy gradients."""

from __future__ import annotations

import math

from bookkit.site.pictures.svg import (
    HEIGHT,
    WIDTH,
    arrow,
    box,
    curve,
    dot,
    drawing,
    frame,
    line,
    polygon,
    words,
)


def score_function() -> str:
    """A normal density; at each sample an arrow along reward times score, (x - mean) r."""
    density = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # noqa: E731
    place = frame((-3, 3), (-0.12, 0.42), 10)
    shapes = [
        line([place(-3, 0), place(3, 0)], "rule"),
        line(curve(density, (-3, 3), place), "build", 2),
        line([place(0, 0), place(0, density(0))], "muted", 1, "2 3"),
    ]
    reward = lambda x: 1 / (1 + math.exp(-2 * (x - 0.6)))  # noqa: E731
    for sample in (-2.0, -1.2, -0.5, 0.55, 1.1, 1.8):
        push = sample * reward(sample)
        x, y = place(sample, 0)
        if abs(push) > 0.03:
            shapes.append(arrow((x, y + 11), (x + 20 * push, y + 11), "break", 1.8))
        shapes.append(dot(x, y, "ink", 3.2))
    return drawing(*shapes)


def text_as_decisions() -> str:
    """A tree of tokens; one path is taken, to the end of the sequence and its reward."""
    columns = [18, 82, 146, 210]
    shapes, rows = [], [[60.0], [22.0, 60.0, 98.0], [36.0, 60.0, 84.0], [60.0]]
    for column in range(2):
        start = rows[column][0] if column == 0 else rows[column][1]
        shapes += [
            line([(columns[column], start), (columns[column + 1], y)], "muted", 1.2)
            for y in rows[column + 1]
        ]
    path = [(columns[0], 60.0), (columns[1], 60.0), (columns[2], 36.0), (columns[3], 60.0)]
    shapes.append(line(path, "build", 2.6))
    for column, ys in enumerate(rows):
        shapes += [dot(columns[column], y, "surface", 6, "muted") for y in ys]
    shapes += [dot(x, y, "build", 6) for x, y in path]
    names = ["the", "film", "shines", "<eos>"]
    offsets = [-12, -12, -12, 20]
    for (x, y), name, offset in zip(path, names, offsets, strict=True):
        shapes.append(words(x, y + offset, name, size=11))
    shapes.append(words(columns[3], 44, "reward", "break", 11))
    return drawing(*shapes)


def pytorch_traps() -> str:
    """The best known trap: a column of 4 minus a row of 4 is a square of 16."""
    side, top = 17.0, 26.0
    shapes = [box(26, top + side * row, side, side, "build", "surface", 0) for row in range(4)]
    shapes.append(words(60, 64, "−", size=18))
    shapes += [box(76 + side * row, 52, side, side, "scale", "surface", 0) for row in range(4)]
    shapes.append(words(157, 64, "=", size=18))
    for row in range(4):
        for column in range(4):
            fill = "ink" if row == column else "break"
            shapes.append(box(168 + 14 * column, 32 + 14 * row, 14, 14, fill, "surface", 0, 0.85))
    shapes += [
        words(35, 108, "(4, 1)"),
        words(110, 108, "(4,)"),
        words(196, 108, "(4, 4)", "break"),
    ]
    return drawing(*shapes)


def reinforce() -> str:
    """Tokens of a sentence, each pushed by the reward still to come (discounted)."""
    tokens = ["a", "film", "so", "great", "to", "see"]
    rewards = [-0.02, -0.02, -0.02, 1.0, -0.02, -0.02]
    returns: list[float] = []
    total = 0.0
    for reward in reversed(rewards):
        total = reward + 0.8 * total
        returns.insert(0, total)
    width = (WIDTH - 20) / len(tokens)
    shapes = [line([(10, 84), (WIDTH - 10, 84)], "rule")]
    for place, (token, value) in enumerate(zip(tokens, returns, strict=True)):
        x = 10 + width * (place + 0.5)
        shapes.append(box(x - width / 2 + 2, 90, width - 4, 19, "surface", "none", 3))
        shapes.append(words(x, 103, token, "break" if rewards[place] > 0 else "ink", 10.5))
        fill = "build" if value > 0 else "break"
        height = 66 * abs(value)
        shapes.append(
            box(x - 7, 84 - height if value > 0 else 84, 14, max(height, 1.5), fill, radius=1)
        )
    shapes.append(words(12, 20, "reward-to-go", "ink", 10.5, "start"))
    return drawing(*shapes)


def ppo() -> str:
    """The clipped objective for a positive advantage, with clip range 0.2."""
    place = frame((0.3, 2.0), (0.1, 2.0), 14)
    clipped = [place(0.3, 0.3), place(1.2, 1.2), place(2.0, 1.2)]
    shapes = [
        polygon([place(0.8, 0.1), place(1.2, 0.1), place(1.2, 2), place(0.8, 2)], "surface"),
        line([place(0.3, 0.1), place(2.0, 0.1)], "rule"),
        line([place(0.3, 0.3), place(2.0, 2.0)], "muted", 1.4, "4 4"),
        line(clipped, "build", 2.8),
        dot(*place(1, 1), "break", 4.5),
        words(place(0.8, 0)[0], HEIGHT - 3, "1 − ε", size=10),
        words(place(1.2, 0)[0], HEIGHT - 3, "1 + ε", size=10),
        words(
            place(1.98, 0)[0],
            place(0, 1.2)[1] + 15,
            "no reason to go further",
            size=10,
            anchor="end",
        ),
    ]
    return drawing(*shapes)
