"""rlvr.clip.1: a clip that is wider above than below."""

import math

from rlvr_ratios import by_hand, drawn, size

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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
    inputs = drawn(draw, -0.7, 0.7)
    low, high = draw.choice([0.1, 0.2]), draw.choice([0.28, 0.4])
    ratio = (inputs["logp"] - inputs["old_logp"]).exp()
    kink = min(float((ratio - 1 - high).abs().min()), float((ratio - 1 + low).abs().min()))
    return Case(size(inputs), {**inputs, "low": low, "high": high}, gradient=kink > 1e-3)


def edges() -> tuple[Case, ...]:
    """Each corner alone, a square batch, nan in the padding."""

    def case(
        name: str, ratios: list[list[float]], advantages: list[float], lengths: list[int]
    ) -> Case:
        return Case(name, {**by_hand(ratios, advantages, lengths), "low": 0.2, "high": 0.28})

    return (
        case("good, between the two bounds", [[1.25]], [1.0], [1]),
        case("good, far above", [[1.6]], [1.0], [1]),
        case("good, far below", [[0.5]], [1.0], [1]),
        case("bad, far below", [[0.5]], [-1.0], [1]),
        case("bad, between the two bounds below", [[0.75]], [-2.0], [1]),
        case("bad, far above", [[1.6]], [-1.0], [1]),
        case("bad, twenty times above", [[20.0]], [-1.0], [1]),
        case("two rows", [[1.0, 1.6], [0.5, 1.1]], [1.0, -2.0], [2, 2]),
        case("nan in the padding", [[1.1, math.nan]], [2.0], [1]),
        case("padding", [[1.1, 1.6, 0.5]], [-2.0], [1]),
        case("one row, three tokens", [[1.0, 1.3, 0.7]], [2.0], [3]),
    )


CHECK = Check(
    id="rlvr.clip.1",
    outputs=(Output("losses", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "one bound for both",
            "1 + high",
            "1 + low",
            "`high` has no effect: the upper bound is 1 + high, so that a rare token of a "
            "good answer has room to grow",
        ),
        edit(
            "bounds exchanged",
            "1 - low, 1 + high",
            "1 - high, 1 + low",
            "`low` and `high` are exchanged: the lower bound is 1 - low, the upper one 1 + high",
        ),
        edit(
            "wide on both sides",
            "1 - low",
            "1 - high",
            "`low` has no effect: below, the bound is 1 - low, so that bad tokens do not "
            "vanish in one batch",
        ),
        edit(
            "only the clipped ratio",
            "torch.minimum(ratio * weight, clipped * weight)",
            "clipped * weight",
            "only the clipped ratio is used: a token that has moved the harmful way then "
            "gets no gradient that would bring it back",
        ),
        edit(
            "only the upper bound",
            "1 - low",
            "0.0",
            "only the upper bound clips: a bad token may be pushed down without end",
        ),
        edit(
            "the larger of the two",
            "minimum",
            "maximum",
            "the larger of the two is taken; the objective is the smaller one",
        ),
        edit(
            "minus sign missing",
            "-torch.minimum",
            "torch.minimum",
            "the sign is opposite: the objective is to be made large, and an optimiser descends",
        ),
        edit(
            "absolute bounds",
            "1 - low, 1 + high",
            "low, high",
            "the ratio is clamped to [low, high] itself: the bounds lie around 1",
        ),
        edit(
            "padding not masked",
            "    weight = ",
            "    mask = torch.ones_like(mask)\n    weight = ",
            "the padding has a loss: it must be 0 there",
        ),
        edits(
            "masked by a product",
            ("torch.where(mask, logp - old_logp.detach(), 0.0)", "(logp - old_logp.detach())"),
            (
                "torch.where(mask, -torch.minimum(ratio * weight, clipped * weight), 0.0)",
                "-torch.minimum(ratio * weight, clipped * weight) * mask",
            ),
            message="multiplying by the mask leaves nan in the padding, in value or gradient: "
            "replace what stands there before exp",
        ),
        edit(
            "advantages along the wrong axis",
            "[:, None]",
            "",
            "(B,) met (B, T): the advantages are laid along the tokens. One advantage "
            "belongs to each row, so `advantages[:, None]`",
        ),
        edits(
            "data not detached",
            ("advantages.detach()", "advantages"),
            ("old_logp.detach()", "old_logp"),
            message="the values are right, but a gradient reaches `old_logp` or `advantages`: "
            "they are data from the rollout, so detach them",
        ),
    ),
    not_tested="huge log-ratios, and what the wider bound does for exploration.",
    gradient_to=("logp",),
    no_gradient_to=("old_logp", "advantages"),
    wide=(
        "logp",
        "old_logp",
        "advantages",
    ),
    holed=("mask",),
    special=(
        ("mask", False),
        ("low", 0.0),
        ("low", 1.0),
        ("high", 0.0),
        ("high", 1.0),
        ("high", 0.2),
        ("high", 2.0),
    ),
)
