"""ppo.minibatch.1: every row once an epoch, in a fresh order.

What a random function returns cannot be compared with one answer. The check therefore runs it with
seeded generators and compares what must be so whatever was drawn: sizes, how often each row
occurs, whether the fields still belong together, and what the order depends on.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Batch = dict[str, Tensor]


ROWS_FOR_ORDER = 20  # 20! orders: two equal ones are no accident


def call(function: Callable[..., Any], rows: int, size: int, epochs: int, seed: int) -> Any:
    """Give the function rows that carry their own number, and note what must hold of the result."""

    def run(with_seed: int) -> list[Batch]:
        numbers = torch.arange(rows)
        batch = {
            "observations": torch.stack([numbers, -numbers], dim=1).double(),
            "actions": numbers.clone(),
            "advantages": 2.0 * numbers.double(),
        }
        generator = torch.Generator().manual_seed(with_seed)
        return list(function(batch, size, epochs, generator))

    made = run(seed)
    sizes = [int(piece["actions"].shape[0]) for piece in made]
    order = [int(row) for piece in made for row in piece["actions"].tolist()]
    times = [order.count(row) for row in range(rows)]
    per_epoch = [
        sorted(order[start : start + rows]) == list(range(rows))
        for start in range(0, rows * epochs, rows)
    ]
    together = all(
        torch.equal(piece["observations"][:, 0], piece["actions"].double())
        and torch.equal(piece["observations"][:, 1], -piece["actions"].double())
        and torch.equal(piece["advantages"], 2.0 * piece["actions"].double())
        for piece in made
    )
    shuffled = fresh = seeded = drawn = None
    if rows >= ROWS_FOR_ORDER:
        again, other = run(seed), run(seed + 1)

        def flat(pieces: list[Batch]) -> list[int]:
            return [int(row) for piece in pieces for row in piece["actions"].tolist()]

        shuffled = order[:rows] != list(range(rows))
        fresh = epochs < 2 or order[:rows] != order[rows : 2 * rows]
        seeded = flat(again) == order
        drawn = flat(other) != order
    facts = {
        "shuffled": shuffled,
        "another order each epoch": fresh,
        "the same seed repeats it": seeded,
        "another seed changes it": drawn,
    }
    return sizes, {"times": times, "once an epoch": per_epoch}, together, facts


def oracle(
    rows: int, size: int, epochs: int, seed: int
) -> tuple[list[int], dict[str, Any], bool, dict[str, Any]]:
    """What must be so, counted out."""
    sizes = []
    for _ in range(epochs):
        left = rows
        while left > 0:
            sizes.append(min(size, left))
            left -= size
    known = True if rows >= ROWS_FOR_ORDER else None
    facts = {
        "shuffled": known,
        "another order each epoch": known,
        "the same seed repeats it": known,
        "another seed changes it": known,
    }
    return sizes, {"times": [epochs] * rows, "once an epoch": [True] * epochs}, True, facts


def _case(name: str, rows: int, size: int, epochs: int, seed: int = 7) -> Case:
    return Case(name, {"rows": rows, "size": size, "epochs": epochs, "seed": seed})


def cases(draw: Draw) -> Case:
    """Sizes that divide the rows and sizes that do not."""
    rows, size = draw.integer(1, 5 * draw.size), draw.integer(1, 8)
    epochs, seed = draw.integer(1, 3), draw.integer(0, 10_000)
    return _case(f"{rows} rows in pieces of {size}, epochs: {epochs}", rows, size, epochs, seed)


def edges() -> tuple[Case, ...]:
    """One row, an exact cut, a rest, a piece larger than the batch, many rows."""
    return (
        _case("one row", 1, 1, 1),
        _case("an exact cut", 6, 3, 2),
        _case("a rest", 7, 3, 2),
        _case("a piece larger than the batch", 4, 10, 2),
        _case("enough rows to see the order", 40, 8, 3),
        _case("enough rows, one epoch", 40, 8, 1),
        _case("enough rows, a rest", 41, 8, 2),
    )


CHECK = Check(
    id="ppo.minibatch.1",
    outputs=(
        Output("sizes", "one number a minibatch", "python"),
        Output("rows", "how often each row occurs", "python"),
        Output("fields together", "True or False", "python"),
        Output("order", "facts, None for few rows", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "with replacement",
            "torch.randperm(rows, generator=generator)",
            "torch.randint(rows, (rows,), generator=generator)",
            "rows are drawn with replacement: some come twice in an epoch and about a "
            "third never. Permute (`torch.randperm`) and cut",
        ),
        edit(
            "no shuffle",
            "torch.randperm(rows, generator=generator)",
            "torch.arange(rows)",
            "the rows stay in their order: neighbours in time share a minibatch, and its "
            "gradient is that of one moment. Permute first",
        ),
        edits(
            "one order for all epochs",
            (
                'rows = len(batch["actions"])',
                'order = torch.randperm(len(batch["actions"]), generator=generator)',
            ),
            ("torch.randperm(rows, generator=generator)", "order"),
            message="all epochs use one and the same permutation, so the same rows meet again and "
            "again: draw a new one in each epoch",
        ),
        edit(
            "rest dropped",
            ".split(size)",
            ".split(size)\n        if len(index) == size",
            "the rest that does not fill a minibatch is dropped: keep the smaller last piece",
        ),
        edits(
            "fields shuffled apart",
            (
                '    rows = len(batch["actions"])\n',
                '    rows = len(batch["actions"])\n'
                "    apart = [\n"
                "        {n: f[torch.randperm(rows, generator=generator)] for n, f in "
                "batch.items()}\n"
                "        for _ in range(epochs)\n"
                "    ]\n",
            ),
            (
                "in batch.items()}\n"
                "        for _ in range(epochs)\n"
                "        for index in torch.randperm(rows, generator=generator)",
                "in one.items()}\n"
                "        for one in apart\n"
                "        for index in torch.arange(rows)",
            ),
            message="each field gets a permutation of its own, so observations meet the actions "
            "of other rows: draw one index and use it for all fields",
        ),
        edit("one epoch", "(epochs)", "(1)", "`epochs` has no effect: the batch is used only once"),
        edit(
            "size is a number of pieces",
            "split",
            "chunk",
            "`size` is taken for the number of minibatches; it is the number of rows in "
            "each (`split`, not `chunk`)",
        ),
        edit(
            "seed fixed inside",
            "rows =",
            "generator = torch.Generator().manual_seed(0)\n    rows =",
            "`generator` has no effect and the order never changes: hand it to `torch.randperm`",
        ),
        edit(
            "generator not used",
            "rows, generator=generator",
            "rows",
            "the order is random but does not follow `generator`, so a run cannot be "
            "repeated: hand it to `torch.randperm`",
        ),
        edits(
            "one shuffle over all epochs",
            (
                "    return [",
                "    order = torch.randperm(rows * epochs, generator=generator) % rows\n"
                "    return [",
            ),
            ("for _ in", "for epoch in"),
            (
                "torch.randperm(rows, generator=generator)",
                "order[epoch * rows : (epoch + 1) * rows]",
            ),
            message="the epochs are shuffled together: a row can come twice before another has "
            "come once. Permute the rows anew in each epoch",
        ),
    ),
    not_tested="that the order is uniform over all permutations, and copies of large fields.",
    call=call,
    draws=12,
)
