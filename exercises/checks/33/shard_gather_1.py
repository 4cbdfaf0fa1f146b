"""shard.gather.1: a unit's parameters out of everybody's shards."""

import torch
from shard_layers import layer

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits
from bookkit.exercises.registry import get_exercise

cut = get_exercise("shard.cut.1").reference


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


CHECK = Check(
    id="shard.gather.1",
    outputs=(Output("weight", "(out, into)"), Output("bias", "(out,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "bias from the end",
            "flat[out * into : out * into + out]",
            "flat[-out:]",
            "the bias is taken from the end of the row, where the padding stands: count "
            "from the front",
        ),
        edit(
            "padding kept",
            "flat[out * into : out * into + out]",
            "flat[out * into :]",
            "the padding is still there: the bias ends after `out` numbers",
        ),
        edit(
            "interleaved",
            "torch.cat(shards)",
            "torch.stack(shards, 1).flatten()",
            "the shards are woven into each other; they stand end to end, rank 0 first",
        ),
        edit(
            "backwards",
            "torch.cat(shards)",
            "torch.cat(shards[::-1])",
            "the last rank's shard comes first; rank 0 comes first",
        ),
        edit(
            "shape exchanged",
            ".view(out, into)",
            ".view(into, out)",
            "the weight has shape (into, out); a linear layer's is (out, into)",
        ),
        edit(
            "column by column",
            ".view(out, into)",
            ".view(into, out).T.clone()",
            "the weight is filled column by column; `view` fills row by row, as `flatten` read it",
        ),
        edits(
            "bias first",
            ("flat[: out * into].view(out, into)", "flat[out : out + out * into].view(out, into)"),
            ("flat[out * into : out * into + out]", "flat[:out]"),
            message="the bias is read before the weight: the weight is first",
        ),
        edit(
            "summed",
            "torch.cat(shards)",
            "torch.stack(shards).sum(0).repeat(len(shards))",
            "shards are added up: that is an all-reduce. A gather puts them end to end",
        ),
        edits(
            "zeros dropped",
            ("torch.cat(shards)", "torch.cat(shards)\n    flat = flat[flat != 0]"),
            ("flat[: out * into].view(out, into)", "flat[:-out].view(out, into)"),
            ("flat[out * into : out * into + out]", "flat[-out:]"),
            message="padding is found by its value 0: a weight may be 0 too, and padding may be "
            "anything. Go by the count",
        ),
    ),
    not_tested="the message itself: in one process nobody has to wait for anybody.",
    wide=("shards",),
)
