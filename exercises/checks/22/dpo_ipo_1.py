"""dpo.ipo.1: IPO on summed and on averaged log-ratios."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

NAMES = ("chosen_ratio", "rejected_ratio", "chosen_tokens", "rejected_tokens")


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


CHECK = Check(
    id="dpo.ipo.1",
    outputs=(Output("summed", "(B,)"), Output("averaged", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edits(
            "chosen and rejected exchanged",
            ("chosen_ratio - rejected_ratio", "rejected_ratio - chosen_ratio"),
            (
                "chosen_ratio / long - rejected_ratio / short",
                "rejected_ratio / short - chosen_ratio / long",
            ),
            message="chosen and rejected are exchanged: the margin is chosen minus rejected",
        ),
        edit(
            "order",
            "(summed - target).square(), (averaged - target).square()",
            "(averaged - target).square(), (summed - target).square()",
            "the two losses are exchanged: the one of the sums comes first",
        ),
        edit(
            "target of 1 / beta",
            "* beta",
            "* (beta / 2)",
            "the target is 1 / beta; it is half of that",
        ),
        edit(
            "target of beta / 2",
            "* beta",
            "* (1 / beta)",
            "the target is beta / 2: it is 1 / (2 beta), and `1 / 2 * beta` is not that",
        ),
        edit(
            "beta times the margin",
            "(summed - target).square(), (averaged - target).square()",
            "(beta * summed - 0.5).square(), (beta * averaged - 0.5).square()",
            "beta multiplies the margin: in IPO it sets the target alone, so that the "
            "square is in nats",
        ),
        edit(
            "the joint length",
            "chosen_ratio / long - rejected_ratio / short",
            "summed / (chosen_tokens + rejected_tokens).clamp(min=1)",
            "the margin is divided by the tokens of both answers together: divide each "
            "log-ratio by its own number of tokens",
        ),
        edit(
            "lengths crossed",
            "chosen_ratio / long - rejected_ratio / short",
            "chosen_ratio / short - rejected_ratio / long",
            "each log-ratio is divided by the length of the other answer",
        ),
        edit(
            "no clamp",
            "long -",
            "chosen_tokens -",
            "an answer without a token divides by 0: count at least one",
        ),
        edit(
            "one-sided",
            "(summed - target).square(), (averaged - target).square()",
            "(target - summed).relu().square(), (target - averaged).relu().square()",
            "a margin beyond the target costs nothing: IPO pulls it back, which is the "
            "difference from a hinge and from DPO",
        ),
        edit(
            "no square",
            "(summed - target).square(), (averaged - target).square()",
            "(summed - target).abs(), (averaged - target).abs()",
            "the distance from the target is not squared",
        ),
        edit(
            "the sum twice",
            "averaged -",
            "summed -",
            "the second loss is the first: lengths are not used",
        ),
        edit(
            "the loss divided",
            "(averaged - target).square()",
            "(summed - target).square() / (\n"
            "        chosen_tokens + rejected_tokens\n"
            "    ).clamp(min=1)",
            "the loss is divided by the lengths: divide the log-ratios, before the target "
            "is taken off",
        ),
    ),
    not_tested="which of the two a library means by its option `ipo`: look it up.",
    gradient_to=("chosen_ratio", "rejected_ratio"),
    wide=(
        "chosen_ratio",
        "rejected_ratio",
    ),
    special=(("beta", 1.0),),
)
