"""dpo.displacement.1: where did the probability go?"""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def _softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]


def oracle(
    before: list[float], after: list[float], gold: list[float], chosen: int, rejected: int
) -> tuple[list[float], float, float]:
    """Answer by answer."""
    old, new = _softmax(before), _softmax(after)
    moved, worse, change = [0.0, 0.0, 0.0], [], []
    for i in range(len(gold)):
        gain = new[i] - old[i]
        change.append(gain * gold[i])
        if i == chosen:
            moved[0] += gain
        elif i == rejected:
            moved[1] += gain
        else:
            moved[2] += gain
            if gold[i] < gold[rejected]:
                worse.append(gain)
    return moved, math.fsum(worse), math.fsum(change)


def cases(draw: Draw) -> Case:
    """Three or more answers to one prompt."""
    n = draw.dimension(3)
    gold = draw.normal(n)
    first, second = draw.integers(0, n - 1, 2).tolist()
    second = (first + 1) % n if second == first else second
    chosen, rejected = (first, second) if gold[first] >= gold[second] else (second, first)
    inputs = {"before": draw.normal(n), "after": draw.normal(n, scale=2.0), "gold": gold}
    return Case(f"{n} answers", {**inputs, "chosen": chosen, "rejected": rejected})


def edges() -> tuple[Case, ...]:
    """Nothing moved, by hand, harmless, harmful, a tie in gold, two answers only."""

    def case(
        name: str, before: list[float], after: list[float], gold: list[float], *pair: int
    ) -> Case:
        tensors = [torch.tensor(x, dtype=torch.float64) for x in (before, after, gold)]
        tensors[0], tensors[1] = tensors[0].log(), tensors[1].log()
        names = ("before", "after", "gold", "chosen", "rejected")
        return Case(name, dict(zip(names, [*tensors, *pair], strict=True)))

    return (
        case("nothing moved", [2, 1, 1], [2, 1, 1], [1.0, 0.0, -1.0], 0, 1),
        case("by hand", [4, 4, 1, 1], [2, 1, 2, 5], [1.0, 0.0, 3.0, -2.0], 0, 1),
        case("harmless", [4, 4, 1, 1], [3, 1, 5, 1], [1.0, 0.0, 3.0, -2.0], 0, 1),
        case("harmful", [4, 4, 1, 1], [3, 1, 1, 5], [1.0, 0.0, 3.0, -2.0], 0, 1),
        case("a worse one loses", [2, 2, 4, 2], [4, 2, 1, 3], [1.0, 0.0, -3.0, -2.0], 0, 1),
        case("as good as the rejected", [3, 3, 2, 2], [2, 1, 5, 2], [1.0, 0.5, 0.5, -1.0], 0, 1),
        case("between the two", [3, 3, 2, 2], [2, 1, 4, 3], [1.0, 0.0, 0.5, -1.0], 0, 1),
        case("the pair stands elsewhere", [1, 2, 3, 4], [4, 2, 1, 3], [-3.0, 2.0, 0.0, 1.0], 3, 2),
        case("two answers", [3, 1], [1, 1], [1.0, -1.0], 0, 1),
    )


CHECK = Check(
    id="dpo.displacement.1",
    outputs=(Output("moved", "(3,)"), Output("worse", "()"), Output("gold_change", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "differences of logarithms",
            "after.softmax(-1) - before.softmax",
            "after.log_softmax(-1) - before.log_softmax",
            "log-probabilities are subtracted; mass is probability, and only its changes "
            "add up to 0",
        ),
        edits(
            "before minus after",
            ("before.", "after."),
            ("= after", "= before"),
            message="the change is taken as before minus after",
        ),
        edit(
            "chosen and rejected exchanged",
            "gained[chosen], gained[rejected]",
            "gained[rejected], gained[chosen]",
            "the first two entries of `moved` are exchanged",
        ),
        edit(
            "worse than the chosen",
            "gold[rejected]",
            "gold[chosen]",
            "`worse` counts answers below the *chosen* one: an answer between the two is "
            "no harm, so compare with the rejected one",
        ),
        edit(
            "ties are worse",
            "gold <",
            "gold <=",
            "`worse` counts answers that are as good as the rejected one: take strictly less",
        ),
        edit(
            "the rejected is among the others",
            "moved, worse, (gained * gold).sum()",
            "(moved, worse + moved[1], (gained * gold).sum())",
            "`worse` holds what the rejected answer itself lost or gained: it is about "
            "all other answers",
        ),
        edit(
            "gains only",
            "rest,",
            "rest.clamp(min=0),",
            "`worse` adds gains and leaves out losses: it is a net flow, so add both",
        ),
        edit(
            "the reward after",
            "moved, worse, (gained * gold).sum()",
            "(moved, worse, (after.softmax(-1) * gold).sum())",
            "`gold_change` is the mean after training; take the mean before off",
        ),
        edit(
            "gold of the pair alone",
            "moved, worse, (gained * gold).sum()",
            "(moved, worse, moved[0] * gold[chosen] + moved[1] * gold[rejected])",
            "`gold_change` weighs the two answers of the pair alone: most of the mass may "
            "have gone elsewhere",
        ),
    ),
    not_tested="answers too many to enumerate: there one samples.",
    wide=(
        "before",
        "after",
        "gold",
    ),
)
