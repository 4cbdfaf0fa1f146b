"""sampling.cache.1: one decode step of attention with a static cache."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]
Rows = list[list[float]]


def cached_attention(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    """Write the new key and value at each row's own column, then attend up to it."""
    return _attention(query, key, value, keys, values, lengths)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    *,
    column: Tensor | None = None,
    last: Tensor | None = None,
    scale: float | None = None,
) -> Triple:
    keys, values = keys.clone(), values.clone()
    rows = torch.arange(len(lengths))
    column = lengths if column is None else column
    keys[rows, column] = key
    values[rows, column] = value
    seen = torch.arange(keys.shape[1]) <= (lengths if last is None else last)[:, None]
    scores = torch.einsum("bd,bsd->bs", query, keys)
    scores = scores * (scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return torch.einsum("bs,bsd->bd", weights, values), keys, values


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


def _whole_cache(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    last = torch.full_like(lengths, keys.shape[1])
    return _attention(query, key, value, keys, values, lengths, last=last)


def _one_too_many(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    return _attention(query, key, value, keys, values, lengths, last=lengths + 1)


def _not_itself(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    last = (lengths - 1).clamp(min=0)
    return _attention(query, key, value, keys, values, lengths, last=last)


def _one_column_for_all(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    column = torch.full_like(lengths, int(lengths.max()))
    return _attention(query, key, value, keys, values, lengths, column=column)


def _column_before(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    column = (lengths - 1).clamp(min=0)
    return _attention(query, key, value, keys, values, lengths, column=column)


def _last_column(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    column = torch.full_like(lengths, keys.shape[1] - 1)
    return _attention(query, key, value, keys, values, lengths, column=column)


def _no_scale(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    return _attention(query, key, value, keys, values, lengths, scale=1.0)


def _width_scale(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    return _attention(query, key, value, keys, values, lengths, scale=1 / query.shape[-1])


def _not_kept(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    mixed, _, _ = _attention(query, key, value, keys, values, lengths)
    return mixed, keys.clone(), values.clone()


def _zero_scores(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    _, keys, values = _attention(query, key, value, keys, values, lengths)
    seen = torch.arange(keys.shape[1]) <= lengths[:, None]
    scores = torch.einsum("bd,bsd->bs", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("bs,bsd->bd", (scores * seen).softmax(-1), values), keys, values


def _masked_after(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    _, keys, values = _attention(query, key, value, keys, values, lengths)
    seen = torch.arange(keys.shape[1]) <= lengths[:, None]
    scores = torch.einsum("bd,bsd->bs", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("bs,bsd->bd", scores.softmax(-1) * seen, values), keys, values


def _keys_mixed(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, lengths: Tensor
) -> Triple:
    mixed, _, _ = _attention(query, key, key, keys, keys, lengths)
    _, keys, values = _attention(query, key, value, keys, values, lengths)
    return mixed, keys, values


CACHE = Exercise(
    id="sampling.cache.1",
    title="A step of attention with a static cache",
    chapter=31,
    difficulty=2,
    minutes=20,
    goal=(
        "Write the new token's key and value into each row's next column, let its query attend to "
        "all columns up to and with that one, and return the mixture and the two caches."
    ),
    outputs=(Output("mixed", "(B, D)"), Output("keys", "(B, S, D)"), Output("values", "(B, S, D)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=cached_attention,
    mutants=(
        Mutant(
            "whole cache",
            _whole_cache,
            "the query looks at the whole cache: behind a row's end lies what an earlier sequence "
            "left, so mask the columns above `lengths`",
        ),
        Mutant(
            "one column too many",
            _one_too_many,
            "the query sees one column too many: the new token stands at column `lengths`, and "
            "what lies behind it belongs to nobody",
        ),
        Mutant(
            "not itself",
            _not_itself,
            "the new token does not look at itself: write first, then attend to the columns up to "
            "and with `lengths`",
        ),
        Mutant(
            "one column for all rows",
            _one_column_for_all,
            "all rows write into the column of the longest: each row has its own next column, "
            "`lengths[b]`",
        ),
        Mutant(
            "one column early",
            _column_before,
            "the new key overwrites the newest old one: columns count from 0, so a row of length n "
            "writes at column n",
        ),
        Mutant(
            "last column",
            _last_column,
            "the new key goes into the last column of the memory; the next free one is `lengths`",
        ),
        Mutant(
            "scale missing",
            _no_scale,
            "the scores are not divided by the square root of the width: the softmax is too sharp",
        ),
        Mutant(
            "divided by the width",
            _width_scale,
            "the scores are divided by the width instead of its square root: the softmax is too "
            "flat",
        ),
        Mutant(
            "cache not kept",
            _not_kept,
            "the mixture is right, but the returned cache lacks the new token: the next step will "
            "not see it",
        ),
        Mutant(
            "scores set to zero",
            _zero_scores,
            "hidden columns get the score 0, and exp(0) is 1: fill them with minus infinity before "
            "the softmax",
        ),
        Mutant(
            "masked after the softmax",
            _masked_after,
            "the mask comes after the softmax: the weights that are left do not sum to 1",
        ),
        Mutant(
            "keys are mixed",
            _keys_mixed,
            "the weights mix the keys; they are computed with keys and applied to values",
        ),
    ),
    not_tested="several heads, speed, in-place writing, and `nan` behind a row's end.",
)
