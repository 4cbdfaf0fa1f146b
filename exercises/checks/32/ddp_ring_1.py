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

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="ddp.ring.1",
    outputs=(
        Output("total", "(P, N)"),
        Output("sent", "numbers that a rank sent, by exchange", "python"),
        Output("needs the wire", "whether it knows other rows by `exchange` alone", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "first trip only",
            "        arrived = exchange(chunks[rank, (rank + 1 - step) % ranks])\n"
            "        chunks[rank, (rank - step) % ranks] = arrived\n",
            "        pass\n",
            "the second trip is missing: each rank has the whole sum of one chunk, and "
            "parts of the others",
        ),
        edit(
            "added on the second trip",
            "] = arrived",
            "] += arrived",
            "the second trip adds what arrives; those chunks are finished, so they replace",
        ),
        edits(
            "own chunk first on the second trip",
            ("(rank + 1 - step)", "(rank - step)"),
            (
                "chunks[rank, (rank - step) % ranks] = arrived",
                "chunks[rank, (rank - step - 1) % ranks] = arrived",
            ),
            message="the second trip begins with chunk r on rank r; what is finished there is "
            "chunk r + 1, the last one that it received",
        ),
        edits(
            "one step short",
            (
                "range(ranks - 1):\n"
                "        arrived = exchange(chunks[rank, (rank - step) % ranks])",
                "range(ranks - 2):\n"
                "        arrived = exchange(chunks[rank, (rank - step) % ranks])",
            ),
            (
                "range(ranks - 1):\n        arrived = exchange(chunks[rank, (rank + 1 - step)",
                "range(ranks - 2):\n        arrived = exchange(chunks[rank, (rank + 1 - step)",
            ),
            message="each trip is one step too short: a chunk passes P - 1 neighbours",
        ),
        edits(
            "one step too many",
            (
                "range(ranks - 1):\n"
                "        arrived = exchange(chunks[rank, (rank - step) % ranks])",
                "range(ranks):\n        arrived = exchange(chunks[rank, (rank - step) % ranks])",
            ),
            (
                "range(ranks - 1):\n        arrived = exchange(chunks[rank, (rank + 1 - step)",
                "range(ranks):\n        arrived = exchange(chunks[rank, (rank + 1 - step)",
            ),
            message="each trip has P steps: in the last one a rank gets back what it has added "
            "already",
        ),
        edits(
            "one chunk number for all",
            ("(rank - step) % ranks])", "-step % ranks])"),
            ("(rank - step - 1)", "-step"),
            message="all ranks send the same chunk number at a time, so that numbers are counted "
            "twice: the chunk must depend on the rank, (rank - step) mod P",
        ),
        edit(
            "added to the chunk that was sent",
            "(rank - step - 1)",
            "(rank - step)",
            "what arrives is added to the chunk that was just sent; the left neighbour "
            "sent the chunk one below",
        ),
        edit(
            "from the wrong side",
            "(rank - step - 1)",
            "(rank - step + 1)",
            "what arrives is added to the chunk one above the one sent, as if it came "
            "from the right; it comes from the left neighbour, whose chunk is one below",
        ),
        edit(
            "mean",
            "[:, :size]",
            "[:, :size] / ranks",
            "this is the mean over ranks; the sum is asked for",
        ),
        edit(
            "whole rows travel",
            "    rank = torch",
            "    total, travelling = x.clone(), x\n"
            "    for _ in range(ranks - 1):\n"
            "        travelling = exchange(travelling)\n"
            "        total = total + travelling\n"
            "    return total\n"
            "    rank = torch",
            "whole rows go around the ring: the sum is right, but each rank sends (P - 1) "
            "rows instead of 2 (P - 1) / P of one",
        ),
        edits(
            "remainder lost",
            (
                "    chunks = pad(x, (0, -size % ranks))",
                "    even = size - size % ranks\n    chunks = x[:, :even]",
            ),
            (
                "return chunks.view(ranks, -1)[:, :size]",
                "return torch.cat([chunks.view(ranks, -1), x[:, even:]], 1)",
            ),
            message="the numbers left over when P does not divide N are never summed: pad with "
            "zeros first, and cut the padding off at the end",
        ),
        edit(
            "nothing sent",
            "    rank = torch",
            "    return x.sum(0, keepdim=True).expand_as(x).clone()\n    rank = torch",
            "nothing went through `exchange`: a rank cannot read another one's row",
        ),
        edit(
            "zeros sent",
            "    rank = torch",
            "    for _ in range(2 * (ranks - 1)):\n"
            "        exchange(x.new_zeros(ranks, -(-size // ranks)))\n"
            "    return x.sum(0, keepdim=True).expand_as(x).clone()\n"
            "    rank = torch",
            "messages of the right size travel, but the sum is not made of them: it is "
            "the same when the wire is cut. A rank knows its own row, and what arrives",
        ),
    ),
    not_tested="real processes, where a send that nobody receives waits for ever, and speed.",
    call=call,
)
