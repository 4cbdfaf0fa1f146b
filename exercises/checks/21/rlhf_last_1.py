"""rlhf.last.1: the score of a sequence is the one at its last real token."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

PAD = 2


def oracle(
    values: list[list[float]], ids: list[list[int]], attention: list[list[bool]], pad_id: int
) -> list[float]:
    """Walk along each row."""
    scores = []
    for row, real in zip(values, attention, strict=True):
        score = 0.0
        for value, is_real in zip(row, real, strict=True):
            if is_real:
                score = value
        scores.append(score)
    return scores


def cases(draw: Draw) -> Case:
    """Rows that are padded on one side, with ends of sequence anywhere."""
    rows, columns = draw.dimension(), draw.dimension(2)
    attention = draw.prefix_mask(rows, columns)
    if draw.integer(0, 1):
        attention = attention.flip(1)
    ids = torch.where(attention, draw.integers(0, 4, rows, columns), PAD)
    inputs = {
        "values": draw.normal(rows, columns),
        "ids": ids,
        "attention": attention,
        "pad_id": PAD,
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Padding on both sides, no padding, an end that looks like a pad, one inside."""
    draw = Draw(7)

    def case(name: str, ids: list[list[int]], attention: list[str], pad_id: int = PAD) -> Case:
        real = torch.tensor([[letter == "1" for letter in row] for row in attention])
        values = draw.normal(*real.shape)
        inputs = {
            "values": values,
            "ids": torch.tensor(ids),
            "attention": real,
            "pad_id": pad_id,
        }
        return Case(name, inputs)

    hidden = case("nan under the pads", [[7, 8, 2, 2]], ["1110"])
    hidden.inputs["values"][0, 3] = math.nan
    return (
        case("one token", [[7]], ["1"]),
        case("no padding", [[7, 8, 9]], ["111"]),
        case("padded on the right", [[7, 8, 0, 0]], ["1100"], pad_id=0),
        case("the end is the pad", [[7, 8, 9, 2, 2, 2]], ["111100"]),
        case("a pad's id in the middle", [[7, 2, 8, 9, 2, 2, 2]], ["1111100"]),
        case("padded on the left", [[2, 2, 7, 8, 2]], ["00111"]),
        case("begins with a pad's id", [[2, 7, 8, 2]], ["1110"]),
        case("two rows", [[7, 8, 2, 2], [7, 9, 8, 9]], ["1110", "1111"]),
        hidden,
    )


CHECK = Check(
    id="rlhf.last.1",
    outputs=(Output("scores", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "one before the first pad id",
            ", last",
            ", (((ids == pad_id).int().argmax(dim=1) - 1) % values.shape[1])",
            "the position before the first pad id is taken: where the end of sequence has "
            "the pad's id this is one too early, without pads it is -1, and an end inside "
            "a dialogue stops it",
        ),
        edit(
            "last id that is no pad",
            ", last",
            ", (torch.where(ids != pad_id, torch.arange((ids != pad_id).shape[1]), "
            "-1).amax(dim=1) % values.shape[1])",
            "the last token whose id is not the pad's is taken: an end of sequence with "
            "that id is skipped, so the score never sees whether the answer ended",
        ),
        edit(
            "number of real tokens",
            ", last",
            ", (attention.sum(dim=1) - 1)",
            "the position is the number of real tokens minus one: true for padding on the "
            "right, and in the middle of the text for padding on the left",
        ),
        edit(
            "last column",
            "values.gather(1, last[:, None]).squeeze(1)",
            "values[:, -1]",
            "the last column is read whatever `attention` says: with padding on the right "
            "that is a pad",
        ),
        edit(
            "first pad",
            ".amax(dim=1)",
            ".amax(dim=1)\n    last = (last + 1).clamp(max=values.shape[1] - 1)",
            "the position after the last real token is read, which is a pad where there is one",
        ),
        edit(
            "first real token",
            ", last",
            ", attention.int().argmax(dim=1)",
            "this reads the first real token: a causal model has seen nothing else there",
        ),
        edit(
            "mean",
            "values.gather(1, last[:, None]).squeeze(1)",
            "torch.where(attention, values, 0.0).sum(dim=1) / attention.sum(dim=1)",
            "this is the mean over the real tokens: the early ones have not seen the answer",
        ),
        edit(
            "largest",
            "values.gather(1, last[:, None]).squeeze",
            "values.masked_fill(~attention, -torch.inf).amax",
            "this is the largest value of the row: an answer could not be bad any more "
            "once it had a good beginning",
        ),
        edit(
            "product with the mask",
            "values.gather(1, last[:, None]).squeeze(1)",
            "(values * (positions == last[:, None])).sum(dim=1)",
            "multiplying by the mask leaves nan where a pad holds nan (0 · nan is nan): "
            "gather the value instead",
        ),
        edit(
            "one too early",
            ", last",
            ", (torch.where(attention, torch.arange(attention.shape[1]), -1).amax(dim=1) "
            "- 1).clamp(min=0)",
            "the token before the last one is read: the score must have seen the whole answer",
        ),
    ),
    not_tested="rows without a real token, and several texts packed into one row.",
    gradient_to=("values",),
    wide=("values",),
    special=(("pad_id", 1.0),),
)
