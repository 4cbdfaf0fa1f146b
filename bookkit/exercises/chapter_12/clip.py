"""ppo.clip.1: the clipped surrogate."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def clip_loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Minus the mean of the smaller of the two surrogates."""
    ratio = torch.exp(logprobs - old_logprobs.detach())
    weight = advantages.detach()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * weight, clipped * weight).mean()


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


def _ratio(logprobs: Tensor, old: Tensor) -> Tensor:
    return torch.exp(logprobs - old.detach())


def _no_minus(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    return -clip_loss(logprobs, old, advantages, clip)


def _largest(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = _ratio(logprobs, old), advantages.detach()
    return -torch.maximum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight).mean()


def _only_clipped(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio = _ratio(logprobs, old)
    return -(ratio.clamp(1 - clip, 1 + clip) * advantages.detach()).mean()


def _not_clipped(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    return -(_ratio(logprobs, old) * advantages.detach()).mean()


def _upside_down(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = torch.exp(old.detach() - logprobs), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight).mean()


def _no_exp(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = logprobs - old.detach(), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(-clip, clip) * weight).mean()


def _around_zero(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = _ratio(logprobs, old), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(-clip, clip) * weight).mean()


def _quotient(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = logprobs / old.detach(), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight).mean()


def _upper_only(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = _ratio(logprobs, old), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(max=1 + clip) * weight).mean()


def _sum(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    return clip_loss(logprobs, old, advantages, clip) * logprobs.shape[0]


def _attached_old(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = torch.exp(logprobs - old), advantages.detach()
    return -torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight).mean()


def _attached_advantages(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio = _ratio(logprobs, old)
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()


def _clipped_products(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    product = _ratio(logprobs, old) * advantages.detach()
    return -torch.minimum(product, product.clamp(1 - clip, 1 + clip)).mean()


def _fixed_clip(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    return clip_loss(logprobs, old, advantages, 0.2)


def _min_of_means(logprobs: Tensor, old: Tensor, advantages: Tensor, clip: float) -> Tensor:
    ratio, weight = _ratio(logprobs, old), advantages.detach()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum((ratio * weight).mean(), (clipped * weight).mean())


CLIP = Exercise(
    id="ppo.clip.1",
    title="The clipped surrogate",
    chapter=12,
    difficulty=2,
    minutes=20,
    goal=(
        "Minus the mean over the actions of the smaller of ratio times advantage and clipped ratio "
        "times advantage; old log-probabilities and advantages are constants."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=clip_loss,
    gradient_to=("logprobs",),
    no_gradient_to=("old_logprobs", "advantages"),
    mutants=(
        Mutant(
            "minus sign missing",
            _no_minus,
            "the sign is opposite: the surrogate is to be made large, and an optimiser descends, "
            "so the loss is minus its mean",
        ),
        Mutant(
            "the larger of the two",
            _largest,
            "the larger of the two surrogates is taken; PPO takes the smaller one, so that it "
            "never promises more than it may keep",
        ),
        Mutant(
            "only the clipped ratio",
            _only_clipped,
            "only the clipped ratio is used: an action that has moved the harmful way (good and "
            "rarer, bad and likelier) then gets no gradient that would bring it back",
        ),
        Mutant(
            "not clipped",
            _not_clipped,
            "`clip` has no effect: beyond 1 + clip for good actions, and below 1 - clip for bad "
            "ones, the loss must be flat",
        ),
        Mutant(
            "ratio upside down",
            _upside_down,
            "the ratio is old over new; it is new over old, exp(logprobs - old_logprobs)",
        ),
        Mutant(
            "exp missing",
            _no_exp,
            "the ratio is the difference of log-probabilities: take exp of it, then clip around 1",
        ),
        Mutant(
            "clipped around 0",
            _around_zero,
            "the ratio is clipped to ±clip; it lies around 1, so clip to 1 - clip and 1 + clip",
        ),
        Mutant(
            "quotient of logarithms",
            _quotient,
            "the log-probabilities are divided by each other: the ratio of probabilities is exp "
            "of their difference",
        ),
        Mutant(
            "only the upper bound",
            _upper_only,
            "only the upper bound clips: a bad action may be pushed down without end, so clip at "
            "1 - clip as well",
        ),
        Mutant("sum", _sum, "the loss is the sum over the actions; divide by their number"),
        Mutant(
            "old log-probabilities not detached",
            _attached_old,
            "the values are right, but a gradient reaches `old_logprobs`: they are data from the "
            "rollout, so detach them",
        ),
        Mutant(
            "advantages not detached",
            _attached_advantages,
            "the values are right, but a gradient reaches `advantages`: through it the policy's "
            "loss would train the critic, so detach them",
        ),
        Mutant(
            "clipped product",
            _clipped_products,
            "the product of ratio and advantage is clipped; clip the ratio, then multiply",
        ),
        Mutant(
            "fixed clip",
            _fixed_clip,
            "the clip range is always 0.2, whatever `clip` says",
        ),
        Mutant(
            "smaller of two means",
            _min_of_means,
            "the smaller of two means is taken; the choice is made for each action, then averaged",
        ),
    ),
    not_tested="masks, huge log-ratios, and learning.",
)
