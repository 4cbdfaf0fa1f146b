"""dpo.accuracy.1: implicit rewards, margin and accuracy."""

import math

import torch
from torch import Tensor

from bookkit.exercises.chapter_22.loss import four, hand_case
from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]


def implicit_rewards(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    beta: float,
) -> Triple:
    """Beta times the log-ratios, and the share of pairs ordered rightly; a tie is one half."""
    chosen = beta * (chosen_logp - ref_chosen_logp)
    rejected = beta * (rejected_logp - ref_rejected_logp)
    right = (chosen > rejected).to(chosen) + 0.5 * (chosen == rejected).to(chosen)
    return chosen, rejected, right.mean()


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


def _no_beta(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    return implicit_rewards(a, b, ra, rb, 1.0)


def _no_reference(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    return implicit_rewards(a, b, torch.zeros_like(a), torch.zeros_like(a), beta)


def _accuracy_of_likelihood(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, _ = implicit_rewards(a, b, ra, rb, beta)
    return chosen, rejected, (a > b).to(a).mean()


def _ties_wrong(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, _ = implicit_rewards(a, b, ra, rb, beta)
    return chosen, rejected, (chosen > rejected).to(a).mean()


def _ties_right(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, _ = implicit_rewards(a, b, ra, rb, beta)
    return chosen, rejected, (chosen >= rejected).to(a).mean()


def _chosen_rises(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, _ = implicit_rewards(a, b, ra, rb, beta)
    return chosen, rejected, (chosen > 0).to(a).mean()


def _exchanged(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, accuracy = implicit_rewards(a, b, ra, rb, beta)
    return rejected, chosen, accuracy


def _of_means(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, _ = implicit_rewards(a, b, ra, rb, beta)
    margin = (chosen - rejected).mean()
    return chosen, rejected, (margin > 0).to(a) + 0.5 * (margin == 0).to(a)


def _ratios(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    _, _, accuracy = implicit_rewards(a, b, ra, rb, beta)
    return beta * torch.exp(a - ra), beta * torch.exp(b - rb), accuracy


def _count(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Triple:
    chosen, rejected, accuracy = implicit_rewards(a, b, ra, rb, beta)
    return chosen, rejected, accuracy * len(a)


ACCURACY = Exercise(
    id="dpo.accuracy.1",
    title="Implicit rewards and their accuracy",
    chapter=22,
    difficulty=2,
    minutes=15,
    goal=(
        "The reward that the policy implies for each answer, and the share of pairs in which the "
        "chosen answer has the larger one; a tie counts one half."
    ),
    outputs=(
        Output("chosen_rewards", "(B,)"),
        Output("rejected_rewards", "(B,)"),
        Output("accuracy", "()"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=implicit_rewards,
    mutants=(
        Mutant("no beta", _no_beta, "`beta` has no effect: a reward is beta times the log-ratio"),
        Mutant(
            "no reference",
            _no_reference,
            "the reference has no effect: a log-probability by itself is no reward, or every rare "
            "answer would be a bad one",
        ),
        Mutant(
            "accuracy of the likelihood",
            _accuracy_of_likelihood,
            "the accuracy asks which answer is likelier; it asks which has gained more on the "
            "reference. The two often differ",
        ),
        Mutant(
            "ties are wrong",
            _ties_wrong,
            "a tie counts as wrong, so that the first step reads 0: count it one half",
        ),
        Mutant(
            "ties are right",
            _ties_right,
            "a tie counts as right, so that the first step reads 1: count it one half",
        ),
        Mutant(
            "chosen above zero",
            _chosen_rises,
            "the accuracy asks whether the chosen answer has become likelier: compare it with the "
            "rejected one, both may fall",
        ),
        Mutant(
            "exchanged", _exchanged, "the two rewards are exchanged: the chosen answer's come first"
        ),
        Mutant(
            "accuracy of the means",
            _of_means,
            "the mean margin is compared with 0; compare each pair, then average",
        ),
        Mutant("exp", _ratios, "the reward is made of the ratio; it is made of its logarithm"),
        Mutant("count", _count, "the accuracy is a count; divide by the number of pairs"),
    ),
    not_tested="whether the policy's own answers are any better: pairs cannot say.",
)
