"""dpo.accuracy.1: implicit rewards, margin and accuracy."""

import math

from dpo_pairs import four, hand_case

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    chosen_logp: list[float],
    rejected_logp: list[float],
    ref_chosen_logp: list[float],
    ref_rejected_logp: list[float],
    beta: float,
) -> tuple[list[float], list[float], float]:
    """One pair after the other."""
    chosen = [beta * (x - y) for x, y in zip(chosen_logp, ref_chosen_logp, strict=True)]
    rejected = [beta * (x - y) for x, y in zip(rejected_logp, ref_rejected_logp, strict=True)]
    points = []
    for a, b in zip(chosen, rejected, strict=True):
        points.append(1.0 if a > b else 0.5 if a == b else 0.0)
    return chosen, rejected, math.fsum(points) / len(points)


def cases(draw: Draw) -> Case:
    """Log-probabilities of several nats; margins are not near 0."""
    n = draw.dimension()
    inputs = four(draw, n)
    sign = draw.integers(0, 1, n) * 2 - 1
    gap = sign * draw.uniform(0.3, 4.0, n)
    other = inputs["ref_chosen_logp"] - inputs["ref_rejected_logp"]
    inputs["rejected_logp"] = inputs["chosen_logp"] - other - gap
    return Case(f"{n} pairs", {**inputs, "beta": draw.choice([0.1, 0.3, 0.5])})


def edges() -> tuple[Case, ...]:
    """The start, by hand, likelier but less preferred than by the reference, a mixture."""
    return (
        hand_case("the first step", [[-3.0, -5.0, -3.0, -5.0]], 0.5),
        hand_case("by hand", [[-4.0, -7.0, -5.0, -6.0]], 0.5),
        hand_case("far from the reference", [[-40.0, -90.0, -4.0, -5.0]], 0.5),
        hand_case("right by a hair", [[-4.0, -5.0, -4.0005, -5.0]], 0.5),
        hand_case("right by a hundred-thousandth", [[-4.0, -5.0, -4.00001, -5.0]], 0.5),
        hand_case("likelier, and still wrong", [[-4.0, -4.5, -4.0, -6.0]], 0.5),
        hand_case("both fell, and right", [[-9.0, -16.0, -4.0, -5.0]], 0.25),
        hand_case(
            "right, wrong, wrong, tied",
            [
                [-4.0, -7.0, -5.0, -6.5],
                [-1.0, -2.0, -1.5, -4.0],
                [-6.0, -1.0, -5.0, -1.0],
                [-2.0, -3.0, -2.0, -3.0],
            ],
            0.5,
        ),
    )


CHECK = Check(
    id="dpo.accuracy.1",
    outputs=(
        Output("chosen_rewards", "(B,)"),
        Output("rejected_rewards", "(B,)"),
        Output("accuracy", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "no beta",
            "chosen = b",
            "beta = 1.0\n    chosen = b",
            "`beta` has no effect: a reward is beta times the log-ratio",
        ),
        edits(
            "no reference",
            (" - ref_chosen_logp", ""),
            (" - ref_rejected_logp", ""),
            message="the reference has no effect: a log-probability by itself is no reward, or "
            "every rare answer would be a bad one",
        ),
        edit(
            "accuracy of the likelihood",
            "chosen, rejected, right.mean()",
            "(chosen, rejected, (chosen_logp > rejected_logp).to(chosen_logp).mean())",
            "the accuracy asks which answer is likelier; it asks which has gained more on "
            "the reference. The two often differ",
        ),
        edit(
            "ties are wrong",
            "0.5",
            "0",
            "a tie counts as wrong, so that the first step reads 0: count it one half",
        ),
        edit(
            "ties are right",
            "0.5",
            "1",
            "a tie counts as right, so that the first step reads 1: count it one half",
        ),
        edit(
            "chosen above zero",
            "chosen, rejected, right.mean()",
            "(chosen, rejected, (chosen > 0).to(chosen_logp).mean())",
            "the accuracy asks whether the chosen answer has become likelier: compare it "
            "with the rejected one, both may fall",
        ),
        edit(
            "exchanged",
            "chosen, rejected, right.mean()",
            "(rejected, chosen, right.mean())",
            "the two rewards are exchanged: the chosen answer's come first",
        ),
        edits(
            "accuracy of the means",
            (
                "right = (chosen > rejected).to(chosen) + 0.5 * (chosen == rejected).to(chosen)",
                "margin = (chosen - rejected).mean()\n"
                "    right = (margin > 0).to(chosen) + 0.5 * (margin == 0).to(chosen)",
            ),
            ("right.mean()", "right"),
            message="the mean margin is compared with 0; compare each pair, then average",
        ),
        edit(
            "exp",
            "return chosen, rejected,",
            "chosen = beta * torch.exp(chosen_logp - ref_chosen_logp)\n"
            "    rejected = beta * torch.exp(rejected_logp - ref_rejected_logp)\n"
            "    return chosen, rejected,",
            "the reward is made of the ratio; it is made of its logarithm",
        ),
        edit(
            "count",
            "chosen, rejected, right.mean()",
            "(chosen, rejected, right.mean() * len(chosen_logp))",
            "the accuracy is a count; divide by the number of pairs",
        ),
    ),
    not_tested="whether the policy's own answers are any better: pairs cannot say.",
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
