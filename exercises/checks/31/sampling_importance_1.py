"""sampling.importance.1: truncated importance weights between engine and trainer."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="sampling.importance.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "ratio upside down",
            "(logprobs - rollout_logprobs)",
            "(rollout_logprobs - logprobs)",
            "the ratio is engine over trainer; the weight is trainer over engine, because "
            "the engine's probability is the one that was sampled from",
        ),
        edit(
            "not cut",
            ".clamp(max=high)",
            "",
            "`high` has no effect: a single token with a huge ratio would rule the gradient",
        ),
        edit(
            "log-ratio cut",
            "gap.exp().clamp(max=high)",
            "gap.clamp(max=high).exp()",
            "`high` bounds the logarithm of the ratio: take exp first, then cut, or the "
            "bound is exp(high)",
        ),
        edit(
            "cut on both sides",
            "clamp(max=high)",
            "clamp(min=1 / high, max=high)",
            "small weights are raised to 1 / high: truncation has an upper bound only, "
            "small weights are harmless",
        ),
        edit(
            "no weight",
            "gap.exp()",
            "torch.ones_like(gap)",
            "the engine's log-probabilities are never used: this is the loss without a correction",
        ),
        edit(
            "dropped above the bound",
            "gap.exp().clamp(max=high)",
            "torch.where(gap.exp() > high, 0.0, gap.exp())",
            "weights above `high` become 0: that is masking; truncation sets them to `high`",
        ),
        edit(
            "weight not detached",
            "(logprobs - rollout_logprobs).detach()",
            "logprobs - rollout_logprobs.detach()",
            "the values are right, but the weight carries a gradient as well: it is a "
            "constant factor, so detach it",
        ),
        edit(
            "rollout not detached",
            "(logprobs - rollout_logprobs).detach()",
            "logprobs.detach() - rollout_logprobs",
            "the values are right, but a gradient reaches `rollout_logprobs`: they are data",
        ),
        edit(
            "engine's score",
            "weight * logprobs",
            "weight * (rollout_logprobs.detach() + logprobs - logprobs.detach())",
            "the engine's log-probability stands where the trainer's belongs: the weight "
            "compares the two, the score is the trainer's",
        ),
        edit(
            "minus sign missing",
            "return -terms",
            "return terms",
            "the sign is opposite: the loss is minus the weighted mean",
        ),
        edit(
            "one weight a sequence",
            "gap.exp()",
            "gap.sum(1, keepdim=True).exp()",
            "the ratios of a row are multiplied into one weight; here each token has its own",
        ),
        edit(
            "mean of row means",
            "terms.sum() / mask.sum()",
            "(terms.sum(1) / mask.sum(1)).mean()",
            "each row is averaged first: then a token of a short row weighs more. Divide "
            "the sum of all by the number of real tokens",
        ),
        edit(
            "divided by all entries",
            "mask.sum()",
            "mask.numel()",
            "the sum is divided by all entries, padding included; divide by the real tokens",
        ),
        edits(
            "product with the mask",
            (
                "torch.where(mask, (logprobs - rollout_logprobs).detach(), 0.0)",
                "(logprobs - rollout_logprobs).detach()",
            ),
            ("torch.where(mask, weight * logprobs, 0.0)", "weight * logprobs * mask"),
            message="multiplying by the mask leaves nan behind the end of a row (0 · nan is nan): "
            "choose with `torch.where`",
        ),
    ),
    not_tested="sequence-level weights, an empty mask, and what bound suits your run.",
    gradient_to=("logprobs",),
    no_gradient_to=("rollout_logprobs", "advantages"),
    hidden=("frozen",),
    wide=(
        "logprobs",
        "rollout_logprobs",
        "advantages",
    ),
    holed=("mask",),
    special=(
        ("high", 0.0),
        ("high", 1.0),
        ("high", 0.2),
    ),
)
