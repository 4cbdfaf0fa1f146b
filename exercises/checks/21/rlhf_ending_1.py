"""rlhf.ending.1: an answer that never ended pays for it."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit

EOS = 2


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


CHECK = Check(
    id="rlhf.ending.1",
    outputs=(Output("scores", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "pads taken for ends",
            "& mask",
            "& torch.ones_like(mask)",
            "a pad with the id of the end counts as an end, so that an answer which was "
            "cut off goes free: look at counted tokens only",
        ),
        edit(
            "the ended ones pay",
            "scores, scores - penalty",
            "scores - penalty, scores",
            "the answers that ended pay, and those that did not go free",
        ),
        edit(
            "score replaced",
            "scores - penalty",
            "torch.full_like(scores, -penalty)",
            "the score is replaced by minus the penalty: subtract it, or all unended "
            "answers are equally good and there is nothing to learn between them",
        ),
        edit(
            "penalty added",
            "- penalty",
            "- (-penalty)",
            "the penalty is added: not ending would be rewarded",
        ),
        edit(
            "score scaled",
            "- penalty",
            "* (1 - penalty / 4)",
            "the score is multiplied: for a negative score that is a reward. Subtract a constant",
        ),
        edit(
            "last column only",
            "ended,",
            "(ids[:, -1] == eos_id) & mask[:, -1],",
            "only the last column is looked at: an answer that ended earlier is charged as well",
        ),
        edit(
            "all full rows",
            "ended, scores, scores - penalty",
            "mask.all(dim=1), scores - penalty, scores",
            "every answer without a pad is charged, also one whose last token is the end; "
            "look for the end itself",
        ),
        edit(
            "one end for all",
            "dim=1",
            "",
            "one answer that ended lets the whole batch go free: `any` needs `dim=1`",
        ),
        edit(
            "fixed id",
            "ids == eos_id",
            "ids == 2",
            "token 2 is taken for the end whatever `eos_id` says",
        ),
        edit(
            "in place",
            "return torch.where(ended, scores, scores - penalty)",
            "scores[~ended] -= penalty\n    return scores",
            "the scores of the caller are changed: what is logged as the reward would "
            "hold the penalty too. Return a new tensor",
        ),
    ),
    not_tested="several ids that end a text.",
    wide=("scores",),
    holed=("mask",),
    special=(
        ("mask", False),
        ("eos_id", 0.0),
        ("eos_id", 1.0),
        ("penalty", 0.0),
    ),
)
