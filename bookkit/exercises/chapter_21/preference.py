"""rlhf.preference.1: the Bradley-Terry loss of a reward model."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def preference_loss(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    """Mean loss, and the share of pairs in the right order."""
    return softplus(margin - (chosen - rejected)).mean(), _right(chosen - rejected)


def _right(gap: Tensor) -> Tensor:
    ahead, even = (gap > 0).to(gap.dtype), (gap == 0).to(gap.dtype)
    return (ahead + 0.5 * even).mean()


def oracle(chosen: list[float], rejected: list[float], margin: float) -> tuple[float, float]:
    """The probability of each label as a number, its logarithm by the stable side."""
    losses, right = [], 0.0
    for a, b in zip(chosen, rejected, strict=True):
        x = a - b - margin
        losses.append(math.log1p(math.exp(-x)) if x > 0 else -x + math.log1p(math.exp(x)))
        right += 1.0 if a > b else 0.5 if a == b else 0.0
    return math.fsum(losses) / len(losses), right / len(losses)


def cases(draw: Draw) -> Case:
    """Scores of both orders, some of them equal."""
    n = draw.dimension()
    chosen, rejected = draw.normal(n), draw.normal(n)
    rejected[0] = chosen[0] if draw.integer(0, 3) == 0 else rejected[0]
    inputs = {"chosen": chosen, "rejected": rejected, "margin": draw.choice([0.0, 0.5, 1.0])}
    return Case(f"{n} pairs", inputs, gradient=_no_tie(inputs))


def _no_tie(inputs: Mapping[str, Any]) -> bool:
    """The accuracy jumps at a tie, so there are no finite differences there."""
    return bool((inputs["chosen"] != inputs["rejected"]).all())


def edges() -> tuple[Case, ...]:
    """Level, in order, out of order, by a margin, far apart either way."""

    def case(name: str, chosen: list[float], rejected: list[float], margin: float = 0.0) -> Case:
        inputs = {
            "chosen": torch.tensor(chosen, dtype=torch.float64),
            "rejected": torch.tensor(rejected, dtype=torch.float64),
            "margin": margin,
        }
        return Case(name, inputs, gradient=_no_tie(inputs))

    return (
        case("level", [0.7], [0.7]),
        case("in order", [2.0], [1.0]),
        case("out of order", [1.0], [2.0]),
        case("in order by less than the margin", [2.0], [1.5], margin=1.0),
        case("three pairs", [2.0, 0.5, -1.0], [1.0, 1.5, -1.0]),
        case("all far away from zero", [101.0, 102.0], [100.0, 100.0]),
        case("very sure and right", [1e4], [0.0]),
        case("very sure and not right", [0.0], [1e4]),
    )


def _loss(value: Tensor, chosen: Tensor, rejected: Tensor) -> Pair:
    return value, _right(chosen - rejected)


def _swapped(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return _loss(softplus(chosen - rejected + margin).mean(), chosen, rejected)


def _naive(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    gap = chosen - rejected - margin
    return _loss(-torch.log(torch.sigmoid(gap)).mean(), chosen, rejected)


def _no_log(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return _loss(1 - torch.sigmoid(chosen - rejected - margin).mean(), chosen, rejected)


def _no_margin(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return preference_loss(chosen, rejected, 0.0)


def _margin_added(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return preference_loss(chosen, rejected, -margin)


def _sum(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return _loss(softplus(margin - (chosen - rejected)).sum(), chosen, rejected)


def _pointwise(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    each = logsigmoid(chosen - margin) + logsigmoid(-rejected)
    return _loss(-each.mean() / 2, chosen, rejected)


def _hinge(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return _loss(torch.relu(1 + margin - (chosen - rejected)).mean(), chosen, rejected)


def _of_means(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return _loss(softplus(margin - (chosen.mean() - rejected.mean())), chosen, rejected)


def _detached(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    return preference_loss(chosen, rejected.detach(), margin)


def _ties_right(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    loss, _ = preference_loss(chosen, rejected, margin)
    return loss, (chosen >= rejected).to(chosen.dtype).mean()


def _ties_lost(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    loss, _ = preference_loss(chosen, rejected, margin)
    return loss, (chosen > rejected).to(chosen.dtype).mean()


def _accuracy_with_margin(chosen: Tensor, rejected: Tensor, margin: float) -> Pair:
    loss, _ = preference_loss(chosen, rejected, margin)
    return loss, _right(chosen - rejected - margin)


PREFERENCE = Exercise(
    id="rlhf.preference.1",
    title="The loss of a comparison",
    chapter=21,
    difficulty=2,
    minutes=15,
    goal=(
        "The mean of -log σ(chosen - rejected - margin) over the pairs, and the share of pairs "
        "whose chosen score is higher; a tie counts half."
    ),
    outputs=(Output("loss", "()"), Output("accuracy", "(), 0 to 1")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=preference_loss,
    gradient_to=("chosen", "rejected"),
    mutants=(
        Mutant(
            "chosen and rejected swapped",
            _swapped,
            "the loss falls when the rejected answer scores higher: the difference must be chosen "
            "minus rejected",
        ),
        Mutant(
            "logarithm of a sigmoid",
            _naive,
            "log(sigmoid(x)) is -inf for a very negative x: use `logsigmoid` or `softplus(-x)`",
        ),
        Mutant(
            "logarithm missing",
            _no_log,
            "this is the probability of the opposite label, not minus the logarithm of the label's "
            "own: its gradient vanishes where the model is sure and mistaken",
        ),
        Mutant(
            "margin ignored",
            _no_margin,
            "`margin` has no effect: it is subtracted from the difference before the sigmoid",
        ),
        Mutant(
            "margin added",
            _margin_added,
            "the margin is added to the difference: it demands more of a pair, so subtract it",
        ),
        Mutant("sum", _sum, "the loss is the sum over the pairs; divide by their number"),
        Mutant(
            "each score by itself",
            _pointwise,
            "each score is pushed to a label of its own: a comparison says only which is higher, "
            "so adding 100 to all scores must not change the loss",
        ),
        Mutant(
            "hinge",
            _hinge,
            "this is a hinge: it is flat beyond 1, while -log σ goes on paying for a larger margin",
        ),
        Mutant(
            "difference of means",
            _of_means,
            "the scores are averaged before they are compared: each pair is one comparison, and "
            "the mean is taken of the losses",
        ),
        Mutant(
            "rejected detached",
            _detached,
            "the values are right, but no gradient reaches `rejected`: both scores come from the "
            "same model and both are trained",
        ),
        Mutant(
            "ties counted as right",
            _ties_right,
            "a tie counts as right, so a model that gives every answer the same score would be "
            "perfect: a tie counts half",
        ),
        Mutant(
            "ties counted as mistakes",
            _ties_lost,
            "a tie counts as a mistake: by a coin it would be right half of the time, so it counts "
            "half",
        ),
        Mutant(
            "accuracy with the margin",
            _accuracy_with_margin,
            "the margin is subtracted for the accuracy too: it belongs to the loss alone",
        ),
    ),
    not_tested="a margin for each pair, and whether the labels say anything.",
)
