"""rlhf.last.1: the score of a sequence is the one at its last real token."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

PAD = 2


def last_score(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    """The value at the highest position that is attended."""
    return _pick(values, _last(attention))


def _last(real: Tensor) -> Tensor:
    columns = real.shape[1]
    return torch.where(real, torch.arange(columns), -1).amax(dim=1)


def _pick(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, (index % values.shape[1])[:, None]).squeeze(1)


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


def _id_before_first_pad(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return _pick(values, (ids == pad_id).int().argmax(dim=1) - 1)


def _last_not_pad(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return _pick(values, _last(ids != pad_id))


def _count(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return _pick(values, attention.sum(dim=1) - 1)


def _last_column(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return values[:, -1]


def _first_pad(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    after = (_last(attention) + 1).clamp(max=values.shape[1] - 1)
    return _pick(values, after)


def _first_real(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return _pick(values, attention.int().argmax(dim=1))


def _mean(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    kept = torch.where(attention, values, 0.0)
    return kept.sum(dim=1) / attention.sum(dim=1)


def _largest(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return values.masked_fill(~attention, -torch.inf).amax(dim=1)


def _product(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    at = torch.arange(values.shape[1])[None, :] == _last(attention)[:, None]
    return (values * at).sum(dim=1)


def _before_last(values: Tensor, ids: Tensor, attention: Tensor, pad_id: int) -> Tensor:
    return _pick(values, (_last(attention) - 1).clamp(min=0))


LAST = Exercise(
    id="rlhf.last.1",
    title="The last real token",
    chapter=21,
    difficulty=2,
    minutes=15,
    goal=(
        "From one value a position to one score a sequence: the value at the last attended token, "
        "whichever side is padded and whatever its id."
    ),
    outputs=(Output("scores", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=last_score,
    gradient_to=("values",),
    mutants=(
        Mutant(
            "one before the first pad id",
            _id_before_first_pad,
            "the position before the first pad id is taken: where the end of sequence has the "
            "pad's id this is one too early, without pads it is -1, and an end inside a dialogue "
            "stops it",
        ),
        Mutant(
            "last id that is no pad",
            _last_not_pad,
            "the last token whose id is not the pad's is taken: an end of sequence with that id is "
            "skipped, so the score never sees whether the answer ended",
        ),
        Mutant(
            "number of real tokens",
            _count,
            "the position is the number of real tokens minus one: true for padding on the right, "
            "and in the middle of the text for padding on the left",
        ),
        Mutant(
            "last column",
            _last_column,
            "the last column is read whatever `attention` says: with padding on the right that is "
            "a pad",
        ),
        Mutant(
            "first pad",
            _first_pad,
            "the position after the last real token is read, which is a pad where there is one",
        ),
        Mutant(
            "first real token",
            _first_real,
            "this reads the first real token: a causal model has seen nothing else there",
        ),
        Mutant(
            "mean",
            _mean,
            "this is the mean over the real tokens: the early ones have not seen the answer",
        ),
        Mutant(
            "largest",
            _largest,
            "this is the largest value of the row: an answer could not be bad any more once it had "
            "a good beginning",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan where a pad holds nan (0 · nan is nan): gather the "
            "value instead",
        ),
        Mutant(
            "one too early",
            _before_last,
            "the token before the last one is read: the score must have seen the whole answer",
        ),
    ),
    not_tested="rows without a real token, and several texts packed into one row.",
)
