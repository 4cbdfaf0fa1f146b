"""shard.reduce_scatter.1: each rank's part of the mean gradient."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def reduce_scatter(gradients: list[Tensor]) -> Tensor:
    """Row r is rank r's piece of the mean over ranks; the last rows may hold padding."""
    ranks = len(gradients)
    mean = torch.stack(gradients).flatten(1).mean(0)
    return torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(ranks, -1)


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


def _padded(flat: Tensor, ranks: int) -> Tensor:
    return torch.nn.functional.pad(flat, (0, -flat.numel() % ranks)).view(ranks, -1)


def _summed(gradients: list[Tensor]) -> Tensor:
    return reduce_scatter(gradients) * len(gradients)


def _own_piece(gradients: list[Tensor]) -> Tensor:
    ranks = len(gradients)
    return torch.stack([_padded(g.flatten(), ranks)[r] for r, g in enumerate(gradients)])


def _own_piece_divided(gradients: list[Tensor]) -> Tensor:
    return _own_piece(gradients) / len(gradients)


def _next_piece(gradients: list[Tensor]) -> Tensor:
    return reduce_scatter(gradients).roll(-1, 0)


def _everything(gradients: list[Tensor]) -> Tensor:
    mean = torch.stack(gradients).flatten(1).mean(0)
    return mean.expand(len(gradients), -1).clone()


def _mean_of_shard(gradients: list[Tensor]) -> Tensor:
    shards = _summed(gradients)
    return shards / shards.shape[1]


def _rest_dropped(gradients: list[Tensor]) -> Tensor:
    ranks = len(gradients)
    mean = torch.stack(gradients).flatten(1).mean(0)
    return mean[: mean.numel() // ranks * ranks].view(ranks, -1)


def _first_rank_alone(gradients: list[Tensor]) -> Tensor:
    return _padded(gradients[0].flatten(), len(gradients))


def _dealt(gradients: list[Tensor]) -> Tensor:
    ranks = len(gradients)
    mean = torch.stack(gradients).flatten(1).mean(0)
    return torch.nn.functional.pad(mean, (0, -mean.numel() % ranks)).view(-1, ranks).T.clone()


REDUCE_SCATTER = Exercise(
    id="shard.reduce_scatter.1",
    title="Reduce-scatter",
    chapter=33,
    difficulty=2,
    minutes=15,
    goal=(
        "From the whole gradient of every rank give each rank its shard of the mean over the "
        "ranks, flat, padded with zeros at the end where the ranks do not divide the size."
    ),
    outputs=(Output("shards", "(ranks, S)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=reduce_scatter,
    mutants=(
        Mutant(
            "summed",
            _summed,
            "it is the sum over the ranks: the learning rate would grow with their number. Each "
            "rank's loss is a mean over its own rows, so the gradients are averaged",
        ),
        Mutant(
            "own piece",
            _own_piece,
            "every rank keeps the piece of its own gradient: the others' rows never count. Add up "
            "first, then cut",
        ),
        Mutant(
            "own piece divided",
            _own_piece_divided,
            "every rank divides its own piece by the number of ranks, and nothing was added up",
        ),
        Mutant(
            "the next piece",
            _next_piece,
            "each rank ends with the piece of its neighbour, as a ring leaves them: rank r owns "
            "piece r",
        ),
        Mutant(
            "everything",
            _everything,
            "each rank keeps the whole mean: that is an all-reduce, and P times the memory",
        ),
        Mutant(
            "divided by the shard",
            _mean_of_shard,
            "the sum is divided by the length of a shard; divide by the number of ranks",
        ),
        Mutant(
            "rest dropped",
            _rest_dropped,
            "what is left over after an equal division is dropped: pad the gradient as the "
            "weights were padded, or the shards do not fit each other",
        ),
        Mutant(
            "first rank alone",
            _first_rank_alone,
            "rank 0's gradient is scattered and the others are left out",
        ),
        Mutant(
            "dealt like cards",
            _dealt,
            "entries are dealt to the ranks one by one: the shards must be cut as the weights were",
        ),
    ),
    not_tested="ranks with different numbers of tokens, where a mean of means is not the mean.",
)
