"""Pictures of the chapters on systems, robots and agents."""

from __future__ import annotations

import itertools
import math
import random

from bookkit.site.pictures.svg import HEIGHT, WIDTH, arrow, box, dot, drawing, line, words

BYTES = {"parameters": 2, "gradients": 2, "optimiser": 12}  # a parameter, mixed precision and Adam
RANKS = 4


def sampling_engine() -> str:
    """Continuous batching: four slots; a finished answer makes room for the next at once."""
    slots, steps = 4, 26
    dice = random.Random(4)
    shapes = []
    width = (WIDTH - 24) / steps
    free_from = [0] * slots
    tones = itertools.cycle(["build", "scale", "break"])
    while min(free_from) < steps:
        start = min(free_from)
        slot = free_from.index(start)
        length = min(steps - start, 3 + int(dice.expovariate(1 / 5)))
        left, top = 12 + width * start, 16 + 22 * slot
        shapes.append(box(left, top, width * length - 2, 15, next(tones), radius=2, opacity=0.82))
        free_from[slot] += length
    shapes.append(words(12, 114, "steps of decoding", size=10, anchor="start"))
    shapes.append(arrow((100, 110), (WIDTH - 14, 110), "muted", 1.2))
    return drawing(*shapes)


def data_parallel() -> str:
    """Four replicas in a ring; each passes a part of the gradient to the next."""
    centre = (WIDTH / 2, HEIGHT / 2)
    radius_x, radius_y = 78.0, 38.0
    shapes, places = [], []
    for rank in range(RANKS):
        angle = math.pi / 4 + rank * math.pi / 2
        places.append(
            (centre[0] + radius_x * math.cos(angle), centre[1] + radius_y * math.sin(angle))
        )
    for rank, (x, y) in enumerate(places):
        nx, ny = places[(rank + 1) % RANKS]
        dx, dy = nx - x, ny - y
        length = math.hypot(dx, dy)
        gap = 27 if abs(dx) > abs(dy) else 18
        start = (x + dx / length * gap, y + dy / length * gap)
        end = (nx - dx / length * gap, ny - dy / length * gap)
        shapes.append(arrow(start, end, "break", 1.8))
    for rank, (x, y) in enumerate(places):
        shapes.append(box(x - 24, y - 15, 48, 30, "surface", "build", 4))
        for part in range(RANKS):
            tone = "break" if part == rank else "muted"
            shapes.append(box(x - 17 + 9 * part, y - 5, 7, 10, tone, radius=1))
    shapes.append(words(centre[0], centre[1] + 4, "all-reduce", size=11))
    return drawing(*shapes)


def sharding() -> str:
    """Bytes a parameter that each of four ranks holds, for ZeRO stages 0 to 3, to scale."""
    shapes = []
    scale = 5.6
    for stage in range(4):
        x = 24 + 52 * stage
        y = 104.0
        sharded = ["optimiser", "gradients", "parameters"][:stage]
        total = 0.0
        for kind, tone in (("parameters", "build"), ("gradients", "break"), ("optimiser", "scale")):
            size = BYTES[kind] / (RANKS if kind in sharded else 1)
            total += size
            y -= size * scale
            shapes.append(box(x, y, 34, size * scale - 1, tone, radius=1, opacity=0.88))
        shapes.append(words(x + 17, 116, f"stage {stage}", size=9.5))
        shapes.append(words(x + 17, y - 4, f"{total:g} B", size=9.5))
    return drawing(*shapes)


def deepspeed() -> str:
    """One forward pass over sharded layers: the next layer is gathered while this one computes."""
    shapes = [
        words(12, 38, "network", size=10, anchor="start"),
        words(12, 78, "compute", size=10, anchor="start"),
        words(12, 110, "time", size=10, anchor="start"),
        arrow((62, 106), (WIDTH - 14, 106), "muted", 1.2),
    ]
    gather, compute = 22.0, 34.0
    network_free = compute_free = 62.0
    while True:
        gathered = network_free + gather
        begin = max(gathered, compute_free)
        if begin + compute > WIDTH - 6:
            break
        shapes += [
            box(network_free, 26, gather - 2, 18, "scale", radius=2, opacity=0.85),
            box(begin, 66, compute - 2, 18, "build", radius=2, opacity=0.85),
            line([(gathered - 2, 44), (begin + 1, 66)], "muted", 1, "2 2"),
        ]
        compute_free = begin + compute
        network_free = max(gathered, begin)
    return drawing(*shapes)


def asynchronous() -> str:
    """Above, sampling and training take turns; below, they run side by side, one step apart."""
    shapes = []
    sample, train, left = 34.0, 22.0, 12.0
    x = left
    while x + sample + train <= WIDTH - 10:
        shapes.append(box(x, 14, sample - 2, 15, "build", radius=2, opacity=0.85))
        shapes.append(box(x + sample, 32, train - 2, 15, "break", radius=2, opacity=0.85))
        x += sample + train
    x, first = left, True
    while x + sample <= WIDTH - 10:
        shapes.append(box(x, 70, sample - 2, 15, "build", radius=2, opacity=0.85))
        if not first:
            shapes.append(box(x, 88, train - 2, 15, "break", radius=2, opacity=0.85))
        first = False
        x += sample
    shapes.append(line([(left, 59), (WIDTH - 10, 59)], "rule"))
    shapes.append(words(WIDTH - 12, 116, "sample", "build", 10, "end"))
    shapes.append(words(WIDTH - 52, 116, "train", "break", 10, "end"))
    return drawing(*shapes)


def orchestration() -> str:
    """A job queued, run, stopped at its time limit, resumed from its checkpoint, reported."""
    shapes = [
        box(10, 20, 50, 26, "surface", "muted", 4),
        box(92, 20, 60, 26, "none", "build", 4),
        box(184, 20, 46, 26, "none", "scale", 4),
        box(86, 80, 72, 26, "surface", "break", 4),
        words(35, 37, "queue", size=11),
        words(122, 37, "train", size=11),
        words(207, 37, "report", size=11),
        words(122, 97, "checkpoint", size=11),
        arrow((62, 33), (90, 33)),
        arrow((154, 33), (182, 33)),
        arrow((122, 48), (122, 78), "break", 1.8),
        line([(84, 93), (35, 93), (35, 52)], "break", 1.8),
        arrow((35, 60), (35, 48), "break", 1.8),
        words(60, 86, "requeue", "break", 10),
    ]
    return drawing(*shapes)


def manipulation() -> str:
    """A two-link arm that reaches its goal (solved by the law of cosines)."""
    base, goal = (52.0, 104.0), (178.0, 48.0)
    first, second = 82.0, 74.0
    dx, dy = goal[0] - base[0], base[1] - goal[1]
    distance = math.hypot(dx, dy)
    elbow = math.acos((distance**2 + first**2 - second**2) / (2 * distance * first))
    angle = math.atan2(dy, dx) + elbow
    joint = (base[0] + first * math.cos(angle), base[1] - first * math.sin(angle))
    shapes = [
        line([(12, 110), (WIDTH - 12, 110)], "muted", 2),
        box(40, 98, 24, 12, "ink", radius=2),
        line([base, joint, goal], "build", 6),
        *[dot(*place, "surface", 5.5, "ink") for place in (base, joint)],
        dot(*goal, "none", 11, "break"),
        dot(*goal, "break", 4),
        line([(goal[0], goal[1] + 14), (goal[0], 108)], "muted", 1, "2 3"),
        words(goal[0] + 17, goal[1] + 4, "goal", "break", 11, "start"),
    ]
    return drawing(*shapes)


def agents() -> str:
    """Turns of an agent: what it writes is trained on, what the tool answers is masked out."""
    turns = [("build", 42), ("muted", 28), ("build", 32), ("muted", 38), ("build", 22)]
    shapes, x = [], 14.0
    for tone, width in turns:
        opacity = 0.88 if tone == "build" else 0.45
        shapes.append(box(x, 34, width, 22, tone, radius=3, opacity=opacity))
        mask = "1" if tone == "build" else "0"
        shapes.append(words(x + width / 2, 74, mask, "build" if mask == "1" else "ink", 11))
        x += width + 6
    shapes += [
        words(14, 24, "model", "build", 10.5, "start"),
        words(66, 24, "tool", "ink", 10.5, "start"),
        words(14, 98, "loss mask", size=10, anchor="start"),
        arrow((x - 4, 45), (x + 14, 45), "break", 1.8),
        words(WIDTH - 8, 98, "reward at the end", "break", 10, "end"),
    ]
    return drawing(*shapes)
