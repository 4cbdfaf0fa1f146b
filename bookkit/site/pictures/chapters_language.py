"""Pictures of the chapters on language models: preferences, verifiable rewards, faults."""

from __future__ import annotations

import math
import statistics

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
    words,
)


def rlhf() -> str:
    """The loop: policy, answer, reward model, and a leash to the frozen reference."""
    shapes = [
        box(14, 18, 66, 30, "none", "build", 4),
        box(160, 18, 66, 30, "none", "scale", 4),
        box(14, 78, 66, 30, "surface", "muted", 4),
        words(47, 37, "policy", size=11.5),
        words(193, 37, "reward model", size=10.5),
        words(47, 97, "reference", size=11.5),
        arrow((82, 27), (158, 27), "ink"),
        words(120, 21, "answer", size=10),
        arrow((158, 41), (82, 41), "break", 1.8),
        words(120, 54, "reward − β KL", "break", 10),
        line([(47, 50), (47, 76)], "muted", 1.6, "3 3"),
        words(54, 67, "KL", size=10, anchor="start"),
        words(193, 66, "learned from", "ink", 10),
        words(193, 79, "“A is better than B”", "ink", 10),
    ]
    return drawing(*shapes)


def dpo() -> str:
    """The loss, minus log sigmoid of the margin between the chosen and the rejected answer."""
    loss = lambda x: math.log1p(math.exp(-x))  # noqa: E731
    place = frame((-3.2, 3.2), (-0.4, 3.4), 12)
    shapes = [
        line([place(-3.2, 0), place(3.2, 0)], "rule"),
        line([place(0, 0), place(0, 3.3)], "rule", 1, "2 3"),
        line(curve(loss, (-3.2, 3.2), place), "build", 2.6),
    ]
    start, end = place(-1.6, loss(-1.6)), place(1.4, loss(1.4))
    shapes += [
        dot(*start, "break", 4.5),
        dot(*end, "build", 4.5),
        arrow((start[0] + 14, start[1] + 2), (end[0] - 2, end[1] - 9), "ink"),
        words(start[0] + 4, start[1] - 10, "rejected above", "break", 10, "start"),
        words(WIDTH - 8, end[1] - 14, "chosen above", "build", 10, "end"),
    ]
    return drawing(*shapes)


def verifiers() -> str:
    """Three answers to 58 + 77 at a gate that accepts one number and nothing else."""
    gate = 150.0
    shapes = [
        line([(gate, 8), (gate, HEIGHT - 8)], "rule", 5),
        words(gate + 12, 15, "verifier", size=10, anchor="start"),
    ]
    for place, (answer, passes) in enumerate((("135", True), ("58+77", False), ("1 2 3 …", False))):
        y, tone = 28.0 + 34 * place, "build" if passes else "break"
        shapes += [box(14, y - 13, 68, 26, "none", tone, 4), words(48, y + 4, answer, size=11.5)]
        shapes.append(arrow((88, y), (WIDTH - 44 if passes else gate - 6, y), tone))
        if passes:
            shapes.append(
                line([(WIDTH - 34, y), (WIDTH - 29, y + 5), (WIDTH - 19, y - 7)], tone, 2.4)
            )
        else:
            shapes.append(line([(gate + 18, y - 5), (gate + 28, y + 5)], tone, 2.4))
            shapes.append(line([(gate + 18, y + 5), (gate + 28, y - 5)], tone, 2.4))
    return drawing(*shapes)


def grpo() -> str:
    """Eight checked answers to one question; advantages are standardised within the group."""
    rewards = [1, 0, 0, 1, 0, 1, 0, 0]
    mean, deviation = statistics.fmean(rewards), statistics.pstdev(rewards)
    width = (WIDTH - 24) / len(rewards)
    zero = 76.0
    shapes = [line([(12, zero), (WIDTH - 12, zero)], "rule")]
    for place, reward in enumerate(rewards):
        x = 12 + width * (place + 0.5)
        height = 24 * (reward - mean) / deviation
        tone = "build" if reward else "break"
        shapes.append(box(x - 8, min(zero, zero - height), 16, abs(height), tone, radius=1))
        if reward:
            shapes.append(line([(x - 5, 19), (x - 1, 23), (x + 6, 13)], tone, 2.2))
        else:
            shapes.append(line([(x - 4, 14), (x + 4, 22)], tone, 2.2))
            shapes.append(line([(x - 4, 22), (x + 4, 14)], tone, 2.2))
    shapes.append(words(12, 114, "advantage within the group", size=10, anchor="start"))
    return drawing(*shapes)


def bug_clinic() -> str:
    """Two training curves: a healthy one, and one that follows it until a fault shows."""
    place = frame((0, 10), (0, 1.1), 14)
    healthy = lambda x: 1 - math.exp(-x / 2.6) + 0.018 * math.sin(5 * x)  # noqa: E731
    onset = 4.4

    def ill(x: float) -> float:
        fall = max(0.0, x - onset)
        return max(
            0.04, healthy(x) * math.exp(-0.55 * fall**1.4) + 0.03 * math.sin(9 * x) * (fall > 0)
        )

    at = place(onset, healthy(onset))
    shapes = [
        line([place(0, 0), place(10, 0)], "rule"),
        line(curve(healthy, (0, 10), place), "build", 2.2),
        line(curve(ill, (onset, 10), place), "break", 2.2),
        dot(at[0], at[1], "none", 13, "ink"),
        line([(at[0] + 9.5, at[1] + 9.5), (at[0] + 23, at[1] + 23)], "ink", 3.5),
        words(WIDTH - 14, place(0, healthy(10))[1] - 7, "healthy", "build", 10.5, "end"),
        words(WIDTH - 14, HEIGHT - 25, "what broke?", "break", 10.5, "end"),
    ]
    return drawing(*shapes)
