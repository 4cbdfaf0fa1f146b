"""rlvr.clip.1: a clip that is wider above than below."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def clip_higher(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    """The loss of each token, 0 in the padding."""
    weight = advantages.detach()[:, None]
    ratio = torch.where(mask, logp - old_logp.detach(), 0.0).exp()
    free, bounded = ratio * weight, ratio.clamp(1 - low, 1 + high) * weight
    return torch.where(mask, -torch.minimum(free, bounded), 0.0)


def oracle(
    logp: list[list[float]],
    old_logp: list[list[float]],
    advantages: list[float],
    mask: list[list[bool]],
    low: float,
    high: float,
) -> list[list[float]]:
    """Token by token: flat beyond the bound that pays."""
    result = []
    for row, old, advantage, counted in zip(logp, old_logp, advantages, mask, strict=True):
        losses = []
        for now, then, counts in zip(row, old, counted, strict=True):
            if not counts:
                losses.append(0.0)
                continue
            ratio = math.exp(now - then)
            if advantage > 0:
                ratio = min(ratio, 1 + high)
            elif advantage < 0:
                ratio = max(ratio, 1 - low)
            losses.append(-ratio * advantage)
        result.append(losses)
    return result


def cases(draw: Draw) -> Case:
    """Ratios from about a half to two, one advantage a row."""
    rows, columns = draw.dimension(), draw.dimension()
    old = -draw.uniform(0.1, 2.5, rows, columns)
    gap = draw.uniform(-0.7, 0.7, rows, columns)
    low, high = draw.choice([0.1, 0.2]), draw.choice([0.28, 0.4])
    inputs = {
        "logp": old + gap,
        "old_logp": old,
        "advantages": draw.normal(rows),
        "mask": draw.prefix_mask(rows, columns),
        "low": low,
        "high": high,
    }
    ratio = gap.exp()
    kink = min(float((ratio - 1 - high).abs().min()), float((ratio - 1 + low).abs().min()))
    return Case(f"{rows} × {columns}", inputs, gradient=kink > 1e-3)


def edges() -> tuple[Case, ...]:
    """Each corner alone, a square batch, nan in the padding."""

    def case(
        name: str, ratios: list[list[float]], advantages: list[float], lengths: list[int]
    ) -> Case:
        ratio = torch.tensor(ratios, dtype=torch.float64)
        old = torch.full_like(ratio, -1.0)
        mask = torch.arange(ratio.shape[1]) < torch.tensor(lengths)[:, None]
        inputs = {
            "logp": old + ratio.log(),
            "old_logp": old,
            "advantages": torch.tensor(advantages, dtype=torch.float64),
            "mask": mask,
            "low": 0.2,
            "high": 0.28,
        }
        return Case(name, inputs)

    return (
        case("good, between the two bounds", [[1.25]], [1.0], [1]),
        case("good, far above", [[1.6]], [1.0], [1]),
        case("good, far below", [[0.5]], [1.0], [1]),
        case("bad, far below", [[0.5]], [-1.0], [1]),
        case("bad, between the two bounds below", [[0.75]], [-2.0], [1]),
        case("bad, far above", [[1.6]], [-1.0], [1]),
        case("two rows", [[1.0, 1.6], [0.5, 1.1]], [1.0, -2.0], [2, 2]),
        case("nan in the padding", [[1.1, math.nan]], [2.0], [1]),
        case("padding", [[1.1, 1.6, 0.5]], [-2.0], [1]),
        case("one row, three tokens", [[1.0, 1.3, 0.7]], [2.0], [3]),
    )


def _with(
    logp: Tensor, old: Tensor, weight: Tensor, mask: Tensor, bounds: tuple[float, float]
) -> Tensor:
    ratio = torch.where(mask, logp - old.detach(), 0.0).exp()
    loss = -torch.minimum(ratio * weight, ratio.clamp(*bounds) * weight)
    return torch.where(mask, loss, 0.0)


def _symmetric(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach()[:, None], mask, (1 - low, 1 + low))


def _exchanged(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach()[:, None], mask, (1 - high, 1 + low))


def _both_wide(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach()[:, None], mask, (1 - high, 1 + high))


def _only_clipped(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    ratio = torch.where(mask, logp - old.detach(), 0.0).exp().clamp(1 - low, 1 + high)
    return torch.where(mask, -ratio * advantages.detach()[:, None], 0.0)


def _only_above(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach()[:, None], mask, (0.0, 1 + high))


def _largest(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    weight = advantages.detach()[:, None]
    ratio = torch.where(mask, logp - old.detach(), 0.0).exp()
    loss = -torch.maximum(ratio * weight, ratio.clamp(1 - low, 1 + high) * weight)
    return torch.where(mask, loss, 0.0)


def _no_minus(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return -clip_higher(logp, old, advantages, mask, low, high)


def _absolute(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach()[:, None], mask, (low, high))


def _not_masked(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(
        logp, old, advantages.detach()[:, None], torch.ones_like(mask), (1 - low, 1 + high)
    )


def _masked_late(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    weight = advantages.detach()[:, None]
    ratio = (logp - old.detach()).exp()
    loss = -torch.minimum(ratio * weight, ratio.clamp(1 - low, 1 + high) * weight)
    return loss * mask


def _wrong_axis(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    return _with(logp, old, advantages.detach(), mask, (1 - low, 1 + high))


def _attached(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    weight = advantages[:, None]
    ratio = torch.where(mask, logp - old, 0.0).exp()
    loss = -torch.minimum(ratio * weight, ratio.clamp(1 - low, 1 + high) * weight)
    return torch.where(mask, loss, 0.0)


CLIP = Exercise(
    id="rlvr.clip.1",
    title="A clip that is wider above",
    chapter=23,
    difficulty=2,
    minutes=20,
    goal=(
        "For each token minus the smaller of ratio times advantage and clipped ratio times "
        "advantage, with bounds 1 - low and 1 + high and one advantage a row; 0 in the padding."
    ),
    outputs=(Output("losses", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=clip_higher,
    gradient_to=("logp",),
    no_gradient_to=("old_logp", "advantages"),
    mutants=(
        Mutant(
            "one bound for both",
            _symmetric,
            "`high` has no effect: the upper bound is 1 + high, so that a rare token of a good "
            "answer has room to grow",
        ),
        Mutant(
            "bounds exchanged",
            _exchanged,
            "`low` and `high` are exchanged: the lower bound is 1 - low, the upper one 1 + high",
        ),
        Mutant(
            "wide on both sides",
            _both_wide,
            "`low` has no effect: below, the bound is 1 - low, so that bad tokens do not vanish "
            "in one batch",
        ),
        Mutant(
            "only the clipped ratio",
            _only_clipped,
            "only the clipped ratio is used: a token that has moved the harmful way then gets no "
            "gradient that would bring it back",
        ),
        Mutant(
            "only the upper bound",
            _only_above,
            "only the upper bound clips: a bad token may be pushed down without end",
        ),
        Mutant(
            "the larger of the two",
            _largest,
            "the larger of the two is taken; the objective is the smaller one",
        ),
        Mutant(
            "minus sign missing",
            _no_minus,
            "the sign is opposite: the objective is to be made large, and an optimiser descends",
        ),
        Mutant(
            "absolute bounds",
            _absolute,
            "the ratio is clamped to [low, high] itself: the bounds lie around 1",
        ),
        Mutant(
            "padding not masked",
            _not_masked,
            "the padding has a loss: it must be 0 there",
        ),
        Mutant(
            "masked by a product",
            _masked_late,
            "multiplying by the mask leaves nan in the padding, in value or gradient: replace "
            "what stands there before exp",
        ),
        Mutant(
            "advantages along the wrong axis",
            _wrong_axis,
            "(B,) met (B, T): the advantages are laid along the tokens. One advantage belongs to "
            "each row, so `advantages[:, None]`",
        ),
        Mutant(
            "data not detached",
            _attached,
            "the values are right, but a gradient reaches `old_logp` or `advantages`: they are "
            "data from the rollout, so detach them",
        ),
    ),
    not_tested="huge log-ratios, and what the wider bound does for exploration.",
)
