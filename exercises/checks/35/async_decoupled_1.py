"""async.decoupled.1: a clip around the proximal policy, weights from the behaviour policy."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    logp: list[list[float]],
    prox_logp: list[list[float]],
    behave_logp: list[list[float]],
    advantages: list[float],
    mask: list[list[bool]],
    clip: float,
    cap: float,
) -> list[list[float]]:
    """Token by token, by cases: a gain is flat above 1 + clip, a loss flat below 1 - clip."""
    result = []
    for row, advantage in enumerate(advantages):
        losses = []
        for place, counts in enumerate(mask[row]):
            if not counts:
                losses.append(0.0)
                continue
            prox = prox_logp[row][place]
            weight = math.exp(min(prox - behave_logp[row][place], 700.0))
            moved = math.exp(logp[row][place] - prox)
            if advantage > 0:
                moved = min(moved, 1 + clip)
            elif advantage < 0:
                moved = max(moved, 1 - clip)
            losses.append(-min(weight, cap) * moved * advantage)
        result.append(losses)
    return result


def cases(draw: Draw) -> Case:
    """Weights from a third to three and more, ratios around one."""
    rows, columns = draw.dimension(), draw.dimension()
    prox = -draw.uniform(0.1, 2.5, rows, columns)
    logp, clip = prox + draw.uniform(-0.5, 0.5, rows, columns), draw.choice([0.1, 0.2, 0.3])
    inputs = {
        "logp": logp,
        "prox_logp": prox,
        "behave_logp": prox - draw.uniform(-1.1, 1.4, rows, columns),
        "advantages": draw.normal(rows),
        "mask": draw.holed_mask(rows, columns),
        "clip": clip,
        "cap": draw.choice([1.5, 2.0, 3.0]),
    }
    ratio = (logp - prox).exp()
    kink = min(float((ratio - 1 - clip).abs().min()), float((ratio - 1 + clip).abs().min()))
    return Case(f"{rows} × {columns}", inputs, gradient=kink > 1e-3)


def edges() -> tuple[Case, ...]:
    """Each corner of the clip, weights on both sides of the cap, holes with nan."""

    def case(
        name: str,
        ratios: list[list[float]],
        weights: list[list[float]],
        advantages: list[float],
        mask: list[list[int]],
        cap: float = 2.0,
    ) -> Case:
        prox = torch.full((len(ratios), len(ratios[0])), -1.5, dtype=torch.float64)
        inputs = {
            "logp": prox + torch.tensor(ratios, dtype=torch.float64).log(),
            "prox_logp": prox,
            "behave_logp": prox - torch.tensor(weights, dtype=torch.float64).log(),
            "advantages": torch.tensor(advantages, dtype=torch.float64),
            "mask": torch.tensor(mask).bool(),
            "clip": 0.2,
            "cap": cap,
        }
        return Case(name, inputs)

    return (
        case("data of the same policy", [[1.1]], [[1.0]], [1.0], [[1]]),
        case("good, weight below the cap", [[1.1]], [[1.5]], [1.0], [[1]]),
        case("the hand example", [[1.1]], [[3.0]], [1.0], [[1]]),
        case("a weight below one", [[1.1]], [[0.25]], [1.0], [[1]]),
        case("good, above the clip", [[1.6]], [[1.5]], [1.0], [[1]]),
        case("good, below the clip", [[0.5]], [[1.5]], [1.0], [[1]]),
        case("bad, below the clip", [[0.5]], [[1.5]], [-2.0], [[1]]),
        case("bad, above the clip", [[1.6]], [[1.5]], [-2.0], [[1]]),
        case("bad, at the cap", [[1.1]], [[5.0]], [-1.0], [[1]]),
        case("another cap", [[1.1]], [[5.0]], [1.0], [[1]], cap=4.0),
        case("good, a weight that is beyond the clip", [[1.0]], [[1.4]], [1.0], [[1]]),
        case("two rows", [[1.0, 1.6], [0.5, 1.1]], [[0.5, 3.0], [1.2, 0.8]], [1.0, -2.0],
             [[1, 1], [1, 1]]),
        case("a hole", [[1.1, 1.6, 0.9]], [[0.5, 2.5, 1.5]], [2.0], [[1, 0, 1]]),
        case("a hole in each of two rows", [[1.1, 0.9], [0.95, 1.05]], [[0.5, 1.5], [1.2, 0.8]],
             [2.0, -1.0], [[0, 1], [1, 0]]),
        case("nothing counts", [[1.1, 0.9]], [[0.5, 1.5]], [2.0], [[0, 0]]),
        case("nan in a hole", [[1.1, math.nan, 0.9]], [[0.5, math.nan, 1.5]], [2.0], [[1, 0, 1]]),
        case("three tokens", [[1.0, 1.3, 0.7]], [[0.9, 1.1, 2.5]], [1.0], [[1, 1, 1]]),
    )  # fmt: skip


RATIO = "torch.where(mask, logp - prox, 0.0).exp()"
WEIGHT = "torch.where(mask, prox - behave_logp.detach(), 0.0).exp().clamp(max=cap)"
LESSER = "torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain)"

CHECK = Check(
    id="async.decoupled.1",
    outputs=(Output("losses", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "a clip around the behaviour policy",
            (WEIGHT, "torch.ones_like(prox)"),
            (RATIO, "torch.where(mask, logp - behave_logp.detach(), 0.0).exp()"),
            message="the ratio is that to the behaviour policy, and the clip lies around it: a "
            "token whose weight is beyond the clip teaches nothing. Clip around the proximal "
            "policy, and multiply by the weight",
        ),
        edit(
            "counted twice",
            RATIO,
            "torch.where(mask, logp - behave_logp.detach(), 0.0).exp()",
            "the way from the behaviour to the proximal policy counts twice, in the weight and in "
            "the ratio: `u` is the ratio to the proximal policy alone",
        ),
        edit(
            "no weight",
            WEIGHT,
            "torch.ones_like(prox)",
            "`behave_logp` is never used: the data are taken as if the proximal policy had drawn "
            "them",
        ),
        edit(
            "not truncated",
            ".clamp(max=cap)",
            "",
            "`cap` is never used: a token that the behaviour policy hardly ever draws may outweigh "
            "the rest of the batch",
        ),
        edit(
            "truncated below as well",
            ".clamp(max=cap)",
            ".clamp(1 / cap, cap)",
            "the weight is held above 1 / cap as well: small weights do no harm, and are "
            "left as they are",
        ),
        edit(
            "dropped beyond the cap",
            "    ratio =",
            "    weight = torch.where(weight < cap, weight, 0.0)\n    ratio =",
            "a token whose weight reaches the cap is dropped; it counts with `cap`",
        ),
        edit(
            "weights upside down",
            "prox - behave_logp.detach()",
            "behave_logp.detach() - prox",
            "the weight is upside down: the probability under the policy that is wanted stands "
            "above, that under the one that drew stands below",
        ),
        edit(
            "weights from the policy of now",
            "prox - behave_logp.detach()",
            "logp.detach() - behave_logp.detach()",
            "the weight is made with the policy of now, which moves at each minibatch: it leads to "
            "the proximal policy, and stays the same during the update",
        ),
        edit(
            "the product is clipped",
            LESSER,
            "torch.minimum(ratio * gain, (ratio * weight).clamp(1 - clip, 1 + clip) "
            "* gain / weight)",
            "weight times ratio is clipped: then the clip lies around the behaviour policy "
            "again. Clip `u`, and multiply afterwards",
        ),
        edit(
            "only the clipped ratio",
            LESSER,
            "ratio.clamp(1 - clip, 1 + clip) * gain",
            "only the clipped ratio is used: a token that has moved the harmful way gets no "
            "gradient that would bring it back",
        ),
        edit(
            "no clip",
            LESSER,
            "ratio * gain",
            "`clip` is never used: nothing holds the policy near the proximal one",
        ),
        edit(
            "the larger of the two",
            "torch.minimum",
            "torch.maximum",
            "the larger of the two is taken; the objective is the smaller one",
        ),
        edit(
            "minus sign missing",
            "-weight * lesser",
            "weight * lesser",
            "the sign is opposite: the objective is to be made large, and an optimiser descends",
        ),
        edit(
            "holes not masked",
            "    prox =",
            "    mask = torch.ones_like(mask)\n    prox =",
            "the mask is never used: what it leaves out must have a loss of 0",
        ),
        edits(
            "masked by a product",
            (
                "torch.where(mask, prox - behave_logp.detach(), 0.0)",
                "(prox - behave_logp.detach())",
            ),
            ("torch.where(mask, logp - prox, 0.0)", "(logp - prox)"),
            ("torch.where(mask, -weight * lesser, 0.0)", "-weight * lesser * mask"),
            message="multiplying by the mask leaves nan in a hole, in value or gradient: "
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
            "a gradient through the weights",
            ("prox_logp.detach()", "prox_logp"),
            ("behave_logp.detach()", "behave_logp"),
            message="the values are right, but a gradient reaches `prox_logp` or `behave_logp`: "
            "both are numbers that were noted, so detach them",
        ),
    ),
    not_tested="huge log-ratios, and how much bias the truncation costs.",
    gradient_to=("logp",),
    no_gradient_to=("prox_logp", "behave_logp", "advantages"),
    wide=("logp", "prox_logp", "behave_logp", "advantages"),
    holed=("mask",),
    special=(
        ("mask", False),
        ("clip", 0.0),
        ("clip", 0.2),
        ("clip", 1.0),
        ("cap", 0.0),
        ("cap", 1.0),
    ),
)
