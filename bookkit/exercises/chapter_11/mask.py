"""reinforce.mask.1: which response tokens count."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def completion_mask(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    """Mask up to and including the first EOS, and which rows have none."""
    is_eos = ids == eos_id
    ended_before = is_eos.cumsum(dim=1) - is_eos.long() > 0
    return ~ended_before, ~is_eos.any(dim=1)


def oracle(ids: list[list[int]], eos_id: int) -> tuple[list[list[bool]], list[bool]]:
    """Walk along each row with a flag."""
    mask, truncated = [], []
    for row in ids:
        alive, flags = True, []
        for token in row:
            flags.append(alive)
            if token == eos_id:
                alive = False
        mask.append(flags)
        truncated.append(alive)
    return mask, truncated


def cases(draw: Draw) -> Case:
    """Rows that end anywhere or not at all, followed by pads (maybe EOS itself) or by garbage."""
    rows, columns, eos_id = draw.dimension(), draw.dimension(), draw.integer(0, 3)
    ids = draw.integers(0, 6, rows, columns)
    after = draw.choice(["the pad token is EOS", "another pad token", "garbage after the end"])
    for row in range(rows):
        places = (ids[row] == eos_id).nonzero()
        if len(places) and after != "garbage after the end":
            ids[row, int(places[0]) + 1 :] = eos_id if after == "the pad token is EOS" else 9
    return Case(f"{rows} × {columns}, {after}", {"ids": ids, "eos_id": eos_id})


def edges() -> tuple[Case, ...]:
    """The rows that go wrong first."""
    named = {
        "EOS is the first token": [[2, 5, 6]],
        "EOS is the last token": [[5, 6, 2]],
        "no EOS": [[5, 6, 7]],
        "one token, not EOS": [[5]],
        "one token, EOS": [[2]],
        "the pad token is EOS": [[5, 6, 2, 2, 2], [5, 2, 2, 2, 2]],
        "tokens after the end": [[5, 2, 7, 7], [5, 6, 2, 8]],
        "a second EOS later": [[5, 2, 7, 2, 7]],
    }
    return tuple(Case(name, {"ids": torch.tensor(ids), "eos_id": 2}) for name, ids in named.items())


def _without_eos(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    return is_eos.cumsum(dim=1) == 0, ~is_eos.any(dim=1)


def _one_too_many(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    mask, truncated = completion_mask(ids, eos_id)
    longer = torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1)
    return longer, truncated


def _second_eos(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    return is_eos.cumsum(dim=1) <= 1, ~is_eos.any(dim=1)


def _by_id(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    return ids != eos_id, ~(ids == eos_id).any(dim=1)


def _last_eos(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    later = is_eos.flip(1).cumsum(dim=1).flip(1) > 0
    return later | ~is_eos.any(dim=1, keepdim=True), ~is_eos.any(dim=1)


def _argmax(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    first = is_eos.int().argmax(dim=1, keepdim=True)
    return torch.arange(ids.shape[1])[None, :] <= first, ~is_eos.any(dim=1)


def _truncated_by_last_token(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    return completion_mask(ids, eos_id)[0], ids[:, -1] != eos_id


def _truncated_by_full_mask(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    mask = completion_mask(ids, eos_id)[0]
    return mask, mask.all(dim=1)


def _finished_not_truncated(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    mask, truncated = completion_mask(ids, eos_id)
    return mask, ~truncated


def _whole_batch(ids: Tensor, eos_id: int) -> tuple[Tensor, Tensor]:
    is_eos = ids == eos_id
    before = is_eos.flatten().cumsum(dim=0).view_as(ids) - is_eos.long()
    return before == 0, ~is_eos.any(dim=1)


MASK = Exercise(
    id="reinforce.mask.1",
    title="Which tokens count",
    chapter=11,
    difficulty=2,
    minutes=10,
    goal=(
        "Mark the response tokens up to and including the first end-of-sequence token, and the "
        "rows that never reached one."
    ),
    outputs=(Output("mask", "(B, T)", "bool"), Output("truncated", "(B,)", "bool")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=completion_mask,
    mutants=(
        Mutant(
            "EOS left out",
            _without_eos,
            "your mask is shifted by one: the end-of-sequence token itself must count, because "
            "the policy chose it. Without it no gradient ever teaches the policy to stop",
        ),
        Mutant(
            "one token too many",
            _one_too_many,
            "your mask is shifted by one: it also counts the token after the end of sequence, "
            "which nobody chose",
        ),
        Mutant(
            "up to the second EOS",
            _second_eos,
            "`cumsum <= 1` stays true behind the first end until a second one comes: it works only "
            "where the padding is EOS. Count the ends strictly before each place",
        ),
        Mutant(
            "masked by token id",
            _by_id,
            "your mask looks only at each token by itself (ids != eos_id): it drops the real end "
            "of sequence and counts whatever stands behind it. Ask how many ends came before",
        ),
        Mutant(
            "up to the last EOS",
            _last_eos,
            "your mask runs to the last end-of-sequence token, not to the first: where the pad "
            "token is EOS the whole padding counts",
        ),
        Mutant(
            "argmax without an EOS",
            _argmax,
            "argmax returns 0 for a row without any end of sequence, so such a row keeps one "
            "token only. Treat rows without an end apart",
        ),
        Mutant(
            "truncated by the last token",
            _truncated_by_last_token,
            "`truncated` looks at the last column only: a row that ended earlier and is followed "
            "by other pads or garbage has ended all the same",
        ),
        Mutant(
            "truncated by a full mask",
            _truncated_by_full_mask,
            "`truncated` is true for a row whose end of sequence stands in the last column: that "
            "row fills the length limit, but it has ended",
        ),
        Mutant(
            "finished instead of truncated",
            _finished_not_truncated,
            "`truncated` has the opposite meaning: it is true for rows that reached no end",
        ),
        Mutant(
            "counted over the whole batch",
            _whole_batch,
            "your cumulative sum runs through the whole batch: an end in one row also ends all "
            "the rows below it. Count along `dim=1`",
        ),
    ),
    not_tested=(
        "several end-of-sequence ids at once, rows of several turns, an empty T, and speed."
    ),
)
