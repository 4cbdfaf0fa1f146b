"""sampling.importance.1: truncated importance weights between engine and trainer."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def corrected_loss(
    logprobs: Tensor, rollout_logprobs: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    """REINFORCE on another sampler's tokens, the ratio cut at `high` and held constant."""
    return _loss(logprobs, rollout_logprobs, advantages, mask, high)


def _loss(
    logprobs: Tensor,
    rollout_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    high: float,
    *,
    low: float = 0.0,
    sign: float = 1.0,
) -> Tensor:
    gap = torch.where(mask, logprobs.detach() - rollout_logprobs.detach(), 0.0)
    weight = (sign * gap).exp().clamp(low, high)
    return _mean(weight * advantages.detach()[:, None] * torch.where(mask, logprobs, 0.0), mask)


def _mean(terms: Tensor, mask: Tensor) -> Tensor:
    return -torch.where(mask, terms, 0.0).sum() / mask.sum()


def oracle(
    logprobs: list[list[float]],
    rollout_logprobs: list[list[float]],
    advantages: list[float],
    mask: list[list[bool]],
    high: float,
    frozen: list[list[float]],
) -> float:
    """Token by token; the weight comes from a frozen copy of the trainer's log-probabilities."""
    terms = []
    for b, row in enumerate(mask):
        for t, real in enumerate(row):
            if real:
                weight = min(math.exp(frozen[b][t] - rollout_logprobs[b][t]), high)
                terms.append(weight * advantages[b] * logprobs[b][t])
    return -math.fsum(terms) / len(terms)


def cases(draw: Draw) -> Case:
    """Ratios from a half to two and a half, some over the bound."""
    shape = draw.dimension(), draw.dimension()
    logprobs = -draw.uniform(0.1, 3.0, *shape)
    inputs = {
        "logprobs": logprobs,
        "rollout_logprobs": logprobs - draw.uniform(-0.7, 0.9, *shape),
        "advantages": draw.normal(shape[0]),
        "mask": draw.prefix_mask(*shape),
        "high": draw.choice([1.2, 1.5, 2.0]),
        "frozen": logprobs.clone(),
    }
    return Case(f"{shape[0]} × {shape[1]}", inputs)


def edges() -> tuple[Case, ...]:
    """On policy, far above, far below, nan behind the end, two rows of different lengths."""

    def case(
        name: str,
        ratios: list[list[float]],
        advantages: list[float],
        mask: list[list[int]] | None = None,
        high: float = 2.0,
    ) -> Case:
        ratio = torch.tensor(ratios, dtype=torch.float64)
        start = torch.tensor([-1.0, -0.5, -2.0], dtype=torch.float64)
        logprobs = start[: ratio.shape[1]].expand_as(ratio).clone()
        real = torch.ones_like(ratio) if mask is None else torch.tensor(mask)
        inputs = {
            "logprobs": logprobs,
            "rollout_logprobs": logprobs - ratio.log(),
            "advantages": torch.tensor(advantages, dtype=torch.float64),
            "mask": real.bool(),
            "high": high,
            "frozen": logprobs.clone(),
        }
        return Case(name, inputs)

    return (
        case("on policy", [[1.0]], [2.0]),
        case("on policy, two tokens", [[1.0, 1.0]], [2.0]),
        case("likelier for the trainer", [[1.5]], [2.0]),
        case("above the bound", [[4.0]], [2.0]),
        case("far above the bound", [[10.0]], [2.0]),
        case("far below", [[0.1]], [2.0]),
        case("above the bound, bad", [[4.0]], [-2.0]),
        case("another bound", [[1.4, 0.9]], [1.0], high=1.25),
        case(
            "rows of two lengths",
            [[1.0, 3.0, 0.5], [0.8, 1.0, 1.0]],
            [1.0, -2.0],
            [[1, 1, 1], [1, 0, 0]],
        ),
        case("a product of ratios", [[1.3, 1.3, 1.3]], [1.0]),
        case("nan behind the end", [[1.2, math.nan]], [1.0], [[1, 0]]),
        case("advantage zero", [[1.5, 0.5]], [0.0]),
    )


def _upside_down(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return _loss(logprobs, rollout, advantages, mask, high, sign=-1.0)


def _not_cut(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return _loss(logprobs, rollout, advantages, mask, math.inf)


def _log_ratio_cut(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    gap = torch.where(mask, logprobs.detach() - rollout.detach(), 0.0)
    weight = gap.clamp(max=high).exp() * advantages.detach()[:, None]
    return _mean(weight * torch.where(mask, logprobs, 0.0), mask)


def _both_sides(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return _loss(logprobs, rollout, advantages, mask, high, low=1 / high)


def _no_weight(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return _loss(logprobs, rollout, advantages, mask, high, sign=0.0)


def _dropped(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    weight = torch.where(mask, logprobs.detach() - rollout.detach(), 0.0).exp()
    weight = torch.where(weight > high, 0.0, weight)
    return _mean(weight * advantages.detach()[:, None] * torch.where(mask, logprobs, 0.0), mask)


def _attached(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    weight = torch.where(mask, logprobs - rollout.detach(), 0.0).exp().clamp(max=high)
    return _mean(weight * advantages.detach()[:, None] * torch.where(mask, logprobs, 0.0), mask)


def _rollout_attached(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    weight = torch.where(mask, logprobs.detach() - rollout, 0.0).exp().clamp(max=high)
    return _mean(weight * advantages.detach()[:, None] * torch.where(mask, logprobs, 0.0), mask)


def _engine_scored(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    weight = torch.where(mask, logprobs.detach() - rollout.detach(), 0.0).exp().clamp(max=high)
    scores = torch.where(mask, rollout.detach() + logprobs - logprobs.detach(), 0.0)
    return _mean(weight * advantages.detach()[:, None] * scores, mask)


def _no_minus(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return -_loss(logprobs, rollout, advantages, mask, high)


def _sequence(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    gap = torch.where(mask, logprobs.detach() - rollout.detach(), 0.0)
    weight = gap.sum(1, keepdim=True).exp().clamp(max=high)
    return _mean(weight * advantages.detach()[:, None] * torch.where(mask, logprobs, 0.0), mask)


def _mean_of_rows(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    gap = torch.where(mask, logprobs.detach() - rollout.detach(), 0.0)
    terms = gap.exp().clamp(max=high) * advantages.detach()[:, None]
    terms = torch.where(mask, terms * torch.where(mask, logprobs, 0.0), 0.0)
    return -(terms.sum(1) / mask.sum(1)).mean()


def _all_entries(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    return _loss(logprobs, rollout, advantages, mask, high) * mask.sum() / mask.numel()


def _product(
    logprobs: Tensor, rollout: Tensor, advantages: Tensor, mask: Tensor, high: float
) -> Tensor:
    weight = (logprobs.detach() - rollout.detach()).exp().clamp(max=high)
    return -(weight * advantages.detach()[:, None] * logprobs * mask).sum() / mask.sum()


IMPORTANCE = Exercise(
    id="sampling.importance.1",
    title="Truncated importance weights",
    chapter=31,
    difficulty=3,
    minutes=20,
    goal=(
        "Minus the mean over real tokens of weight times advantage times log-probability, the "
        "weight being the ratio of trainer to engine, cut at `high` and without a gradient."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=corrected_loss,
    gradient_to=("logprobs",),
    no_gradient_to=("rollout_logprobs", "advantages"),
    hidden=("frozen",),
    mutants=(
        Mutant(
            "ratio upside down",
            _upside_down,
            "the ratio is engine over trainer; the weight is trainer over engine, because the "
            "engine's probability is the one that was sampled from",
        ),
        Mutant(
            "not cut",
            _not_cut,
            "`high` has no effect: a single token with a huge ratio would rule the gradient",
        ),
        Mutant(
            "log-ratio cut",
            _log_ratio_cut,
            "`high` bounds the logarithm of the ratio: take exp first, then cut, or the bound is "
            "exp(high)",
        ),
        Mutant(
            "cut on both sides",
            _both_sides,
            "small weights are raised to 1 / high: truncation has an upper bound only, small "
            "weights are harmless",
        ),
        Mutant(
            "no weight",
            _no_weight,
            "the engine's log-probabilities are never used: this is the loss without a correction",
        ),
        Mutant(
            "dropped above the bound",
            _dropped,
            "weights above `high` become 0: that is masking; truncation sets them to `high`",
        ),
        Mutant(
            "weight not detached",
            _attached,
            "the values are right, but the weight carries a gradient as well: it is a constant "
            "factor, so detach it",
        ),
        Mutant(
            "rollout not detached",
            _rollout_attached,
            "the values are right, but a gradient reaches `rollout_logprobs`: they are data",
        ),
        Mutant(
            "engine's score",
            _engine_scored,
            "the engine's log-probability stands where the trainer's belongs: the weight compares "
            "the two, the score is the trainer's",
        ),
        Mutant(
            "minus sign missing",
            _no_minus,
            "the sign is opposite: the loss is minus the weighted mean",
        ),
        Mutant(
            "one weight a sequence",
            _sequence,
            "the ratios of a row are multiplied into one weight; here each token has its own",
        ),
        Mutant(
            "mean of row means",
            _mean_of_rows,
            "each row is averaged first: then a token of a short row weighs more. Divide the sum "
            "of all by the number of real tokens",
        ),
        Mutant(
            "divided by all entries",
            _all_entries,
            "the sum is divided by all entries, padding included; divide by the real tokens",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan behind the end of a row (0 · nan is nan): choose "
            "with `torch.where`",
        ),
    ),
    not_tested="sequence-level weights, an empty mask, and what bound suits your run.",
)
