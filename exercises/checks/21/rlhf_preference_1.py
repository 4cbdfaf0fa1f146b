"""rlhf.preference.1: the Bradley-Terry loss of a reward model."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="rlhf.preference.1",
    outputs=(Output("loss", "()"), Output("accuracy", "(), 0 to 1")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "chosen and rejected swapped",
            "gap -",
            "(-gap) -",
            "the loss falls when the rejected answer scores higher: the difference must "
            "be chosen minus rejected",
        ),
        edit(
            "logarithm of a sigmoid",
            "loss,",
            "-torch.log(torch.sigmoid(chosen - rejected - margin)).mean(),",
            "log(sigmoid(x)) is -inf for a very negative x: use `logsigmoid` or `softplus(-x)`",
        ),
        edit(
            "logarithm missing",
            "loss,",
            "1 - torch.sigmoid(chosen - rejected - margin).mean(),",
            "this is the probability of the opposite label, not minus the logarithm of "
            "the label's own: its gradient vanishes where the model is sure and mistaken",
        ),
        edit(
            "margin ignored",
            "- margin",
            "- 0.0",
            "`margin` has no effect: it is subtracted from the difference before the sigmoid",
        ),
        edit(
            "margin added",
            "- margin",
            "- (-margin)",
            "the margin is added to the difference: it demands more of a pair, so subtract it",
        ),
        edit(
            "sum",
            "(gap - margin).mean",
            "(gap - margin).sum",
            "the loss is the sum over the pairs; divide by their number",
        ),
        edit(
            "each score by itself",
            "-torch.nn.functional.logsigmoid(gap - margin).mean()",
            "torch.nn.functional.logsigmoid(chosen - margin)\n"
            "    loss = -(loss + torch.nn.functional.logsigmoid(-rejected)).mean() / 2",
            "each score is pushed to a label of its own: a comparison says only which is "
            "higher, so adding 100 to all scores must not change the loss",
        ),
        edit(
            "hinge",
            "loss,",
            "torch.relu(1 + margin - (chosen - rejected)).mean(),",
            "this is a hinge: it is flat beyond 1, while -log σ goes on paying for a larger margin",
        ),
        edit(
            "difference of means",
            "gap -",
            "(chosen.mean() - rejected.mean()) -",
            "the scores are averaged before they are compared: each pair is one "
            "comparison, and the mean is taken of the losses",
        ),
        edit(
            "rejected detached",
            "- rejected",
            "- rejected.detach()",
            "the values are right, but no gradient reaches `rejected`: both scores come "
            "from the same model and both are trained",
        ),
        edit(
            "ties counted as right",
            "0.5",
            "1",
            "a tie counts as right, so a model that gives every answer the same score "
            "would be perfect: a tie counts half",
        ),
        edit(
            "ties counted as mistakes",
            "0.5",
            "0",
            "a tie counts as a mistake: by a coin it would be right half of the time, so "
            "it counts half",
        ),
        edit(
            "accuracy with the margin",
            "    accuracy = ",
            "    gap = gap - margin\n    accuracy = ",
            "the margin is subtracted for the accuracy too: it belongs to the loss alone",
        ),
    ),
    not_tested="a margin for each pair, and whether the labels say anything.",
    gradient_to=("chosen", "rejected"),
    wide=(
        "chosen",
        "rejected",
    ),
)
