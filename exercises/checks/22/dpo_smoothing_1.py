"""dpo.smoothing.1: conservative and robust DPO."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(margin: list[float], beta: float, flipped: float) -> tuple[list[float], list[float]]:
    """log(1 + exp) twice; since the two differ by x, each loss is one of them plus a part of x."""
    conservative, robust = [], []
    for delta in margin:
        x = beta * delta
        as_given = max(0.0, -x) + math.log1p(math.exp(-abs(x)))
        conservative.append(as_given + flipped * x)
        robust.append(as_given - flipped * x / (1 - 2 * flipped))
    return conservative, robust


def cases(draw: Draw) -> Case:
    """Margins of several nats."""
    n = draw.dimension()
    inputs = {
        "margin": draw.normal(n, scale=3.0),
        "beta": draw.choice([0.1, 0.5, 1.0]),
        "flipped": draw.choice([0.0, 0.1, 0.25, 0.4]),
    }
    return Case(f"{n} pairs", inputs)


def edges() -> tuple[Case, ...]:
    """No flips, by hand, the start, margins of both signs, a huge one."""

    def case(name: str, margin: list[float], beta: float, flipped: float, **how: bool) -> Case:
        values = torch.tensor(margin, dtype=torch.float64)
        return Case(name, {"margin": values, "beta": beta, "flipped": flipped}, **how)

    return (
        case("no flips", [2.0, -1.0], 0.5, 0.0),
        case("by hand", [2.0], 0.5, 0.1),
        case("the first step", [0.0], 0.5, 0.2),
        case("a negative margin", [-3.0], 0.5, 0.25),
        case("nearly a coin", [4.0, -2.0], 0.25, 0.45),
        case("a huge margin", [-2000.0, 2000.0], 1.0, 0.1, gradient=False),
    )


CHECK = Check(
    id="dpo.smoothing.1",
    outputs=(Output("conservative", "(B,)"), Output("robust", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "weights exchanged",
            "-logsigmoid(beta * margin), -logsigmoid(-beta * margin)",
            "-logsigmoid(-beta * margin), -logsigmoid(beta * margin)",
            "the flipped label has the large weight: the label as given holds with "
            "probability 1 - flipped",
        ),
        edit(
            "no smoothing",
            "return conservative, robust",
            "return as_given, as_given",
            "`flipped` has no effect: this is plain DPO twice",
        ),
        edit(
            "order",
            "conservative, robust",
            "(robust, conservative)",
            "the two losses are exchanged: the conservative one comes first",
        ),
        edit(
            "robust, not divided",
            "conservative, robust",
            "(conservative, robust * (1 - 2 * flipped))",
            "the robust loss is not divided by 1 - 2 · flipped, so that its mean over "
            "flips is a fraction of the clean loss",
        ),
        edit(
            "robust with a plus",
            "conservative, robust",
            "(conservative, conservative / (1 - 2 * flipped))",
            "the second term of the robust loss has the wrong sign: the flipped loss is "
            "*taken off*, to undo what flipped labels add on average",
        ),
        edit(
            "divided by 1 - flipped",
            "conservative, robust",
            "(conservative, robust * (1 - 2 * flipped) / (1 - flipped))",
            "the robust loss is divided by 1 - flipped; it is 1 - 2 · flipped",
        ),
        edit(
            "a smaller margin",
            "conservative, robust",
            "(-logsigmoid(beta * (1 - 2 * flipped) * margin), robust)",
            "the margin is scaled down: average the two losses, not what stands inside them",
        ),
        edit(
            "a smoothed probability",
            "(1 - flipped) * as_given + flipped * turned\n",
            "torch.sigmoid(beta * margin)\n"
            "    conservative = -((1 - flipped) * conservative + flipped * (1 - "
            "conservative)).log()\n",
            "the probability is smoothed before the logarithm; the mean is over the two "
            "logarithms, so that a pair that is certain costs without limit",
        ),
        edit(
            "the first weight is 1",
            " (1 - flipped) * as_given",
            " as_given",
            "the loss of the label as given has weight 1; it is 1 - flipped",
        ),
        edit(
            "no beta",
            "as_given,",
            "beta = 1.0\n    as_given,",
            "`beta` has no effect: it multiplies the margin",
        ),
        edit(
            "log of a sigmoid",
            "-logsigmoid(beta * margin), -logsigmoid(-beta * margin)",
            "(\n"
            "        -torch.sigmoid(beta * margin).log(),\n"
            "        -(1 - torch.sigmoid(beta * margin)).log(),\n"
            "    )",
            "the sigmoid of a large margin is 0 or 1 and a logarithm is -inf: use "
            "`logsigmoid` of plus and of minus the margin",
        ),
    ),
    not_tested="a share of one half, where labels hold no information.",
    gradient_to=("margin",),
    wide=("margin",),
)
