"""dpo.loss.1: the loss of DPO."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

NAMES = ("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp")


def dpo_loss(
    chosen_logp: Tensor,
    rejected_logp: Tensor,
    ref_chosen_logp: Tensor,
    ref_rejected_logp: Tensor,
    beta: float,
) -> Tensor:
    """Minus log sigmoid of beta times the difference of the two log-ratios; one number a pair."""
    chosen = chosen_logp - ref_chosen_logp.detach()
    rejected = rejected_logp - ref_rejected_logp.detach()
    return -logsigmoid(beta * (chosen - rejected))


def oracle(
    chosen_logp: list[float],
    rejected_logp: list[float],
    ref_chosen_logp: list[float],
    ref_rejected_logp: list[float],
    beta: float,
) -> list[float]:
    """log(1 + exp(-x)), with the larger exponent taken out."""
    losses = []
    rows = zip(chosen_logp, rejected_logp, ref_chosen_logp, ref_rejected_logp, strict=True)
    for chosen, rejected, ref_chosen, ref_rejected in rows:
        x = beta * ((chosen - rejected) - (ref_chosen - ref_rejected))
        losses.append(max(0.0, -x) + math.log1p(math.exp(-abs(x))))
    return losses


def four(draw: Draw, n: int) -> dict[str, Tensor]:
    """Log-probabilities of n pairs under two models."""
    return {name: -draw.uniform(0.1, 6.0, n) for name in NAMES}


def cases(draw: Draw) -> Case:
    """Log-probabilities of several nats."""
    n = draw.dimension()
    return Case(f"{n} pairs", {**four(draw, n), "beta": draw.choice([0.1, 0.3, 0.5, 1.0])})


def hand_case(name: str, rows: list[list[float]], beta: float, gradient: bool = True) -> Case:
    """A case from rows (chosen, rejected, reference of both)."""
    columns = torch.tensor(rows, dtype=torch.float64).T
    inputs = {key: column.clone() for key, column in zip(NAMES, columns, strict=True)}
    return Case(name, {**inputs, "beta": beta}, gradient=gradient)


def edges() -> tuple[Case, ...]:
    """The start, by hand, a margin of each sign, a huge one, several pairs."""
    return (
        hand_case("the first step", [[-3.0, -5.0, -3.0, -5.0]], 0.5),
        hand_case("by hand", [[-4.0, -7.0, -5.0, -6.0]], 0.5),
        hand_case("the reference prefers it too", [[-4.0, -9.0, -5.0, -8.0]], 0.5),
        hand_case("a beta of 0.1", [[-2.0, -4.0, -5.0, -3.0]], 0.1),
        hand_case("wrong by far", [[-900.0, -1.0, -3.0, -4.0]], 1.0, gradient=False),
        hand_case("two pairs", [[-4.0, -7.0, -5.0, -6.5], [-1.0, -2.0, -1.5, -4.0]], 0.5),
    )


def _swapped(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return dpo_loss(b, a, rb, ra, beta)


def _no_reference(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -logsigmoid(beta * (a - b))


def _reference_added(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return dpo_loss(a, b, -ra, -rb, beta)


def _no_beta(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return dpo_loss(a, b, ra, rb, 1.0)


def _beta_outside(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return beta * dpo_loss(a, b, ra, rb, 1.0)


def _divided(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return dpo_loss(a, b, ra, rb, 1 / beta)


def _no_minus(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -dpo_loss(a, b, ra, rb, beta)


def _no_log(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return 1 - torch.exp(-dpo_loss(a, b, ra, rb, beta))


def _naive(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -torch.log(torch.sigmoid(beta * ((a - ra.detach()) - (b - rb.detach()))))


def _attached(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -logsigmoid(beta * ((a - ra) - (b - rb)))


def _ratios(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -logsigmoid(beta * (torch.exp(a - ra.detach()) - torch.exp(b - rb.detach())))


def _mean(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return dpo_loss(a, b, ra, rb, beta).mean()


def _separate(a: Tensor, b: Tensor, ra: Tensor, rb: Tensor, beta: float) -> Tensor:
    return -logsigmoid(beta * (a - ra.detach())) - logsigmoid(-beta * (b - rb.detach()))


LOSS = Exercise(
    id="dpo.loss.1",
    title="The loss of DPO",
    chapter=22,
    difficulty=2,
    minutes=15,
    goal=(
        "For each pair, minus log sigmoid of beta times the difference of the two log-ratios; the "
        "reference's numbers are constants."
    ),
    outputs=(Output("loss", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=dpo_loss,
    gradient_to=("chosen_logp", "rejected_logp"),
    no_gradient_to=("ref_chosen_logp", "ref_rejected_logp"),
    mutants=(
        Mutant(
            "chosen and rejected exchanged",
            _swapped,
            "chosen and rejected are exchanged: the loss falls as the rejected one gets likelier",
        ),
        Mutant(
            "no reference",
            _no_reference,
            "the reference has no effect: compare each log-probability with the reference's of the "
            "same answer, so that the first loss is log 2",
        ),
        Mutant(
            "reference added",
            _reference_added,
            "the reference's log-probabilities have the wrong sign, or are exchanged, which is the "
            "same: a log-ratio is a difference, each answer against itself",
        ),
        Mutant("beta not used", _no_beta, "`beta` has no effect: it multiplies the margin"),
        Mutant(
            "beta outside",
            _beta_outside,
            "beta multiplies the loss: it belongs inside the sigmoid, where it decides from which "
            "margin on a pair counts as learned",
        ),
        Mutant(
            "divided by beta",
            _divided,
            "the margin is divided by beta; the reward is beta times the log-ratio",
        ),
        Mutant(
            "minus missing",
            _no_minus,
            "the sign is opposite: the loss is minus the log-likelihood of the preference",
        ),
        Mutant(
            "log missing",
            _no_log,
            "one minus the sigmoid is returned; the loss is minus its logarithm",
        ),
        Mutant(
            "log of a sigmoid",
            _naive,
            "the sigmoid of a large negative margin is 0 and its log -inf: use `logsigmoid`",
        ),
        Mutant(
            "the reference gets a gradient",
            _attached,
            "the values are right, but a gradient reaches the reference: it is frozen, so detach "
            "its numbers",
        ),
        Mutant(
            "ratios for log-ratios",
            _ratios,
            "the ratios of probabilities are compared; compare their logarithms, without exp",
        ),
        Mutant("mean", _mean, "the mean over the pairs is returned; return one number a pair"),
        Mutant(
            "two losses",
            _separate,
            "each answer has a sigmoid of its own: only the difference of the two rewards enters "
            "the sigmoid, since the preference says nothing else",
        ),
    ),
    not_tested="where the log-probabilities come from.",
)
