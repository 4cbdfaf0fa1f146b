"""shard.tensor_parallel.1: an MLP cut by columns and then by rows."""

import math

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Rows = list[list[float]]


def oracle(
    x: Rows, up: Rows, up_bias: list[float], down: Rows, down_bias: list[float], ranks: int
) -> tuple[list[Rows], Rows]:
    """Unit by unit of the middle: the rank that owns it adds its contribution."""
    size = len(up) // ranks
    parts = [[[0.0] * len(down) for _ in x] for _ in range(ranks)]
    for b, row in enumerate(x):
        for unit in range(len(up)):
            before = math.fsum(w * v for w, v in zip(up[unit], row, strict=True)) + up_bias[unit]
            for o in range(len(down)):
                parts[unit // size][b][o] += down[o][unit] * math.tanh(before)
    whole = [
        [math.fsum(p[b][o] for p in parts) + down_bias[o] for o in range(len(down))]
        for b in range(len(x))
    ]
    return parts, whole


def cases(draw: Draw) -> Case:
    """A small MLP whose middle the ranks divide."""
    ranks, width = draw.integer(1, 3), draw.integer(1, 3)
    middle, batch = ranks * draw.integer(1, 3), draw.integer(1, 3)
    inputs = {
        "x": draw.normal(batch, width),
        "up": draw.normal(middle, width),
        "up_bias": draw.normal(middle),
        "down": draw.normal(width, middle),
        "down_bias": draw.normal(width),
        "ranks": ranks,
    }
    return Case(f"{batch} rows, middle {middle} on {ranks} ranks", inputs)


def edges() -> tuple[Case, ...]:
    """The hand example, one rank, one unit a rank, four ranks."""
    draw = Draw(33)

    def case(name: str, batch: int, width: int, middle: int, ranks: int) -> Case:
        inputs = {
            "x": draw.normal(batch, width),
            "up": draw.normal(middle, width),
            "up_bias": draw.normal(middle),
            "down": draw.normal(width, middle),
            "down_bias": draw.normal(width),
            "ranks": ranks,
        }
        return Case(name, inputs)

    return (
        case("one rank", 2, 2, 2, 1),
        case("one unit a rank", 1, 1, 2, 2),
        case("two ranks", 2, 3, 4, 2),
        case("a square weight", 2, 4, 4, 2),
        case("three ranks", 2, 2, 6, 3),
        case("four ranks", 3, 4, 4, 4),
    )


CHECK = Check(
    id="shard.tensor_parallel.1",
    outputs=(Output("parts", "(ranks, B, D)"), Output("y", "(B, D)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "bias once a rank",
            "return parts, parts.sum(0) + down_bias",
            "parts = parts + down_bias\n    return parts, parts.sum(0)",
            "every rank adds down's bias to its part, so the sum holds it once a rank: "
            "add it after the sum, once",
        ),
        edit(
            "bias in one part",
            "return parts, parts.sum(0) + down_bias",
            "y = parts.sum(0) + down_bias\n    parts[0] += down_bias\n    return parts, y",
            "`y` is right, but rank 0's part holds the bias: ranks that do different "
            "things drift apart. Add it after the sum, where all have the same",
        ),
        edits(
            "activation after the sum",
            (".tanh()", ""),
            ("parts.sum(0)", "parts.sum(0).tanh()"),
            message="tanh is applied after the sum: it belongs to the middle, where each rank has "
            "whole units and can do it alone",
        ),
        edit(
            "mean of the parts",
            "parts.sum(0)",
            "parts.mean(0)",
            "the parts are averaged: each is a part of a sum, so they are added up",
        ),
        edit(
            "no bias in the middle",
            "x @ u.T + b",
            "x @ u.T",
            "the bias of `up` is left out: it belongs to the middle, before tanh",
        ),
        edit(
            "no bias at the end",
            " + down_bias",
            "",
            "the bias of `down` is left out: it is added once, after the sum over the ranks",
        ),
        edit(
            "dealt like cards",
            "zip(up.chunk(ranks, 0), up_bias.chunk(ranks), down.chunk(ranks, 1))",
            "[(up[r::ranks], up_bias[r::ranks], down[:, r::ranks]) for r in range(ranks)]",
            "`y` is right, but the middle is dealt to the ranks unit by unit: each has a "
            "piece that hangs together",
        ),
        edit(
            "first piece of the bias",
            "up_bias.chunk(ranks)",
            "[up_bias.chunk(ranks)[0]] * ranks",
            "every rank uses rank 0's piece of up's bias: it is cut like the outputs that "
            "it belongs to",
        ),
        edit(
            "another rank's columns",
            "down.chunk(ranks, 1)",
            "down.roll(down.shape[1] // ranks, 1).chunk(ranks, 1)",
            "a rank multiplies its piece of the middle with the columns of `down` of "
            "another rank: both are cut at the same places",
        ),
        edit(
            "everything everywhere",
            "return parts, parts.sum(0) + down_bias",
            "whole = parts.sum(0)\n"
            "    return (whole / ranks).expand(ranks, -1, -1).clone(), whole + down_bias",
            "`y` is right, but every rank computes everything and is given an equal "
            "share: a rank may use only its own piece",
        ),
    ),
    not_tested="the message, hidden biases beyond ±10, and gated MLPs, where two "
    "matrices are cut by their outputs.",
    gradient_to=("x", "up", "down"),
    draws=16,
    wide=(
        "x",
        "up",
        "up_bias",
        "down",
        "down_bias",
    ),
)
