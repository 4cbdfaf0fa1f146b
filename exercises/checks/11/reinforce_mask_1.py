"""reinforce.mask.1: which response tokens count."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="reinforce.mask.1",
    outputs=(Output("mask", "(B, T)", "bool"), Output("truncated", "(B,)", "bool")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "EOS left out",
            " - is_eos.long()",
            "",
            "your mask is shifted by one: the end-of-sequence token itself must count, "
            "because the policy chose it. Without it no gradient ever teaches the policy "
            "to stop",
        ),
        edit(
            "one token too many",
            "return ends_before == 0,",
            "mask = ends_before == 0\n"
            "    return torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1),",
            "your mask is shifted by one: it also counts the token after the end of "
            "sequence, which nobody chose",
        ),
        edit(
            "up to the second EOS",
            "ends_before == 0",
            "is_eos.cumsum(dim=1) <= 1",
            "`cumsum <= 1` stays true behind the first end until a second one comes: it "
            "works only where the padding is EOS. Count the ends strictly before each "
            "place",
        ),
        edit(
            "masked by token id",
            "ends_before == 0",
            "~is_eos",
            "your mask looks only at each token by itself (ids != eos_id): it drops the "
            "real end of sequence and counts whatever stands behind it. Ask how many ends "
            "came before",
        ),
        edit(
            "up to the last EOS",
            "ends_before == 0",
            "(is_eos.flip(1).cumsum(dim=1).flip(1) > 0) | ~is_eos.any(dim=1, keepdim=True)",
            "your mask runs to the last end-of-sequence token, not to the first: where "
            "the pad token is EOS the whole padding counts",
        ),
        edit(
            "argmax without an EOS",
            "ends_before == 0",
            "torch.arange(ids.shape[1]) <= is_eos.int().argmax(dim=1, keepdim=True)",
            "argmax returns 0 for a row without any end of sequence, so such a row keeps "
            "one token only. Treat rows without an end apart",
        ),
        edit(
            "truncated by the last token",
            "~is_eos.any(dim=1)",
            "ids[:, -1] != eos_id",
            "`truncated` looks at the last column only: a row that ended earlier and is "
            "followed by other pads or garbage has ended all the same",
        ),
        edit(
            "truncated by a full mask",
            "~is_eos",
            "~ends_before",
            "`truncated` is true for a row whose end of sequence stands in the last "
            "column: that row fills the length limit, but it has ended",
        ),
        edit(
            "finished instead of truncated",
            "~is_eos.any",
            "is_eos.any",
            "`truncated` has the opposite meaning: it is true for rows that reached no end",
        ),
        edit(
            "counted over the whole batch",
            "= is_eos",
            "= is_eos.flatten().cumsum(dim=0).view_as(ids)",
            "your cumulative sum runs through the whole batch: an end in one row also "
            "ends all the rows below it. Count along `dim=1`",
        ),
    ),
    not_tested="several end-of-sequence ids at once, rows of several turns, an empty T, and speed.",
)
