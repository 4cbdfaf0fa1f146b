"""shard.tensor_parallel.1: an MLP cut by columns and then by rows."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]
Rows = list[list[float]]


def parallel_mlp(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    """Each rank: its outputs of `up`, tanh, its part of the sum of `down`; one sum at the end."""
    return _mlp(x, up, up_bias, down, down_bias, ranks)


def _mlp(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    ranks: int,
    *,
    bias_times: float = 1.0,
    activation_last: bool = False,
    mean: bool = False,
    no_up_bias: bool = False,
    dealt: bool = False,
) -> Pair:
    partial = []
    for rank in range(ranks):
        size = up.shape[0] // ranks
        mine = torch.arange(rank * size, (rank + 1) * size)
        if dealt:
            mine = torch.arange(rank, up.shape[0], ranks)
        middle = x @ up[mine].T
        if not no_up_bias:
            middle = middle + up_bias[mine]
        if not activation_last:
            middle = middle.tanh()
        partial.append(middle @ down[:, mine].T)
    parts = torch.stack(partial)
    whole = parts.mean(0) if mean else parts.sum(0)
    if activation_last:
        whole = whole.tanh()
    return parts, whole + bias_times * down_bias


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


def _bias_often(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    parts, whole = _mlp(x, up, up_bias, down, down_bias, ranks, bias_times=0.0)
    return parts + down_bias, whole + ranks * down_bias


def _bias_in_one(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    parts, whole = _mlp(x, up, up_bias, down, down_bias, ranks)
    first = torch.zeros(ranks, 1, 1, dtype=x.dtype)
    first[0] = 1.0
    return parts + first * down_bias, whole


def _activation_last(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias, down, down_bias, ranks, activation_last=True)


def _mean(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias, down, down_bias, ranks, mean=True)


def _no_up_bias(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias, down, down_bias, ranks, no_up_bias=True)


def _no_down_bias(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias, down, down_bias, ranks, bias_times=0.0)


def _dealt(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias, down, down_bias, ranks, dealt=True)


def _first_bias_everywhere(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    return _mlp(x, up, up_bias[: len(up_bias) // ranks].repeat(ranks), down, down_bias, ranks)


def _rows_of_down(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    shifted = down.roll(down.shape[1] // ranks, 1)
    return _mlp(x, up, up_bias, shifted, down_bias, ranks)


def _every_rank_everything(
    x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, ranks: int
) -> Pair:
    whole = _mlp(x, up, up_bias, down, down_bias, ranks)[1]
    return ((whole - down_bias) / ranks).expand(ranks, -1, -1).clone(), whole


TENSOR_PARALLEL = Exercise(
    id="shard.tensor_parallel.1",
    title="An MLP over several ranks",
    chapter=33,
    difficulty=3,
    minutes=25,
    goal=(
        "Each rank computes tanh of its equal piece of the middle (up is cut by its outputs) and "
        "from it its part of the sum of every output (down is cut by its inputs); the parts of "
        "all ranks, and their sum with down's bias added once."
    ),
    outputs=(Output("parts", "(ranks, B, D)"), Output("y", "(B, D)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=parallel_mlp,
    gradient_to=("x", "up", "down"),
    draws=16,
    mutants=(
        Mutant(
            "bias once a rank",
            _bias_often,
            "every rank adds down's bias to its part, so the sum holds it once a rank: add it "
            "after the sum, once",
        ),
        Mutant(
            "bias in one part",
            _bias_in_one,
            "`y` is right, but rank 0's part holds the bias: ranks that do different things drift "
            "apart. Add it after the sum, where all have the same",
        ),
        Mutant(
            "activation after the sum",
            _activation_last,
            "tanh is applied after the sum: it belongs to the middle, where each rank has whole "
            "units and can do it alone",
        ),
        Mutant(
            "mean of the parts",
            _mean,
            "the parts are averaged: each is a part of a sum, so they are added up",
        ),
        Mutant(
            "no bias in the middle",
            _no_up_bias,
            "the bias of `up` is left out: it belongs to the middle, before tanh",
        ),
        Mutant(
            "no bias at the end",
            _no_down_bias,
            "the bias of `down` is left out: it is added once, after the sum over the ranks",
        ),
        Mutant(
            "dealt like cards",
            _dealt,
            "`y` is right, but the middle is dealt to the ranks unit by unit: each has a piece "
            "that hangs together",
        ),
        Mutant(
            "first piece of the bias",
            _first_bias_everywhere,
            "every rank uses rank 0's piece of up's bias: it is cut like the outputs that it "
            "belongs to",
        ),
        Mutant(
            "another rank's columns",
            _rows_of_down,
            "a rank multiplies its piece of the middle with the columns of `down` of another rank: "
            "both are cut at the same places",
        ),
        Mutant(
            "everything everywhere",
            _every_rank_everything,
            "`y` is right, but every rank computes everything and is given an equal share: a rank "
            "may use only its own piece",
        ),
    ),
    not_tested="the message, and gated MLPs, where two matrices are cut by their outputs.",
)
