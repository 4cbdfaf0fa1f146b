"""dpo.weight.1: the gradient of the loss, and how a pair is weighted in it."""

import math

import torch
from torch import Tensor

from bookkit.exercises.chapter_22.loss import NAMES, four, hand_case
from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def _margin(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor) -> Tensor:
    return (a - ra) - (b - rb)


def loss_gradient(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    beta: float,
) -> Pair:
    """-beta sigmoid(-beta D) / B for the chosen, the opposite for the rejected."""
    margin = _margin(chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp)
    weight = beta * torch.sigmoid(-beta * margin) / len(margin)
    return -weight, weight


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


def _turned(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    weight = beta * torch.sigmoid(beta * _margin(a, b, ra, rb)) / len(a)
    return -weight, weight


def _unsigned(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    chosen, rejected = loss_gradient(a, b, ra, rb, beta)
    return -chosen, -rejected


def _same_sign(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    chosen, _ = loss_gradient(a, b, ra, rb, beta)
    return chosen, chosen


def _no_beta(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    weight = torch.sigmoid(-beta * _margin(a, b, ra, rb)) / len(a)
    return -weight, weight


def _beta_outside_only(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    weight = beta * torch.sigmoid(-_margin(a, b, ra, rb)) / len(a)
    return -weight, weight


def _sum(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    chosen, rejected = loss_gradient(a, b, ra, rb, beta)
    return chosen * len(a), rejected * len(a)


def _flat(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    weight = torch.full_like(a, beta / len(a))
    return -weight, weight


def _no_reference(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    weight = beta * torch.sigmoid(-beta * (a - b)) / len(a)
    return -weight, weight


def _of_the_sigmoid(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Pair:
    p = torch.sigmoid(beta * _margin(a, b, ra, rb))
    weight = beta * p * (1 - p) / len(a)
    return -weight, weight


WEIGHT = Exercise(
    id="dpo.weight.1",
    title="Which pairs still push",
    chapter=22,
    difficulty=3,
    minutes=20,
    goal=(
        "The gradient of the *mean* DPO loss with respect to the log-probabilities of chosen and "
        "rejected answers, by a formula, without autograd."
    ),
    outputs=(Output("to_chosen", "(B,)"), Output("to_rejected", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=loss_gradient,
    mutants=(
        Mutant(
            "the weight of the right pairs",
            _turned,
            "the pairs that are right by far get the largest weight: it is the sigmoid of *minus* "
            "beta times the margin, the preference that the policy gives to the wrong answer",
        ),
        Mutant(
            "signs exchanged",
            _unsigned,
            "both signs are opposite: the loss falls as the chosen answer gets likelier, so its "
            "derivative is negative",
        ),
        Mutant(
            "the same for both",
            _same_sign,
            "both answers get the same gradient: only their difference is in the loss, so one is "
            "minus the other",
        ),
        Mutant(
            "beta in front is missing",
            _no_beta,
            "the inner derivative is missing: beta stands in front as well as in the sigmoid",
        ),
        Mutant(
            "beta in the sigmoid is missing",
            _beta_outside_only,
            "beta stands in front only: the sigmoid is of beta times the margin",
        ),
        Mutant(
            "of the sum", _sum, "this is the gradient of the sum; divide by the number of pairs"
        ),
        Mutant(
            "every pair the same",
            _flat,
            "every pair has the same weight: a pair that is already right by far must push less",
        ),
        Mutant(
            "no reference",
            _no_reference,
            "the margin leaves out the reference: at the first step every weight is one half",
        ),
        Mutant(
            "derivative of the sigmoid",
            _of_the_sigmoid,
            "this is the derivative of the sigmoid; that of its logarithm has one factor less",
        ),
    ),
    not_tested="the gradient with respect to the model's parameters.",
)
