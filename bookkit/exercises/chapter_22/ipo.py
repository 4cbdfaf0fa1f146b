"""dpo.ipo.1: IPO on summed and on averaged log-ratios."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]
NAMES = ("chosen_ratio", "rejected_ratio", "chosen_tokens", "rejected_tokens")


def ipo_losses(
    chosen_ratio: Tensor,
    rejected_ratio: Tensor,
    chosen_tokens: Tensor,
    rejected_tokens: Tensor,
    beta: float,
) -> Pair:
    """(D - 1 / (2 beta))², with D of sums and with D of means over the tokens."""
    target = 1 / (2 * beta)
    long, short = chosen_tokens.clamp(min=1), rejected_tokens.clamp(min=1)
    summed = chosen_ratio - rejected_ratio
    averaged = chosen_ratio / long - rejected_ratio / short
    return (summed - target).square(), (averaged - target).square()


def oracle(
    chosen_ratio: list[float],
    rejected_ratio: list[float],
    chosen_tokens: list[int],
    rejected_tokens: list[int],
    beta: float,
) -> tuple[list[float], list[float]]:
    """One pair after the other."""
    summed, averaged = [], []
    rows = zip(chosen_ratio, rejected_ratio, chosen_tokens, rejected_tokens, strict=True)
    for a, b, n, m in rows:
        summed.append(math.pow(a - b - 0.5 / beta, 2))
        averaged.append(math.pow(a / max(n, 1) - b / max(m, 1) - 0.5 / beta, 2))
    return summed, averaged


def cases(draw: Draw) -> Case:
    """Log-ratios of several nats over one to eight tokens."""
    n = draw.dimension()
    inputs = {
        "chosen_ratio": draw.normal(n, scale=3.0),
        "rejected_ratio": draw.normal(n, scale=3.0),
        "chosen_tokens": draw.integers(1, 8, n),
        "rejected_tokens": draw.integers(1, 8, n),
        "beta": draw.choice([0.1, 0.2, 0.5]),
    }
    return Case(f"{n} pairs", inputs)


def edges() -> tuple[Case, ...]:
    """By hand, the start, beyond the target, equal lengths, no token, several pairs."""

    def case(name: str, rows: list[list[float]], beta: float) -> Case:
        table = torch.tensor(rows, dtype=torch.float64).T
        columns = [table[0].clone(), table[1].clone(), table[2].long(), table[3].long()]
        return Case(name, {**dict(zip(NAMES, columns, strict=True)), "beta": beta})

    return (
        case("the first step", [[0.0, 0.0, 3, 2]], 0.5),
        case("by hand", [[6.0, -2.0, 3, 1]], 0.1),
        case("beyond the target", [[9.0, -2.0, 2, 4]], 0.25),
        case("one token each", [[2.0, 1.0, 1, 1]], 0.5),
        case("an answer without a token", [[0.0, -2.0, 0, 4]], 0.5),
        case("two pairs", [[6.0, -2.0, 3, 1], [-1.0, -4.0, 2, 8]], 0.1),
    )


def _exchanged(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    return ipo_losses(b, a, m, n, beta)


def _order(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, averaged = ipo_losses(a, b, n, m, beta)
    return averaged, summed


def _target_without_half(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    return ipo_losses(a, b, n, m, beta / 2)


def _half_beta(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    return ipo_losses(a, b, n, m, 1 / beta)


def _beta_inside(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    long, short = n.clamp(min=1), m.clamp(min=1)
    averaged = a / long - b / short
    return (beta * (a - b) - 0.5).square(), (beta * averaged - 0.5).square()


def _joint_length(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, _ = ipo_losses(a, b, n, m, beta)
    averaged = (a - b) / (n + m).clamp(min=1)
    return summed, (averaged - 1 / (2 * beta)).square()


def _crossed(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, _ = ipo_losses(a, b, n, m, beta)
    _, averaged = ipo_losses(a, b, m, n, beta)
    return summed, averaged


def _no_clamp(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, _ = ipo_losses(a, b, n, m, beta)
    return summed, (a / n - b / m - 1 / (2 * beta)).square()


def _hinge(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    target, averaged = 1 / (2 * beta), a / n.clamp(min=1) - b / m.clamp(min=1)
    return (target - (a - b)).relu().square(), (target - averaged).relu().square()


def _absolute(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, averaged = ipo_losses(a, b, n, m, beta)
    return summed.sqrt(), averaged.sqrt()


def _sum_twice(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, _ = ipo_losses(a, b, n, m, beta)
    return summed, summed.clone()


def _loss_averaged(a: Tensor, b: Tensor, n: Tensor, m: Tensor, beta: float) -> Pair:
    summed, _ = ipo_losses(a, b, n, m, beta)
    return summed, summed / (n + m).clamp(min=1)


IPO = Exercise(
    id="dpo.ipo.1",
    title="IPO: the sum, or the average?",
    chapter=22,
    difficulty=2,
    minutes=15,
    goal=(
        "The square of margin minus 1 / (2 beta), once with the log-ratios of whole answers and "
        "once with each divided by its own number of tokens (at least 1)."
    ),
    outputs=(Output("summed", "(B,)"), Output("averaged", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=ipo_losses,
    gradient_to=("chosen_ratio", "rejected_ratio"),
    mutants=(
        Mutant(
            "chosen and rejected exchanged",
            _exchanged,
            "chosen and rejected are exchanged: the margin is chosen minus rejected",
        ),
        Mutant("order", _order, "the two losses are exchanged: the one of the sums comes first"),
        Mutant(
            "target of 1 / beta",
            _target_without_half,
            "the target is 1 / beta; it is half of that",
        ),
        Mutant(
            "target of beta / 2",
            _half_beta,
            "the target is beta / 2: it is 1 / (2 beta), and `1 / 2 * beta` is not that",
        ),
        Mutant(
            "beta times the margin",
            _beta_inside,
            "beta multiplies the margin: in IPO it sets the target alone, so that the square is in "
            "nats",
        ),
        Mutant(
            "the joint length",
            _joint_length,
            "the margin is divided by the tokens of both answers together: divide each log-ratio "
            "by its own number of tokens",
        ),
        Mutant(
            "lengths crossed",
            _crossed,
            "each log-ratio is divided by the length of the other answer",
        ),
        Mutant(
            "no clamp",
            _no_clamp,
            "an answer without a token divides by 0: count at least one",
        ),
        Mutant(
            "one-sided",
            _hinge,
            "a margin beyond the target costs nothing: IPO pulls it back, which is the difference "
            "from a hinge and from DPO",
        ),
        Mutant("no square", _absolute, "the distance from the target is not squared"),
        Mutant("the sum twice", _sum_twice, "the second loss is the first: lengths are not used"),
        Mutant(
            "the loss divided",
            _loss_averaged,
            "the loss is divided by the lengths: divide the log-ratios, before the target is "
            "taken off",
        ),
    ),
    not_tested="which of the two a library means by its option `ipo`: look it up.",
)
