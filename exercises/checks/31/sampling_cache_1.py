"""sampling.cache.1: one decode step of attention with a static cache."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Rows = list[list[float]]


def oracle(
    query: Rows,
    key: Rows,
    value: Rows,
    keys: list[Rows],
    values: list[Rows],
    lengths: list[int],
) -> tuple[Rows, list[Rows], list[Rows]]:
    """Row by row: the sequence as a list of pairs, a softmax over it, a weighted sum."""
    mixed, new_keys, new_values = [], [], []
    for b, length in enumerate(lengths):
        row_keys = [list(k) for k in keys[b]]
        row_values = [list(v) for v in values[b]]
        row_keys[length], row_values[length] = list(key[b]), list(value[b])
        width = len(query[b])
        scores = [
            math.fsum(q * k for q, k in zip(query[b], row_keys[s], strict=True)) / math.sqrt(width)
            for s in range(length + 1)
        ]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = math.fsum(weights)
        mixed.append(
            [
                math.fsum(w * row_values[s][d] for s, w in enumerate(weights)) / total
                for d in range(width)
            ]
        )
        new_keys.append(row_keys)
        new_values.append(row_values)
    return mixed, new_keys, new_values


def cases(draw: Draw) -> Case:
    """Rows of several lengths; what lies behind a row's end is left over from somebody else."""
    rows, room, width = draw.dimension(), draw.dimension(2), draw.dimension(2)
    inputs = {
        "query": draw.normal(rows, width),
        "key": draw.normal(rows, width),
        "value": draw.normal(rows, width),
        "keys": draw.normal(rows, room, width),
        "values": draw.normal(rows, room, width),
        "lengths": draw.integers(0, room - 1, rows),
    }
    return Case(f"{rows} rows, {room} columns, width {width}", inputs)


def edges() -> tuple[Case, ...]:
    """An empty cache, a full one, a stranger behind the end, rows of different lengths."""

    def case(
        name: str,
        query: Rows,
        key: Rows,
        value: Rows,
        keys: list[Rows],
        values: list[Rows],
        lengths: list[int],
    ) -> Case:
        named = {"query": query, "key": key, "value": value, "keys": keys, "values": values}
        inputs = {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()}
        return Case(name, {**inputs, "lengths": torch.tensor(lengths)})

    one = [[1.0, 0.0]], [[2.0, 0.0]], [[3.0, 5.0]]
    old_keys = [[1.0, 2.0], [0.5, -1.0], [4.0, 4.0], [3.0, -3.0]]
    old_values = [[1.0, 0.0], [2.0, 7.0], [90.0, -80.0], [-50.0, 60.0]]
    two = [[1.0, 0.5], [-0.5, 2.0]], [[0.3, 1.0], [1.0, 0.2]], [[1.0, 2.0], [-1.0, 4.0]]
    wide = [[0.5, -1.0, 0.2]], [[1.0, 1.0, -1.0]], [[1.0, 2.0, 3.0]]
    return (
        case("the first token", *one, [old_keys[2:]], [old_values[2:]], [0]),
        case("the last free column", *one, [old_keys], [old_values], [3]),
        case("strangers behind the end", *one, [old_keys], [old_values], [1]),
        case("two lengths", *two, [old_keys, old_keys], [old_values, old_values], [2, 0]),
        case("two lengths, the other way", *two, [old_keys] * 2, [old_values] * 2, [1, 2]),
        case(
            "width three",
            *wide,
            [[[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]],
            [[[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]],
            [1],
        ),
    )


CHECK = Check(
    id="sampling.cache.1",
    outputs=(Output("mixed", "(B, D)"), Output("keys", "(B, S, D)"), Output("values", "(B, S, D)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "whole cache",
            "scores.masked_fill(~seen, -math.inf)",
            "scores",
            "the query looks at the whole cache: behind a row's end lies what an earlier "
            "sequence left, so mask the columns above `lengths`",
        ),
        edit(
            "one column too many",
            "= lengths",
            "= (lengths + 1)",
            "the query sees one column too many: the new token stands at column "
            "`lengths`, and what lies behind it belongs to nobody",
        ),
        edit(
            "not itself",
            "= lengths",
            "= (lengths - 1).clamp(min=0)",
            "the new token does not look at itself: write first, then attend to the "
            "columns up to and with `lengths`",
        ),
        edits(
            "one column for all rows",
            ("keys[rows, lengths] = key", "keys[rows, lengths.max()] = key"),
            ("values[rows, lengths] = value", "values[rows, lengths.max()] = value"),
            message="all rows write into the column of the longest: each row has its own next "
            "column, `lengths[b]`",
        ),
        edits(
            "one column early",
            ("keys[rows, lengths] = key", "keys[rows, (lengths - 1).clamp(min=0)] = key"),
            ("values[rows, lengths] = value", "values[rows, (lengths - 1).clamp(min=0)] = value"),
            message="the new key overwrites the newest old one: columns count from 0, so a row of "
            "length n writes at column n",
        ),
        edits(
            "last column",
            ("keys[rows, lengths] = key", "keys[rows, -1] = key"),
            ("values[rows, lengths] = value", "values[rows, -1] = value"),
            message="the new key goes into the last column of the memory; the next free one is "
            "`lengths`",
        ),
        edit(
            "scale missing",
            " / math.sqrt(query.shape[-1])",
            "",
            "the scores are not divided by the square root of the width: the softmax is too sharp",
        ),
        edit(
            "divided by the width",
            "math.sqrt(query.shape[-1])",
            "query.shape[-1]",
            "the scores are divided by the width instead of its square root: the softmax "
            "is too flat",
        ),
        edits(
            "cache not kept",
            (
                "    keys, values = keys.clone()",
                "    kept = keys.clone(), values.clone()\n    keys, values = keys.clone()",
            ),
            ("weights, values), keys, values", "weights, values), *kept"),
            message="the mixture is right, but the returned cache lacks the new token: the next "
            "step will not see it",
        ),
        edit(
            "scores set to zero",
            "scores.masked_fill(~seen, -math.inf)",
            "(scores * seen)",
            "hidden columns get the score 0, and exp(0) is 1: fill them with minus "
            "infinity before the softmax",
        ),
        edit(
            "masked after the softmax",
            "scores.masked_fill(~seen, -math.inf).softmax(-1)",
            "scores.softmax(-1) * seen",
            "the mask comes after the softmax: the weights that are left do not sum to 1",
        ),
        edit(
            "keys are mixed",
            "weights, values)",
            "weights, keys)",
            "the weights mix the keys; they are computed with keys and applied to values",
        ),
    ),
    not_tested="several heads, speed, in-place writing, and `nan` behind a row's end.",
    wide=(
        "query",
        "key",
        "value",
        "keys",
        "values",
    ),
)
