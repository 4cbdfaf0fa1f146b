"""dpo.smoothing.1: conservative and robust DPO."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, Tensor]


def smoothed_losses(margin: Tensor, beta: float, flipped: float) -> Pair:
    """Conservative: the mean over the two labels. Robust: unbiased under flipped labels."""
    as_given, turned = -logsigmoid(beta * margin), -logsigmoid(-beta * margin)
    conservative = (1 - flipped) * as_given + flipped * turned
    robust = ((1 - flipped) * as_given - flipped * turned) / (1 - 2 * flipped)
    return conservative, robust


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


def _parts(margin: Tensor, beta: float) -> Pair:
    return -logsigmoid(beta * margin), -logsigmoid(-beta * margin)


def _exchanged_labels(margin: Tensor, beta: float, flipped: float) -> Pair:
    given, turned = _parts(margin, beta)
    robust = ((1 - flipped) * turned - flipped * given) / (1 - 2 * flipped)
    return flipped * given + (1 - flipped) * turned, robust


def _no_smoothing(margin: Tensor, beta: float, flipped: float) -> Pair:
    given, _ = _parts(margin, beta)
    return given, given.clone()


def _order(margin: Tensor, beta: float, flipped: float) -> Pair:
    conservative, robust = smoothed_losses(margin, beta, flipped)
    return robust, conservative


def _not_divided(margin: Tensor, beta: float, flipped: float) -> Pair:
    conservative, robust = smoothed_losses(margin, beta, flipped)
    return conservative, robust * (1 - 2 * flipped)


def _robust_plus(margin: Tensor, beta: float, flipped: float) -> Pair:
    conservative, _ = smoothed_losses(margin, beta, flipped)
    return conservative, conservative / (1 - 2 * flipped)


def _divided_by_rest(margin: Tensor, beta: float, flipped: float) -> Pair:
    conservative, robust = smoothed_losses(margin, beta, flipped)
    return conservative, robust * (1 - 2 * flipped) / (1 - flipped)


def _smoothed_margin(margin: Tensor, beta: float, flipped: float) -> Pair:
    _, robust = smoothed_losses(margin, beta, flipped)
    return -logsigmoid(beta * (1 - 2 * flipped) * margin), robust


def _smoothed_probability(margin: Tensor, beta: float, flipped: float) -> Pair:
    _, robust = smoothed_losses(margin, beta, flipped)
    p = torch.sigmoid(beta * margin)
    return -torch.log((1 - flipped) * p + flipped * (1 - p)), robust


def _not_scaled_down(margin: Tensor, beta: float, flipped: float) -> Pair:
    given, turned = _parts(margin, beta)
    _, robust = smoothed_losses(margin, beta, flipped)
    return given + flipped * turned, robust


def _no_beta(margin: Tensor, beta: float, flipped: float) -> Pair:
    return smoothed_losses(margin, 1.0, flipped)


def _one_minus_sigmoid(margin: Tensor, beta: float, flipped: float) -> Pair:
    p = torch.sigmoid(beta * margin)
    given, turned = -torch.log(p), -torch.log(1 - p)
    robust = ((1 - flipped) * given - flipped * turned) / (1 - 2 * flipped)
    return (1 - flipped) * given + flipped * turned, robust


SMOOTHING = Exercise(
    id="dpo.smoothing.1",
    title="Labels that lie: conservative and robust DPO",
    chapter=22,
    difficulty=3,
    minutes=20,
    goal=(
        "Two losses for pairs of which a share is labelled the wrong way round: the conservative "
        "one, a mean over both labels, and the robust one, whose mean over flips is the clean loss."
    ),
    outputs=(Output("conservative", "(B,)"), Output("robust", "(B,)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=smoothed_losses,
    gradient_to=("margin",),
    mutants=(
        Mutant(
            "weights exchanged",
            _exchanged_labels,
            "the flipped label has the large weight: the label as given holds with probability "
            "1 - flipped",
        ),
        Mutant("no smoothing", _no_smoothing, "`flipped` has no effect: this is plain DPO twice"),
        Mutant("order", _order, "the two losses are exchanged: the conservative one comes first"),
        Mutant(
            "robust, not divided",
            _not_divided,
            "the robust loss is not divided by 1 - 2 · flipped, so that its mean over flips is a "
            "fraction of the clean loss",
        ),
        Mutant(
            "robust with a plus",
            _robust_plus,
            "the second term of the robust loss has the wrong sign: the flipped loss is *taken "
            "off*, to undo what flipped labels add on average",
        ),
        Mutant(
            "divided by 1 - flipped",
            _divided_by_rest,
            "the robust loss is divided by 1 - flipped; it is 1 - 2 · flipped",
        ),
        Mutant(
            "a smaller margin",
            _smoothed_margin,
            "the margin is scaled down: average the two losses, not what stands inside them",
        ),
        Mutant(
            "a smoothed probability",
            _smoothed_probability,
            "the probability is smoothed before the logarithm; the mean is over the two "
            "logarithms, so that a pair that is certain costs without limit",
        ),
        Mutant(
            "the first weight is 1",
            _not_scaled_down,
            "the loss of the label as given has weight 1; it is 1 - flipped",
        ),
        Mutant("no beta", _no_beta, "`beta` has no effect: it multiplies the margin"),
        Mutant(
            "log of a sigmoid",
            _one_minus_sigmoid,
            "the sigmoid of a large margin is 0 or 1 and a logarithm is -inf: use `logsigmoid` of "
            "plus and of minus the margin",
        ),
    ),
    not_tested="a share of one half, where labels hold no information.",
)
