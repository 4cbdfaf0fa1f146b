"""traps.detach.1: a loss whose value says nothing and whose gradient is right."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def ratio_of_one_loss(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """Minus the token mean of advantage times exp(logprob - itself, detached)."""
    ratio = (logprobs - logprobs.detach()).exp()
    terms = torch.where(mask, ratio * advantages.detach()[:, None], 0.0)
    return -terms.sum() / mask.sum().clamp(min=1)


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


def _loss(ratio: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    terms = torch.where(mask, ratio * advantages[:, None], 0.0)
    return -terms.sum() / mask.sum().clamp(min=1)


def _nothing_detached(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss((logprobs - logprobs).exp(), advantages.detach(), mask)


def _logprob(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss(logprobs, advantages.detach(), mask)


def _probability(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss(logprobs.exp(), advantages.detach(), mask)


def _plus(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return -ratio_of_one_loss(logprobs, advantages, mask)


def _advantages_trained(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss((logprobs - logprobs.detach()).exp(), advantages, mask)


def _sequence_mean(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = (logprobs - logprobs.detach()).exp()
    terms = torch.where(mask, ratio * advantages.detach()[:, None], 0.0)
    return -(terms.sum(1) / mask.sum(1).clamp(min=1)).mean()


def _log_ratio(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss(logprobs - logprobs.detach(), advantages.detach(), mask)


def _time_axis(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ratio = (logprobs - logprobs.detach()).exp()
    terms = torch.where(mask, ratio * advantages.detach(), 0.0)
    return -terms.sum() / mask.sum().clamp(min=1)


def _opposite_gradient(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return _loss((logprobs.detach() - logprobs).exp(), advantages.detach(), mask)


DETACH = Exercise(
    id="traps.detach.1",
    title="A ratio of one",
    chapter=3,
    difficulty=2,
    minutes=15,
    goal=(
        "Minus the token mean of advantage times a ratio that is exactly 1 in value and has the "
        "gradient of the log-probability; everything but that is a constant."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=ratio_of_one_loss,
    hidden=("frozen",),
    gradient_to=("logprobs",),
    no_gradient_to=("advantages",),
    mutants=(
        Mutant(
            "nothing detached",
            _nothing_detached,
            "the value is right and the gradient is zero: x - x is 0 whatever x is. Detach the one "
            "in the denominator",
        ),
        Mutant(
            "log-probability",
            _logprob,
            "the gradient is right; the value is that of REINFORCE's loss. Here the ratio itself "
            "is asked for, exp(logprob - the same, detached)",
        ),
        Mutant(
            "probability",
            _probability,
            "the probability stands where the ratio belongs: its gradient is smaller by the "
            "probability itself, so rare tokens hardly learn",
        ),
        Mutant("opposite sign", _plus, "the sign is wrong: optimisers descend, so put a minus"),
        Mutant(
            "advantages not detached",
            _advantages_trained,
            "a gradient flows into `advantages`: the policy's loss would train the critic to "
            "predict badly",
        ),
        Mutant(
            "mean of sequence means",
            _sequence_mean,
            "each text is averaged by itself first; asked for is the mean over all tokens that "
            "count",
        ),
        Mutant(
            "log-ratio",
            _log_ratio,
            "exp is missing: the log-ratio is 0 in value, and the loss with it, whatever the "
            "advantages are",
        ),
        Mutant(
            "advantages along time",
            _time_axis,
            "(B, T) times (B,) spreads the advantages along the time axis, silently where B = T: "
            "give them an axis, advantages[:, None]",
        ),
        Mutant(
            "detached the wrong one",
            _opposite_gradient,
            "the value is right and the gradient has the opposite sign: the numerator is detached, "
            "and the denominator is trained",
        ),
    ),
    not_tested="clipping, and nan under the mask (that is traps.mask.1).",
)
