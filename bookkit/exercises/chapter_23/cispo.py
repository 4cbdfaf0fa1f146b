"""rlvr.cispo.1: a clipped weight that leaves every token its gradient."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def cispo(logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, high: float) -> Tensor:
    """The clipped ratio is a constant weight of the log-probability."""
    ratio = torch.where(mask, logp.detach() - old_logp.detach(), 0.0).exp()
    weight = ratio.clamp(max=1 + high) * advantages.detach()[:, None]
    return torch.where(mask, -weight * torch.where(mask, logp, 0.0), 0.0)


def oracle(
    logp: list[list[float]],
    old_logp: list[list[float]],
    advantages: list[float],
    mask: list[list[bool]],
    high: float,
    frozen: list[list[float]],
) -> list[list[float]]:
    """`frozen` equals `logp`; the weight is made of it, so that no gradient passes there."""
    result = []
    for row, old, advantage, counted, held in zip(
        logp, old_logp, advantages, mask, frozen, strict=True
    ):
        losses = []
        for now, then, counts, fixed in zip(row, old, counted, held, strict=True):
            weight = min(math.exp(fixed - then), 1 + high) if counts else 0.0
            losses.append(-weight * advantage * now if counts else 0.0)
        result.append(losses)
    return result


def _inputs(
    logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> dict[str, object]:
    return {
        "logp": logp,
        "old_logp": old,
        "advantages": advantages,
        "mask": mask,
        "high": high,
        "frozen": logp.clone(),
    }


def cases(draw: Draw) -> Case:
    """Ratios from about a half to three."""
    rows, columns = draw.dimension(), draw.dimension()
    old = -draw.uniform(0.1, 2.5, rows, columns)
    gap = draw.uniform(-0.7, 1.1, rows, columns)
    high = draw.choice([0.28, 1.0])
    mask = draw.prefix_mask(rows, columns)
    return Case(f"{rows} × {columns}", _inputs(old + gap, old, draw.normal(rows), mask, high))


def edges() -> tuple[Case, ...]:
    """Far above, far below, both signs, padding, nan in the padding."""

    def case(
        name: str, ratios: list[list[float]], advantages: list[float], lengths: list[int]
    ) -> Case:
        ratio = torch.tensor(ratios, dtype=torch.float64)
        old = torch.full_like(ratio, -1.5)
        mask = torch.arange(ratio.shape[1]) < torch.tensor(lengths)[:, None]
        weights = torch.tensor(advantages, dtype=torch.float64)
        return Case(name, _inputs(old + ratio.log(), old, weights, mask, 0.28))

    return (
        case("unchanged", [[1.0]], [2.0], [1]),
        case("good, far above", [[3.0]], [2.0], [1]),
        case("bad, far above", [[3.0]], [-2.0], [1]),
        case("good, far below", [[0.25]], [2.0], [1]),
        case("bad, far below", [[0.25]], [-2.0], [1]),
        case("two rows", [[1.0, 3.0], [0.25, 1.2]], [1.0, -2.0], [2, 2]),
        case("padding", [[1.1, 3.0, 3.0]], [1.0], [1]),
        case("nan in the padding", [[1.1, math.nan]], [1.0], [1]),
    )


def _ratio(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, logp - old.detach(), 0.0).exp()


def _loss(weight: Tensor, logp: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, -weight * torch.where(mask, logp, 0.0), 0.0)


def _attached(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    weight = _ratio(logp, old, mask).clamp(max=1 + high) * adv.detach()[:, None]
    return _loss(weight, logp, mask)


def _surrogate(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    ratio, weight = _ratio(logp, old, mask), adv.detach()[:, None]
    bounded = ratio.clamp(max=1 + high)
    return torch.where(mask, -torch.minimum(ratio * weight, bounded * weight), 0.0)


def _absolute(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    weight = _ratio(logp, old, mask).detach().clamp(max=high) * adv.detach()[:, None]
    return _loss(weight, logp, mask)


def _both_bounds(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    weight = _ratio(logp, old, mask).detach().clamp(1 - 0.2, 1 + high) * adv.detach()[:, None]
    return _loss(weight, logp, mask)


def _not_clipped(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    return _loss(_ratio(logp, old, mask).detach() * adv.detach()[:, None], logp, mask)


def _no_weight(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    return _loss(adv.detach()[:, None].expand_as(logp), logp, mask)


def _dropped(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    ratio = _ratio(logp, old, mask).detach()
    weight = torch.where(ratio > 1 + high, 0.0, ratio) * adv.detach()[:, None]
    return _loss(weight, logp, mask)


def _no_minus(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    return -cispo(logp, old, adv, mask, high)


def _not_masked(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    return cispo(logp, old, adv, torch.ones_like(mask), high)


def _masked_late(logp: Tensor, old: Tensor, adv: Tensor, mask: Tensor, high: float) -> Tensor:
    ratio = (logp - old).detach().exp().clamp(max=1 + high)
    return -ratio * adv.detach()[:, None] * logp * mask


CISPO = Exercise(
    id="rlvr.cispo.1",
    title="A clipped weight",
    chapter=23,
    difficulty=3,
    minutes=20,
    goal=(
        "For each token minus the ratio, clipped at 1 + high and held constant, times the row's "
        "advantage times the log-probability; 0 in the padding."
    ),
    outputs=(Output("losses", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=cispo,
    gradient_to=("logp",),
    no_gradient_to=("old_logp", "advantages"),
    hidden=("frozen",),
    mutants=(
        Mutant(
            "weight not detached",
            _attached,
            "the values are right, but the gradient also runs through the weight: detach the "
            "ratio, so that it only weighs",
        ),
        Mutant(
            "PPO's surrogate",
            _surrogate,
            "this is PPO's surrogate, ratio times advantage: a token beyond the bound then has no "
            "gradient at all. Here the log-probability carries the gradient, the ratio weighs it",
        ),
        Mutant(
            "absolute bound",
            _absolute,
            "the ratio is clipped at `high` itself: the bound is 1 + high (TRL's argument is the "
            "bound itself, which is how this slip comes about)",
        ),
        Mutant(
            "lower bound too",
            _both_bounds,
            "there is a lower bound: small ratios are weighed as they are",
        ),
        Mutant(
            "not clipped",
            _not_clipped,
            "`high` has no effect: a weight may be at most 1 + high",
        ),
        Mutant(
            "no weight",
            _no_weight,
            "the ratio is missing: this is the plain policy gradient of a batch that another "
            "policy sampled",
        ),
        Mutant(
            "dropped beyond the bound",
            _dropped,
            "tokens beyond the bound are dropped: they keep the weight 1 + high, so that rare "
            "words that matter go on learning",
        ),
        Mutant(
            "minus sign missing",
            _no_minus,
            "the sign is opposite: an optimiser descends, so the loss is minus the objective",
        ),
        Mutant(
            "padding not masked",
            _not_masked,
            "the padding has a loss: it must be 0 there",
        ),
        Mutant(
            "masked by a product",
            _masked_late,
            "multiplying by the mask leaves nan in the padding: replace what stands there first",
        ),
    ),
    not_tested="huge log-ratios, and the mean over tokens that follows.",
)
