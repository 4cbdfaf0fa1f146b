"""rlvr.cispo.1: a clipped weight that leaves every token its gradient."""

import math

from rlvr_ratios import Inputs, by_hand, drawn, size

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


def case_of(name: str, inputs: Inputs, high: float) -> Case:
    """The batch with its bound, and a frozen copy for the oracle."""
    return Case(name, {**inputs, "high": high, "frozen": inputs["logp"].clone()})


def cases(draw: Draw) -> Case:
    """Ratios from about a half to three."""
    inputs = drawn(draw, -0.7, 1.1)
    return case_of(size(inputs), inputs, draw.choice([0.28, 1.0]))


def edges() -> tuple[Case, ...]:
    """Far above, far below, both signs, padding, nan in the padding."""

    def case(
        name: str, ratios: list[list[float]], advantages: list[float], lengths: list[int]
    ) -> Case:
        return case_of(name, by_hand(ratios, advantages, lengths), 0.28)

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


CHECK = Check(
    id="rlvr.cispo.1",
    outputs=(Output("losses", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "weight not detached",
            "logp.detach() -",
            "logp -",
            "the values are right, but the gradient also runs through the weight: detach "
            "the ratio, so that it only weighs",
        ),
        edits(
            "PPO's surrogate",
            ("logp.detach() -", "logp -"),
            (
                "weight = ratio.clamp(max=1 + high) * advantages.detach()[:, None]",
                "weight = advantages.detach()[:, None]\n"
                "    weight = torch.minimum(ratio * weight, ratio.clamp(max=1 + high) * "
                "weight)",
            ),
            ("-weight * torch.where(mask, logp, 0.0)", "-weight"),
            message="this is PPO's surrogate, ratio times advantage: a token beyond the bound "
            "then has no gradient at all. Here the log-probability carries the gradient, "
            "the ratio weighs it",
        ),
        edit(
            "absolute bound",
            "max=1 + high",
            "max=high",
            "the ratio is clipped at `high` itself: the bound is 1 + high (TRL's argument "
            "is the bound itself, which is how this slip comes about)",
        ),
        edit(
            "lower bound too",
            "max=1 + high",
            "0.8, 1 + high",
            "there is a lower bound: small ratios are weighed as they are",
        ),
        edit(
            "not clipped",
            ".clamp(max=1 + high)",
            "",
            "`high` has no effect: a weight may be at most 1 + high",
        ),
        edit(
            "no weight",
            "ratio.clamp(max=1 + high) *",
            "torch.ones_like(ratio) *",
            "the ratio is missing: this is the plain policy gradient of a batch that "
            "another policy sampled",
        ),
        edit(
            "dropped beyond the bound",
            "ratio.clamp(max=1 + high)",
            "torch.where(ratio > 1 + high, 0.0, ratio)",
            "tokens beyond the bound are dropped: they keep the weight 1 + high, so that "
            "rare words that matter go on learning",
        ),
        edit(
            "minus sign missing",
            "-weight",
            "weight",
            "the sign is opposite: an optimiser descends, so the loss is minus the objective",
        ),
        edit(
            "padding not masked",
            "    ratio = ",
            "    mask = torch.ones_like(mask)\n    ratio = ",
            "the padding has a loss: it must be 0 there",
        ),
        edits(
            "masked by a product",
            (
                "torch.where(mask, logp.detach() - old_logp.detach(), 0.0)",
                "(logp - old_logp).detach()",
            ),
            (
                "torch.where(mask, -weight * torch.where(mask, logp, 0.0), 0.0)",
                "-weight * logp * mask",
            ),
            message="multiplying by the mask leaves nan in the padding: replace what stands there "
            "first",
        ),
    ),
    not_tested="huge log-ratios, and the mean over tokens that follows.",
    gradient_to=("logp",),
    no_gradient_to=("old_logp", "advantages"),
    hidden=("frozen",),
    wide=(
        "logp",
        "old_logp",
        "advantages",
    ),
    holed=("mask",),
    special=(
        ("mask", False),
        ("high", 0.0),
        ("high", 0.2),
        ("high", 2.0),
    ),
)
