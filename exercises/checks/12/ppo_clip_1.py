"""ppo.clip.1: the clipped surrogate."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    logprobs: list[float], old_logprobs: list[float], advantages: list[float], clip: float
) -> float:
    """Case by case: where the objective is flat, and where it is the ratio."""
    terms = []
    for logprob, old, advantage in zip(logprobs, old_logprobs, advantages, strict=True):
        ratio = math.exp(logprob - old)
        if advantage > 0 and ratio > 1 + clip:
            ratio = 1 + clip
        elif advantage < 0 and ratio < 1 - clip:
            ratio = 1 - clip
        terms.append(ratio * advantage)
    return -math.fsum(terms) / len(terms)


def cases(draw: Draw) -> Case:
    """Ratios from about 1/2 to 2, advantages of both signs."""
    n = draw.dimension()
    old = -draw.uniform(0.1, 2.5, n)
    gap = draw.uniform(-0.7, 0.7, n)
    clip = draw.choice([0.1, 0.2, 0.3])
    inputs = {
        "logprobs": old + gap,
        "old_logprobs": old,
        "advantages": draw.normal(n),
        "clip": clip,
    }
    kink = float(((gap.exp() - 1).abs() - clip).abs().min())
    return Case(f"{n} actions", inputs, gradient=kink > 1e-3)


def edges() -> tuple[Case, ...]:
    """Each of the six corners alone, the first minibatch, and a mixture."""

    def case(name: str, ratios: list[float], advantages: list[float], clip: float = 0.2) -> Case:
        old = torch.tensor([-1.0, -0.5, -2.0][: len(ratios)], dtype=torch.float64)
        inputs = {
            "logprobs": old + torch.tensor(ratios, dtype=torch.float64).log(),
            "old_logprobs": old,
            "advantages": torch.tensor(advantages, dtype=torch.float64),
            "clip": clip,
        }
        return Case(name, inputs)

    return (
        case("the ratio is 1, good", [1.0], [2.0]),
        case("the ratio is 1, bad", [1.0], [-2.0]),
        case("good and far above", [1.5], [2.0]),
        case("good and far below", [0.5], [2.0]),
        case("bad and far above", [1.5], [-2.0]),
        case("bad and far below", [0.5], [-2.0]),
        case("a wide clip", [1.25], [2.0], clip=0.5),
        case("the first minibatch", [1.0, 1.0, 1.0], [1.0, -3.0, 0.5]),
        case("a mixture", [1.5, 0.6, 1.1], [1.0, -3.0, 0.5]),
        case("one held back, one pulled back", [1.5, 1.5], [2.0, -2.0]),
        case("advantage zero", [1.5, 0.6], [0.0, 0.0]),
        case("all good", [1.1, 0.9], [1.0, 3.0]),
    )


CHECK = Check(
    id="ppo.clip.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "minus sign missing",
            "-torch.minimum",
            "torch.minimum",
            "the sign is opposite: the surrogate is to be made large, and an optimiser "
            "descends, so the loss is minus its mean",
        ),
        edit(
            "the larger of the two",
            "minimum",
            "maximum",
            "the larger of the two surrogates is taken; PPO takes the smaller one, so "
            "that it never promises more than it may keep",
        ),
        edit(
            "only the clipped ratio",
            "ratio *",
            "clipped *",
            "only the clipped ratio is used: an action that has moved the harmful way "
            "(good and rarer, bad and likelier) then gets no gradient that would bring it "
            "back",
        ),
        edit(
            "not clipped",
            "clipped *",
            "ratio *",
            "`clip` has no effect: beyond 1 + clip for good actions, and below 1 - clip "
            "for bad ones, the loss must be flat",
        ),
        edit(
            "ratio upside down",
            "logprobs - old_logprobs.detach()",
            "old_logprobs.detach() - logprobs",
            "the ratio is old over new; it is new over old, exp(logprobs - old_logprobs)",
        ),
        edits(
            "exp missing",
            ("torch.exp(logprobs - old_logprobs.detach())", "logprobs - old_logprobs.detach()"),
            ("1 - clip, 1 + clip", "-clip, clip"),
            message="the ratio is the difference of log-probabilities: take exp of it, then clip "
            "around 1",
        ),
        edit(
            "clipped around 0",
            "1 - clip, 1 + clip",
            "-clip, clip",
            "the ratio is clipped to ±clip; it lies around 1, so clip to 1 - clip and 1 + clip",
        ),
        edit(
            "quotient of logarithms",
            "torch.exp(logprobs - old_logprobs.detach())",
            "logprobs / old_logprobs.detach()",
            "the log-probabilities are divided by each other: the ratio of probabilities "
            "is exp of their difference",
        ),
        edit(
            "only the upper bound",
            "1 -",
            "0 -",
            "only the upper bound clips: a bad action may be pushed down without end, so "
            "clip at 1 - clip as well",
        ),
        edit(
            "sum", ".mean", ".sum", "the loss is the sum over the actions; divide by their number"
        ),
        edit(
            "old log-probabilities not detached",
            "old_logprobs.detach()",
            "old_logprobs",
            "the values are right, but a gradient reaches `old_logprobs`: they are data "
            "from the rollout, so detach them",
        ),
        edit(
            "advantages not detached",
            "advantages.detach()",
            "advantages",
            "the values are right, but a gradient reaches `advantages`: through it the "
            "policy's loss would train the critic, so detach them",
        ),
        edit(
            "clipped product",
            "clipped * weight",
            "(ratio * weight).clamp(1 - clip, 1 + clip)",
            "the product of ratio and advantage is clipped; clip the ratio, then multiply",
        ),
        edit(
            "fixed clip",
            "ratio =",
            "clip = 0.2\n    ratio =",
            "the clip range is always 0.2, whatever `clip` says",
        ),
        edit(
            "smaller of two means",
            "ratio * weight, clipped * weight",
            "(ratio * weight).mean(), (clipped * weight).mean()",
            "the smaller of two means is taken; the choice is made for each action, then averaged",
        ),
    ),
    not_tested="masks, huge log-ratios, and learning.",
    gradient_to=("logprobs",),
    no_gradient_to=("old_logprobs", "advantages"),
    wide=(
        "logprobs",
        "old_logprobs",
        "advantages",
    ),
    special=(
        ("clip", 0.0),
        ("clip", 1.0),
    ),
)
