"""shard.reduce_scatter.1: each rank's part of the mean gradient."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(gradients: list[list[list[float]]]) -> list[list[float]]:
    """Every owner asks every rank for its entries, one by one."""
    ranks = len(gradients)
    flat = [[x for row in gradient for x in row] for gradient in gradients]
    size = -(-len(flat[0]) // ranks)
    shards = []
    for owner in range(ranks):
        places = range(owner * size, (owner + 1) * size)
        shards.append(
            [sum(g[i] for g in flat) / ranks if i < len(flat[0]) else 0.0 for i in places]
        )
    return shards


def cases(draw: Draw) -> Case:
    """Gradients of a small weight on one to five ranks."""
    rows, columns, ranks = draw.dimension(), draw.dimension(), draw.integer(1, 5)
    gradients = [draw.normal(rows, columns) for _ in range(ranks)]
    return Case(f"({rows}, {columns}) on {ranks} ranks", {"gradients": gradients})


def edges() -> tuple[Case, ...]:
    """One rank, sizes that do and do not divide, square, one entry."""

    def case(name: str, rows: int, columns: int, ranks: int) -> Case:
        first = torch.arange(1.0, rows * columns + 1, dtype=torch.float64).view(rows, columns)
        return Case(name, {"gradients": [first * 3**r for r in range(ranks)]})

    return (
        case("one rank", 2, 2, 1),
        case("the hand example", 1, 4, 2),
        case("it does not divide", 1, 5, 2),
        case("three ranks", 2, 3, 3),
        case("three ranks, seven numbers", 1, 7, 3),
        case("square", 2, 2, 4),
        case("one number on three ranks", 1, 1, 3),
    )


CHECK = Check(
    id="shard.reduce_scatter.1",
    outputs=(Output("shards", "(ranks, S)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "summed",
            "mean(0)",
            "sum(0)",
            "it is the sum over the ranks: the learning rate would grow with their "
            "number. Each rank's loss is a mean over its own rows, so the gradients are "
            "averaged",
        ),
        edit(
            "own piece",
            "return torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(ranks, -1)",
            "rest = -mean.numel() % ranks\n"
            "    flat = [torch.nn.functional.pad(g.flatten(), (0, rest)) for g in "
            "gradients]\n"
            "    return torch.stack([g.view(ranks, -1)[rank] for rank, g in "
            "enumerate(flat)])",
            "every rank keeps the piece of its own gradient: the others' rows never "
            "count. Add up first, then cut",
        ),
        edit(
            "own piece divided",
            "return torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(ranks, -1)",
            "rest = -mean.numel() % ranks\n"
            "    flat = [torch.nn.functional.pad(g.flatten(), (0, rest)) for g in "
            "gradients]\n"
            "    return torch.stack([g.view(ranks, -1)[rank] for rank, g in "
            "enumerate(flat)]) / ranks",
            "every rank divides its own piece by the number of ranks, and nothing was added up",
        ),
        edit(
            "the next piece",
            ".view(ranks, -1)",
            ".view(ranks, -1).roll(-1, 0)",
            "each rank ends with the piece of its neighbour, as a ring leaves them: rank "
            "r owns piece r",
        ),
        edit(
            "everything",
            "torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(ranks, -1)",
            "mean.expand(ranks, -1).clone()",
            "each rank keeps the whole mean: that is an all-reduce, and P times the memory",
        ),
        edits(
            "divided by the shard",
            ("mean(0)", "sum(0)"),
            (".view(ranks, -1)", ".view(ranks, -1) / -(-mean.numel() // ranks)"),
            message="the sum is divided by the length of a shard; divide by the number of ranks",
        ),
        edit(
            "rest dropped",
            "torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(ranks, -1)",
            "mean[: mean.numel() // ranks * ranks].view(ranks, -1)",
            "what is left over after an equal division is dropped: pad the gradient as "
            "the weights were padded, or the shards do not fit each other",
        ),
        edit(
            "first rank alone",
            "torch.stack(gradients).flatten(1).mean(0)",
            "gradients[0].flatten()",
            "rank 0's gradient is scattered and the others are left out",
        ),
        edit(
            "dealt like cards",
            ".view(ranks, -1)",
            ".view(-1, ranks).T.clone()",
            "entries are dealt to the ranks one by one: the shards must be cut as the weights were",
        ),
    ),
    not_tested="ranks with different numbers of tokens, where a mean of means is not the mean.",
    wide=("gradients",),
)
