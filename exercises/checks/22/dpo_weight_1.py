"""dpo.weight.1: the gradient of the loss, and how a pair is weighted in it."""

import math

from dpo_pairs import NAMES, four, hand_case

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    chosen_logp: list[float],
    rejected_logp: list[float],
    ref_chosen_logp: list[float],
    ref_rejected_logp: list[float],
    beta: float,
) -> tuple[list[float], list[float]]:
    """The preference that the policy gives to the wrong answer, for each pair."""
    rows = list(zip(chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp, strict=True))
    wrong = []
    for chosen, rejected, ref_chosen, ref_rejected in rows:
        x = beta * (chosen - ref_chosen - rejected + ref_rejected)
        wrong.append(math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x)))
    scaled = [beta * weight / len(rows) for weight in wrong]
    return [-weight for weight in scaled], scaled


def cases(draw: Draw) -> Case:
    """Log-probabilities of several nats."""
    n = draw.dimension()
    inputs = {name: value for name, value in four(draw, n).items() if name in NAMES}
    return Case(f"{n} pairs", {**inputs, "beta": draw.choice([0.1, 0.3, 0.5, 2.0])})


def edges() -> tuple[Case, ...]:
    """The start, right and wrong by far, by hand, several pairs."""
    return (
        hand_case("the first step", [[-3.0, -5.0, -3.0, -5.0]], 0.5),
        hand_case("by hand", [[-4.0, -7.0, -5.0, -6.0]], 0.5),
        hand_case("right by far", [[-1.0, -60.0, -3.0, -4.0]], 0.5),
        hand_case("wrong by far", [[-60.0, -1.0, -4.0, -3.0]], 0.5),
        hand_case("the reference is far away", [[-4.0, -4.5, -9.0, -4.0]], 0.3),
        hand_case("two pairs", [[-4.0, -7.0, -5.0, -6.5], [-1.0, -2.0, -1.5, -4.0]], 0.5),
    )


CHECK = Check(
    id="dpo.weight.1",
    outputs=(Output("to_chosen", "(B,)"), Output("to_rejected", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the weight of the right pairs",
            "-beta",
            "beta",
            "the pairs that are right by far get the largest weight: it is the sigmoid of "
            "*minus* beta times the margin, the preference that the policy gives to the "
            "wrong answer",
        ),
        edit(
            "signs exchanged",
            "-weight, weight",
            "(--weight, -weight)",
            "both signs are opposite: the loss falls as the chosen answer gets likelier, "
            "so its derivative is negative",
        ),
        edit(
            "the same for both",
            "-weight, weight",
            "(-weight, -weight)",
            "both answers get the same gradient: only their difference is in the loss, so "
            "one is minus the other",
        ),
        edit(
            "beta in front is missing",
            "beta * torch.sigmoid",
            "torch.sigmoid",
            "the inner derivative is missing: beta stands in front as well as in the sigmoid",
        ),
        edit(
            "beta in the sigmoid is missing",
            "-beta * margin",
            "-margin",
            "beta stands in front only: the sigmoid is of beta times the margin",
        ),
        edit(
            "of the sum",
            " / len(margin)",
            "",
            "this is the gradient of the sum; divide by the number of pairs",
        ),
        edit(
            "every pair the same",
            "beta * torch.sigmoid(-beta * margin) / len(margin)",
            "torch.full_like(chosen_logp, beta / len(chosen_logp))",
            "every pair has the same weight: a pair that is already right by far must push less",
        ),
        edits(
            "no reference",
            (" - ref_chosen_logp", ""),
            (" - ref_rejected_logp", ""),
            message="the margin leaves out the reference: at the first step every weight is one "
            "half",
        ),
        edit(
            "derivative of the sigmoid",
            "= beta",
            "= (beta * torch.sigmoid(beta * (chosen_logp - ref_chosen_logp - "
            "(rejected_logp - ref_rejected_logp))))",
            "this is the derivative of the sigmoid; that of its logarithm has one factor less",
        ),
    ),
    not_tested="the gradient with respect to the model's parameters.",
    wide=(
        "chosen_logp",
        "rejected_logp",
        "ref_chosen_logp",
        "ref_rejected_logp",
    ),
    special=(
        ("beta", 0.0),
        ("beta", 1.0),
    ),
)
