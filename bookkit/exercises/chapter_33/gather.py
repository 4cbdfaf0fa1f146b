"""shard.gather.1: a unit's parameters out of everybody's shards."""

import torch
from torch import Tensor

from bookkit.exercises.chapter_33.cut import cut, layer
from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def gather(shards: list[Tensor], out: int, into: int) -> Pair:
    """Join the shards, cut the padding off, view the two parts in their shapes."""
    flat = torch.cat(shards)
    return flat[: out * into].view(out, into), flat[out * into : out * into + out]


def oracle(shards: list[list[float]], out: int, into: int) -> tuple[list[list[float]], list[float]]:
    """Take the entries one by one from the front of a queue."""
    queue = [x for shard in shards for x in shard]
    weight = [[queue.pop(0) for _ in range(into)] for _ in range(out)]
    return weight, [queue.pop(0) for _ in range(out)]


def cases(draw: Draw) -> Case:
    """A small layer that was cut for one to five ranks."""
    out, into, ranks = draw.dimension(), draw.dimension(), draw.integer(1, 5)
    shards = list(cut(draw.normal(out, into), draw.normal(out), ranks))
    inputs = {"shards": [s.clone() for s in shards], "out": out, "into": into}
    return Case(f"({out}, {into}) from {ranks} ranks", inputs)


def edges() -> tuple[Case, ...]:
    """One rank, sizes that do and do not divide, padding on several ranks, noise in the padding."""

    def case(name: str, out: int, into: int, ranks: int, padding: float = 0.0) -> Case:
        shards = cut(*layer(out, into), ranks)
        shards = torch.where(shards == 0, padding, shards)
        inputs = {"shards": [s.clone() for s in shards], "out": out, "into": into}
        return Case(name, inputs)

    return (
        case("one rank", 2, 3, 1),
        case("the hand example", 2, 3, 3),
        case("it divides", 2, 3, 4),
        case("square", 2, 2, 4),
        case("more ranks than numbers", 1, 1, 5),
        case("one output", 1, 3, 3),
        case("one input", 3, 1, 2),
        case("rubbish in the padding", 2, 3, 3, 99.0),
    )


def _from_the_end(shards: list[Tensor], out: int, into: int) -> Pair:
    flat = torch.cat(shards)
    return flat[: out * into].view(out, into), flat[-out:]


def _rest_is_bias(shards: list[Tensor], out: int, into: int) -> Pair:
    flat = torch.cat(shards)
    return flat[: out * into].view(out, into), flat[out * into :]


def _interleaved(shards: list[Tensor], out: int, into: int) -> Pair:
    return gather([torch.stack(shards, 1).flatten()], out, into)


def _backwards(shards: list[Tensor], out: int, into: int) -> Pair:
    return gather(shards[::-1], out, into)


def _transposed(shards: list[Tensor], out: int, into: int) -> Pair:
    flat, bias = gather(shards, out, into)
    return flat.reshape(into, out), bias


def _columns(shards: list[Tensor], out: int, into: int) -> Pair:
    flat, bias = gather(shards, out, into)
    return flat.reshape(into, out).T.clone(), bias


def _bias_first(shards: list[Tensor], out: int, into: int) -> Pair:
    flat = torch.cat(shards)
    return flat[out : out + out * into].view(out, into), flat[:out]


def _summed(shards: list[Tensor], out: int, into: int) -> Pair:
    whole = torch.stack(shards).sum(0)
    return gather([whole] * len(shards), out, into)


def _zeros_dropped(shards: list[Tensor], out: int, into: int) -> Pair:
    flat = torch.cat(shards)
    flat = flat[flat != 0]
    return flat[:-out].view(out, into), flat[-out:]


GATHER = Exercise(
    id="shard.gather.1",
    title="Gather a unit",
    chapter=33,
    difficulty=2,
    minutes=15,
    goal=(
        "From the shards of all ranks, in order, give the weight (out, into) and the bias (out,) "
        "of the layer that was cut; what stands behind them is padding."
    ),
    outputs=(Output("weight", "(out, into)"), Output("bias", "(out,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=gather,
    mutants=(
        Mutant(
            "bias from the end",
            _from_the_end,
            "the bias is taken from the end of the row, where the padding stands: count from the "
            "front",
        ),
        Mutant(
            "padding kept",
            _rest_is_bias,
            "the padding is still there: the bias ends after `out` numbers",
        ),
        Mutant(
            "interleaved",
            _interleaved,
            "the shards are woven into each other; they stand end to end, rank 0 first",
        ),
        Mutant("backwards", _backwards, "the last rank's shard comes first; rank 0 comes first"),
        Mutant(
            "shape exchanged",
            _transposed,
            "the weight has shape (into, out); a linear layer's is (out, into)",
        ),
        Mutant(
            "column by column",
            _columns,
            "the weight is filled column by column; `view` fills row by row, as `flatten` read it",
        ),
        Mutant(
            "bias first", _bias_first, "the bias is read before the weight: the weight is first"
        ),
        Mutant(
            "summed",
            _summed,
            "shards are added up: that is an all-reduce. A gather puts them end to end",
        ),
        Mutant(
            "zeros dropped",
            _zeros_dropped,
            "padding is found by its value 0: a weight may be 0 too, and padding may be anything. "
            "Go by the count",
        ),
    ),
    not_tested="the message itself: in one process nobody has to wait for anybody.",
)
