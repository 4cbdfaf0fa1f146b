"""ddp.ring.1: the sum over all ranks, by messages to the right neighbour alone.

All ranks live in one tensor, a row each. The check hands over the only wire there is, `exchange`,
and notes how much went through it. Then it cuts the wire: whatever is sent, the same numbers
arrive. Now a rank's result may depend on its own row alone, so that a function that looks at its
neighbours' rows is found, whatever it sends.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Exchange = Callable[[Tensor], Tensor]
Shift = Callable[[int], int]


def ring_all_reduce(x: Tensor, exchange: Exchange) -> Tensor:
    """Chunks collect their sum on a first trip and are handed on during a second."""
    return _ring(x, exchange)


def _ring(
    x: Tensor,
    exchange: Exchange,
    *,
    steps: int = 0,
    second: bool = True,
    add_again: bool = False,
    begin: int = 1,
    by_rank: int = 1,
    into: int = 1,
) -> Tensor:
    ranks, size = x.shape
    chunks = pad(x, (0, -size % ranks)).view(ranks, ranks, -1).clone()
    rank = torch.arange(ranks)
    for step in range(ranks - 1 + steps):
        arrived = exchange(chunks[rank, (by_rank * rank - step) % ranks])
        chunks[rank, (by_rank * rank - step - into) % ranks] += arrived
    for step in range(ranks - 1 + steps if second else 0):
        arrived = exchange(chunks[rank, (rank + begin - step) % ranks])
        place = (rank + begin - step - 1) % ranks
        chunks[rank, place] = chunks[rank, place] + arrived if add_again else arrived
    return chunks.view(ranks, -1)[:, :size]


def call(function: Callable[..., Any], x: Tensor) -> Any:
    """Its result, the numbers that a rank sent each time, and whether it needs the wire."""
    ranks = x.shape[0]
    sent: list[int] = []

    def exchange(outgoing: Tensor) -> Tensor:
        if outgoing.ndim < 1 or outgoing.shape[0] != ranks:
            raise RuntimeError(
                f"exchange takes one row a rank, ({ranks}, ...); it was given a tensor of shape "
                f"{tuple(outgoing.shape)}"
            )
        if len(sent) > 4 * ranks + 4:
            raise RuntimeError(f"exchange was called {len(sent)} times by {ranks} ranks")
        sent.append(outgoing.numel() // ranks)
        return outgoing.roll(1, 0)

    return function(x, exchange), sent, _needs_the_wire(function, x.detach())


def _needs_the_wire(function: Callable[..., Any], x: Tensor) -> bool:
    """Whether no rank's result changes with another rank's row when the wire is cut."""

    def cut(outgoing: Tensor) -> Tensor:
        return torch.full_like(outgoing, 0.5)

    first = function(x.clone(), cut)
    if not isinstance(first, Tensor) or first.shape != x.shape:
        return True  # the result itself is wrong, and the check says how
    first = first.clone()
    for rank in range(x.shape[0]):
        others = x + 1.0
        others[rank] = x[rank]
        if not torch.equal(function(others, cut)[rank], first[rank]):
            return False
    return True


def oracle(x: list[list[float]]) -> tuple[list[list[float]], list[int], bool]:
    """Column sums, and two trips of P - 1 messages of a P-th of a row, rounded up."""
    ranks, size = len(x), len(x[0])
    total = [0.0] * size
    for row in x:
        total = [a + b for a, b in zip(total, row, strict=True)]
    sent = [(size + ranks - 1) // ranks] * (2 * (ranks - 1))
    return [list(total) for _ in range(ranks)], sent, True


def cases(draw: Draw) -> Case:
    """Any number of ranks, any size."""
    ranks, size = draw.integer(1, 5), draw.integer(1, 4 + draw.size)
    return Case(f"{ranks} ranks, {size} numbers each", {"x": draw.normal(ranks, size)})


def edges() -> tuple[Case, ...]:
    """One rank, two, sizes that the ranks do not divide, fewer numbers than ranks."""

    def case(name: str, x: list[list[float]]) -> Case:
        return Case(name, {"x": torch.tensor(x, dtype=torch.float64)})

    def powers(ranks: int, size: int) -> list[list[float]]:
        return [[float(2 ** (r * size + i)) for i in range(size)] for r in range(ranks)]

    return (
        case("one rank", [[3.0, 4.0]]),
        case("two ranks, two numbers", [[1.0, 2.0], [10.0, 20.0]]),
        case("the hand example", [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [100.0, 200.0, 300.0]]),
        case("two ranks, three numbers", powers(2, 3)),
        case("three ranks, seven numbers", powers(3, 7)),
        case("four ranks, four numbers", powers(4, 4)),
        case("four ranks, two numbers", powers(4, 2)),
    )


def _first_trip(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, second=False)


def _added_twice(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, add_again=True)


def _own_first(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, begin=0)


def _one_short(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, steps=-1)


def _one_more(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, steps=1)


def _same_number(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, by_rank=0, into=0)


def _into_the_sent(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, into=0)


def _from_the_right(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange, into=-1)


def _mean(x: Tensor, exchange: Exchange) -> Tensor:
    return _ring(x, exchange) / x.shape[0]


def _whole(x: Tensor, exchange: Exchange) -> Tensor:
    total, travelling = x.clone(), x
    for _ in range(x.shape[0] - 1):
        travelling = exchange(travelling)
        total = total + travelling
    return total


def _rest_lost(x: Tensor, exchange: Exchange) -> Tensor:
    ranks, size = x.shape
    even = size - size % ranks
    return torch.cat([_ring(x[:, :even], exchange), x[:, even:]], 1)


def _no_wire(x: Tensor, exchange: Exchange) -> Tensor:
    return x.sum(0, keepdim=True).expand_as(x).clone()


def _zeros_sent(x: Tensor, exchange: Exchange) -> Tensor:
    ranks, size = x.shape
    for _ in range(2 * (ranks - 1)):
        exchange(x.new_zeros(ranks, -(-size // ranks)))
    return _no_wire(x, exchange)


RING = Exercise(
    id="ddp.ring.1",
    title="All-reduce on a ring",
    chapter=32,
    difficulty=3,
    minutes=30,
    goal=(
        "The sum over all ranks, on every rank, where a rank can do nothing but send to its right "
        "neighbour and receive from its left one, a P-th of its numbers at a time."
    ),
    outputs=(
        Output("total", "(P, N)"),
        Output("sent", "numbers that a rank sent, by exchange", "python"),
        Output("needs the wire", "whether it knows other rows by `exchange` alone", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=ring_all_reduce,
    call=call,
    mutants=(
        Mutant(
            "first trip only",
            _first_trip,
            "the second trip is missing: each rank has the whole sum of one chunk, and parts of "
            "the others",
        ),
        Mutant(
            "added on the second trip",
            _added_twice,
            "the second trip adds what arrives; those chunks are finished, so they replace",
        ),
        Mutant(
            "own chunk first on the second trip",
            _own_first,
            "the second trip begins with chunk r on rank r; what is finished there is chunk r + 1, "
            "the last one that it received",
        ),
        Mutant(
            "one step short",
            _one_short,
            "each trip is one step too short: a chunk passes P - 1 neighbours",
        ),
        Mutant(
            "one step too many",
            _one_more,
            "each trip has P steps: in the last one a rank gets back what it has added already",
        ),
        Mutant(
            "one chunk number for all",
            _same_number,
            "all ranks send the same chunk number at a time, so that numbers are counted twice: "
            "the chunk must depend on the rank, (rank - step) mod P",
        ),
        Mutant(
            "added to the chunk that was sent",
            _into_the_sent,
            "what arrives is added to the chunk that was just sent; the left neighbour sent the "
            "chunk one below",
        ),
        Mutant(
            "from the wrong side",
            _from_the_right,
            "what arrives is added to the chunk one above the one sent, as if it came from the "
            "right; it comes from the left neighbour, whose chunk is one below",
        ),
        Mutant("mean", _mean, "this is the mean over ranks; the sum is asked for"),
        Mutant(
            "whole rows travel",
            _whole,
            "whole rows go around the ring: the sum is right, but each rank sends (P - 1) rows "
            "instead of 2 (P - 1) / P of one",
        ),
        Mutant(
            "remainder lost",
            _rest_lost,
            "the numbers left over when P does not divide N are never summed: pad with zeros "
            "first, and cut the padding off at the end",
        ),
        Mutant(
            "nothing sent",
            _no_wire,
            "nothing went through `exchange`: a rank cannot read another one's row",
        ),
        Mutant(
            "zeros sent",
            _zeros_sent,
            "messages of the right size travel, but the sum is not made of them: it is the same "
            "when the wire is cut. A rank knows its own row, and what arrives",
        ),
    ),
    not_tested="real processes, where a send that nobody receives waits for ever, and speed.",
)
