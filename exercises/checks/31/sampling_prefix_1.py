"""sampling.prefix.1: one reading of the prompt for all answers to it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Pair = tuple[Tensor, Tensor]


Expand = Callable[[Tensor, Tensor, int, int], Pair]


def call(function: Expand, **inputs: Any) -> tuple[Any, Any, Any]:
    """Call it, then let each row write its own number into its next column."""
    cache, lengths = function(*inputs.values())
    before = after = cache
    if isinstance(cache, Tensor) and isinstance(lengths, Tensor):
        before = cache.clone()
        for row, column in enumerate(lengths.tolist() if inputs["new"] else []):
            if row < cache.shape[0] and column < cache.shape[1]:
                after[row, column] = float(row + 1)
    return before, lengths, after


def oracle(
    keys: list[list[list[float]]], lengths: list[int], group_size: int, new: int
) -> tuple[list[list[list[float]]], list[int], list[list[list[float]]]]:
    """Row i·G+j is prompt i, copied; a written row changes nobody else."""
    width = len(keys[0][0])
    before, counts = [], []
    for prompt, length in zip(keys, lengths, strict=True):
        for _ in range(group_size):
            before.append([list(k) for k in prompt] + [[0.0] * width for _ in range(new)])
            counts.append(length)
    after = [[list(k) for k in row] for row in before]
    if new:
        for row, column in enumerate(counts):
            after[row][column] = [float(row + 1)] * width
    return before, counts, after


def cases(draw: Draw) -> Case:
    """Several prompts of several lengths, groups of one to four."""
    prompts, width, dim = draw.dimension(), draw.dimension(), draw.dimension()
    inputs = {
        "keys": draw.normal(prompts, width, dim),
        "lengths": draw.integers(1, width, prompts),
        "group_size": draw.integer(1, 4),
        "new": draw.integer(1, 3),
    }
    return Case(f"{prompts} prompts of {width}", inputs)


def edges() -> tuple[Case, ...]:
    """A group of one, one prompt, two prompts, no room, several lengths."""

    def case(
        name: str, keys: list[list[list[float]]], lengths: list[int], g: int, new: int
    ) -> Case:
        values = torch.tensor(keys, dtype=torch.float64)
        inputs = {"keys": values, "lengths": torch.tensor(lengths), "group_size": g, "new": new}
        return Case(name, inputs)

    one = [[[1.0, 2.0], [3.0, 4.0]]]
    two = [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]
    return (
        case("one answer", one, [2], 1, 1),
        case("three answers to one prompt", one, [2], 3, 2),
        case("the hand example", two, [3, 2], 2, 1),
        case("no room", two, [3, 3], 2, 0),
        case("two prompts of one length", two, [3, 3], 3, 2),
        case("a group of one", two, [1, 3], 1, 1),
    )


CHECK = Check(
    id="sampling.prefix.1",
    outputs=(
        Output("cache", "(N·G, P+new, D)"),
        Output("lengths", "(N·G,)", "int"),
        Output("cache after each row has written", "(N·G, P+new, D)"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "tiled",
            ("keys.repeat_interleave(group_size, 0)", "keys.repeat(group_size, 1, 1)"),
            ("lengths.repeat_interleave(group_size)", "lengths.repeat(group_size)"),
            message="the prompts are tiled (0, 1, 0, 1) where the answers of a group stand "
            "together (0, 0, 1, 1): `repeat_interleave`, not `repeat`",
        ),
        edit(
            "lengths tiled",
            "lengths.repeat_interleave",
            "lengths.repeat",
            "the cache is laid out group by group but the lengths are tiled: a row would "
            "write into its neighbour's column",
        ),
        edit(
            "cache tiled",
            "rows,",
            "keys.repeat(group_size, 1, 1),",
            "the lengths are laid out group by group but the cache is tiled: row i·G+j "
            "answers prompt i",
        ),
        edit(
            "shared memory",
            "return torch.cat([rows, room], 1),",
            "wide = torch.cat([keys, room[: len(keys)]], 1)[:, None]\n"
            "    rows = wide.expand(-1, group_size, -1, -1).flatten(0, 1)  # of one "
            "prompt: a view\n"
            "    return rows,",
            "with one prompt the rows of the group are one memory (`expand` makes a "
            "view): when one answer writes its next token, the others see it. Sharing the "
            "reading is right; sharing memory needs pages",
        ),
        edit(
            "no room",
            "new, r",
            "0, r",
            "there is no room for the new tokens: the cache must have P + new columns",
        ),
        edit(
            "room in front",
            "rows, room",
            "room, rows",
            "the free columns stand in front of the prompt; token t lies at column t, so "
            "they go behind it",
        ),
        edit(
            "width taken for length",
            "lengths.repeat_interleave(group_size)",
            "torch.full((len(rows),), keys.shape[1])",
            "every row is as long as the widest prompt: a shorter one goes on at its own "
            "length, over what padding left there",
        ),
        edit(
            "only the first of a group",
            "    room = ",
            "    rows[torch.arange(len(rows)) % group_size > 0] = 0.0\n    room = ",
            "only the first answer of each group has the prompt in its cache",
        ),
        edit(
            "lengths once a prompt",
            "lengths.repeat_interleave(group_size)",
            "lengths",
            "there is one length a prompt; each of the N·G rows needs its own",
        ),
    ),
    not_tested="results beyond ±10, speed, and sharing memory by pages.",
    call=call,
)
