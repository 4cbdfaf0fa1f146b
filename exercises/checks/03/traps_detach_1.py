"""traps.detach.1: a loss whose value says nothing and whose gradient is right."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    logprobs: list[list[float]],
    advantages: list[float],
    mask: list[list[bool]],
    frozen: list[list[float]],
) -> float:
    """The ratio to a frozen copy, token by token."""
    terms = [
        math.exp(now - then) * advantage
        for row, copy, flags, advantage in zip(logprobs, frozen, mask, advantages, strict=True)
        for now, then, counts in zip(row, copy, flags, strict=True)
        if counts
    ]
    return -math.fsum(terms) / len(terms) if terms else 0.0


def _inputs(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> dict[str, Tensor]:
    return {
        "logprobs": logprobs,
        "advantages": advantages,
        "mask": mask,
        "frozen": logprobs.clone(),
    }


def cases(draw: Draw) -> Case:
    """Texts of different length."""
    rows, columns = draw.dimension(), draw.dimension()
    logprobs = -draw.uniform(0.1, 4.0, rows, columns)
    inputs = _inputs(logprobs, draw.normal(rows), draw.prefix_mask(rows, columns))
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Centred advantages, rows of different length, B equal to T, one token, an empty mask."""

    def case(
        name: str, logprobs: list[list[float]], advantages: list[float], mask: list[list[int]]
    ) -> Case:
        inputs = _inputs(
            torch.tensor(logprobs, dtype=torch.float64),
            torch.tensor(advantages, dtype=torch.float64),
            torch.tensor(mask).bool(),
        )
        return Case(name, inputs)

    square = [[-1.0, -2.0], [-0.5, -1.5]]
    return (
        case("centred: the loss is 0", square, [1.0, -1.0], [[1, 1], [1, 1]]),
        case("one token", [[-1.0]], [2.0], [[1]]),
        case(
            "rows of different length",
            [[-1.0, -2.0, -0.3], [-0.5, -1.5, -2.5]],
            [2.0, -0.5],
            [[1, 1, 1], [1, 0, 0]],
        ),
        case("as many texts as tokens", square, [3.0, -0.5], [[1, 1], [1, 0]]),
        case("an empty row", square, [1.0, 2.0], [[0, 0], [1, 1]]),
        case("everything masked", square, [1.0, 2.0], [[0, 0], [0, 0]]),
    )


CHECK = Check(
    id="traps.detach.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "nothing detached",
            "logprobs.detach()",
            "logprobs",
            "the value is right and the gradient is zero: x - x is 0 whatever x is. "
            "Detach the one in the denominator",
        ),
        edit(
            "log-probability",
            "ratio *",
            "logprobs *",
            "the gradient is right; the value is that of REINFORCE's loss. Here the ratio "
            "itself is asked for, exp(logprob - the same, detached)",
        ),
        edit(
            "probability",
            "logprobs - logprobs.detach()",
            "logprobs",
            "the probability stands where the ratio belongs: its gradient is smaller by the "
            "probability itself, so rare tokens hardly learn",
        ),
        edit(
            "opposite sign",
            "-terms.sum",
            "terms.sum",
            "the sign is wrong: optimisers descend, so put a minus",
        ),
        edit(
            "advantages not detached",
            "advantages.detach()",
            "advantages",
            "a gradient flows into `advantages`: the policy's loss would train the critic to "
            "predict badly",
        ),
        edit(
            "mean of sequence means",
            "terms.sum() / mask.sum().clamp(min=1)",
            "(terms.sum(1) / mask.sum(1).clamp(min=1)).mean()",
            "each text is averaged by itself first; asked for is the mean over all tokens "
            "that count",
        ),
        edit(
            "log-ratio",
            "ratio *",
            "(logprobs - logprobs.detach()) *",
            "exp is missing: the log-ratio is 0 in value, and the loss with it, whatever the "
            "advantages are",
        ),
        edit(
            "advantages along time",
            "[:, None]",
            "",
            "(B, T) times (B,) spreads the advantages along the time axis, silently where B "
            "= T: give them an axis, advantages[:, None]",
        ),
        edit(
            "detached the wrong one",
            "ratio *",
            "(logprobs.detach() - logprobs).exp() *",
            "the value is right and the gradient has the opposite sign: the numerator is "
            "detached, and the denominator is trained",
        ),
    ),
    not_tested="clipping, log-probabilities below −8, and nan under the mask (that is "
    "traps.mask.1).",
    gradient_to=("logprobs",),
    no_gradient_to=("advantages",),
    hidden=("frozen",),
    wide=(
        "logprobs",
        "advantages",
    ),
    holed=("mask",),
)
