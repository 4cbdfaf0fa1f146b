"""rlhf.ending.1: an answer that never ended pays for it."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

EOS = 2


def charge_unended(
    scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float
) -> Tensor:
    """Subtract the penalty from rows without a counted end of sequence."""
    ended = ((ids == eos_id) & mask).any(dim=1)
    return torch.where(ended, scores, scores - penalty)


def oracle(
    scores: list[float],
    ids: list[list[int]],
    mask: list[list[bool]],
    eos_id: int,
    penalty: float,
) -> list[float]:
    """Look for an end in each row."""
    charged = []
    for score, row, counts in zip(scores, ids, mask, strict=True):
        found = False
        for token, counted in zip(row, counts, strict=True):
            if counted and token == eos_id:
                found = True
        charged.append(score if found else score - penalty)
    return charged


def cases(draw: Draw) -> Case:
    """Some answers end, some are cut off; all are padded with the end's id."""
    rows, columns = draw.dimension(), draw.dimension(2)
    mask = draw.prefix_mask(rows, columns)
    ids = draw.integers(3, 9, rows, columns)
    for row in range(rows):
        if draw.integer(0, 1):
            ids[row, int(mask[row].sum()) - 1] = EOS
    inputs = {
        "scores": draw.normal(rows),
        "ids": torch.where(mask, ids, EOS),
        "mask": mask,
        "eos_id": EOS,
        "penalty": draw.choice([0.5, 1.0, 2.0]),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Ended, cut off, padded with the end's id, another end, a negative score."""

    def case(
        name: str, scores: list[float], ids: list[list[int]], mask: list[str], **numbers: float
    ) -> Case:
        inputs = {
            "scores": torch.tensor(scores, dtype=torch.float64),
            "ids": torch.tensor(ids),
            "mask": torch.tensor([[letter == "1" for letter in row] for row in mask]),
            "eos_id": int(numbers.get("eos_id", EOS)),
            "penalty": numbers.get("penalty", 1.0),
        }
        return Case(name, inputs)

    return (
        case("ended", [3.0], [[5, 6, 2]], ["111"]),
        case("cut off", [3.0], [[5, 6, 7]], ["111"]),
        case("ended early", [3.0], [[5, 2, 2]], ["110"]),
        case("cut off and padded with the end's id", [3.0], [[5, 6, 2]], ["110"]),
        case("one token, the end", [3.0], [[2]], ["1"]),
        case("another end", [3.0], [[5, 6, 2]], ["111"], eos_id=6, penalty=0.5),
        case("another end, cut off", [3.0], [[5, 4, 2]], ["111"], eos_id=6, penalty=0.5),
        case("a negative score, cut off", [-3.0], [[5, 6, 7]], ["111"], penalty=2.0),
        case("two rows", [3.0, 1.0], [[5, 2, 2], [5, 6, 7]], ["110", "111"]),
    )


def _pads(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    return charge_unended(scores, ids, torch.ones_like(mask), eos_id, penalty)


def _ended_pay(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = ((ids == eos_id) & mask).any(dim=1)
    return torch.where(ended, scores - penalty, scores)


def _replaced(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = ((ids == eos_id) & mask).any(dim=1)
    return torch.where(ended, scores, torch.full_like(scores, -penalty))


def _added(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    return charge_unended(scores, ids, mask, eos_id, -penalty)


def _scaled(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = ((ids == eos_id) & mask).any(dim=1)
    return torch.where(ended, scores, scores * (1 - penalty / 4))


def _last_column(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = (ids[:, -1] == eos_id) & mask[:, -1]
    return torch.where(ended, scores, scores - penalty)


def _full_rows(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    return torch.where(mask.all(dim=1), scores - penalty, scores)


def _everyone(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = ((ids == eos_id) & mask).any()
    return scores if ended else scores - penalty


def _fixed_id(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    return charge_unended(scores, ids, mask, EOS, penalty)


def _in_place(scores: Tensor, ids: Tensor, mask: Tensor, eos_id: int, penalty: float) -> Tensor:
    ended = ((ids == eos_id) & mask).any(dim=1)
    scores[~ended] -= penalty
    return scores


ENDING = Exercise(
    id="rlhf.ending.1",
    title="A price for not ending",
    chapter=21,
    difficulty=1,
    minutes=10,
    goal=(
        "Subtract the penalty from the score of every answer without an end of sequence among its "
        "counted tokens; pads may have the same id."
    ),
    outputs=(Output("scores", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=charge_unended,
    mutants=(
        Mutant(
            "pads taken for ends",
            _pads,
            "a pad with the id of the end counts as an end, so that an answer which was cut off "
            "goes free: look at counted tokens only",
        ),
        Mutant(
            "the ended ones pay",
            _ended_pay,
            "the answers that ended pay, and those that did not go free",
        ),
        Mutant(
            "score replaced",
            _replaced,
            "the score is replaced by minus the penalty: subtract it, or all unended answers are "
            "equally good and there is nothing to learn between them",
        ),
        Mutant(
            "penalty added",
            _added,
            "the penalty is added: not ending would be rewarded",
        ),
        Mutant(
            "score scaled",
            _scaled,
            "the score is multiplied: for a negative score that is a reward. Subtract a constant",
        ),
        Mutant(
            "last column only",
            _last_column,
            "only the last column is looked at: an answer that ended earlier is charged as well",
        ),
        Mutant(
            "all full rows",
            _full_rows,
            "every answer without a pad is charged, also one whose last token is the end; look for "
            "the end itself",
        ),
        Mutant(
            "one end for all",
            _everyone,
            "one answer that ended lets the whole batch go free: `any` needs `dim=1`",
        ),
        Mutant(
            "fixed id",
            _fixed_id,
            "token 2 is taken for the end whatever `eos_id` says",
        ),
        Mutant(
            "in place",
            _in_place,
            "the scores of the caller are changed: what is logged as the reward would hold the "
            "penalty too. Return a new tensor",
        ),
    ),
    not_tested="several ids that end a text.",
)
