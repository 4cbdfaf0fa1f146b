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
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Batch = dict[str, Tensor]
ROWS_FOR_ORDER = 20  # 20! orders: two equal ones are no accident


def minibatches(batch: Batch, size: int, epochs: int, generator: torch.Generator) -> list[Batch]:
    """A fresh permutation each epoch, cut into pieces; the last one may be smaller."""
    rows = len(batch["actions"])
    return [
        {name: field[index] for name, field in batch.items()}
        for _ in range(epochs)
        for index in torch.randperm(rows, generator=generator).split(size)
    ]


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


def _take(batch: Batch, index: Tensor) -> Batch:
    return {name: field[index] for name, field in batch.items()}


def _rows(batch: Batch) -> int:
    return len(batch["actions"])


def _with_replacement(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    rows = _rows(batch)
    index = [torch.randint(rows, (rows,), generator=g) for _ in range(epochs)]
    return [_take(batch, piece) for one in index for piece in one.split(size)]


def _no_shuffle(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    return [
        _take(batch, piece)
        for _ in range(epochs)
        for piece in torch.arange(_rows(batch)).split(size)
    ]


def _one_order(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    index = torch.randperm(_rows(batch), generator=g)
    return [_take(batch, piece) for _ in range(epochs) for piece in index.split(size)]


def _rest_dropped(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    rows = _rows(batch)
    return [
        _take(batch, index[start : start + size])
        for index in (torch.randperm(rows, generator=g) for _ in range(epochs))
        for start in range(0, rows - size + 1, size)
    ]


def _fields_apart(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    made: list[Batch] = []
    for _ in range(epochs):
        pieces = {
            name: field[torch.randperm(len(field), generator=g)].split(size)
            for name, field in batch.items()
        }
        made += [
            {name: parts[k] for name, parts in pieces.items()}
            for k in range(len(pieces["actions"]))
        ]
    return made


def _one_epoch(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    return minibatches(batch, size, 1, g)


def _size_is_number(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    return [
        _take(batch, piece)
        for _ in range(epochs)
        for piece in torch.randperm(_rows(batch), generator=g).chunk(size)
    ]


def _fixed_seed(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    return minibatches(batch, size, epochs, torch.Generator().manual_seed(0))


def _global_seed(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    global _CALLS  # stands for the process-wide generator, which this cannot touch in a check
    _CALLS += 1
    return minibatches(batch, size, epochs, torch.Generator().manual_seed(_CALLS))


_CALLS = 0


def _pieces_shuffled(batch: Batch, size: int, epochs: int, g: torch.Generator) -> list[Batch]:
    """Cut all epochs from one long shuffle: a row can come twice before another comes once."""
    rows = _rows(batch)
    index = torch.randperm(rows * epochs, generator=g) % rows
    cuts = [index[k * rows : (k + 1) * rows] for k in range(epochs)]
    return [_take(batch, piece) for one in cuts for piece in one.split(size)]


MINIBATCH = Exercise(
    id="ppo.minibatch.1",
    title="Minibatches, several times over",
    chapter=12,
    difficulty=2,
    minutes=15,
    goal=(
        "Cut a batch into minibatches, several epochs long: in each epoch every row occurs exactly "
        "once, in a fresh random order, with its fields together; the last piece may be smaller."
    ),
    outputs=(
        Output("sizes", "one number a minibatch", "python"),
        Output("rows", "how often each row occurs", "python"),
        Output("fields together", "True or False", "python"),
        Output("order", "facts, None for few rows", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=minibatches,
    call=call,
    draws=12,
    mutants=(
        Mutant(
            "with replacement",
            _with_replacement,
            "rows are drawn with replacement: some come twice in an epoch and about a third never. "
            "Permute (`torch.randperm`) and cut",
        ),
        Mutant(
            "no shuffle",
            _no_shuffle,
            "the rows stay in their order: neighbours in time share a minibatch, and its gradient "
            "is that of one moment. Permute first",
        ),
        Mutant(
            "one order for all epochs",
            _one_order,
            "all epochs use one and the same permutation, so the same rows meet again and again: "
            "draw a new one in each epoch",
        ),
        Mutant(
            "rest dropped",
            _rest_dropped,
            "the rest that does not fill a minibatch is dropped: keep the smaller last piece",
        ),
        Mutant(
            "fields shuffled apart",
            _fields_apart,
            "each field gets a permutation of its own, so observations meet the actions of other "
            "rows: draw one index and use it for all fields",
        ),
        Mutant("one epoch", _one_epoch, "`epochs` has no effect: the batch is used only once"),
        Mutant(
            "size is a number of pieces",
            _size_is_number,
            "`size` is taken for the number of minibatches; it is the number of rows in each "
            "(`split`, not `chunk`)",
        ),
        Mutant(
            "seed fixed inside",
            _fixed_seed,
            "`generator` has no effect and the order never changes: hand it to `torch.randperm`",
        ),
        Mutant(
            "generator not used",
            _global_seed,
            "the order is random but does not follow `generator`, so a run cannot be repeated: "
            "hand it to `torch.randperm`",
        ),
        Mutant(
            "one shuffle over all epochs",
            _pieces_shuffled,
            "the epochs are shuffled together: a row can come twice before another has come once. "
            "Permute the rows anew in each epoch",
        ),
    ),
    not_tested="that the order is uniform over all permutations, and copies of large fields.",
)
