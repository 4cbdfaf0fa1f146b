"""dpo.displacement.1: where did the probability go?"""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Triple = tuple[Tensor, Tensor, Tensor]


def displacement(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    """What chosen, rejected and all others gained; the part below the rejected; the gold."""
    gained = after.softmax(-1) - before.softmax(-1)
    others = torch.ones_like(gained, dtype=torch.bool)
    others[[chosen, rejected]] = False
    rest = torch.where(others, gained, 0.0)
    worse = torch.where(gold < gold[rejected], rest, 0.0).sum()
    moved = torch.stack([gained[chosen], gained[rejected], rest.sum()])
    return moved, worse, (gained * gold).sum()


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


def _logs(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    gained = after.log_softmax(-1) - before.log_softmax(-1)
    others = torch.ones_like(gained, dtype=torch.bool)
    others[[chosen, rejected]] = False
    rest = torch.where(others, gained, 0.0)
    worse = torch.where(gold < gold[rejected], rest, 0.0).sum()
    return torch.stack([gained[chosen], gained[rejected], rest.sum()]), worse, (gained * gold).sum()


def _turned(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    return displacement(after, before, gold, chosen, rejected)


def _swapped(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    moved, _, change = displacement(before, after, gold, chosen, rejected)
    _, worse, _ = displacement(before, after, gold, chosen, rejected)
    return moved[[1, 0, 2]], worse, change


def _worse_than_chosen(
    before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int
) -> Triple:
    moved, _, change = displacement(before, after, gold, chosen, rejected)
    gained = after.softmax(-1) - before.softmax(-1)
    others = torch.ones_like(gained, dtype=torch.bool)
    others[[chosen, rejected]] = False
    return moved, torch.where(others & (gold < gold[chosen]), gained, 0.0).sum(), change


def _with_ties(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    moved, _, change = displacement(before, after, gold, chosen, rejected)
    gained = after.softmax(-1) - before.softmax(-1)
    others = torch.ones_like(gained, dtype=torch.bool)
    others[[chosen, rejected]] = False
    return moved, torch.where(others & (gold <= gold[rejected]), gained, 0.0).sum(), change


def _with_rejected(
    before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int
) -> Triple:
    moved, worse, change = displacement(before, after, gold, chosen, rejected)
    return moved, worse + moved[1], change


def _gains_only(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    gained = (after.softmax(-1) - before.softmax(-1)).clamp(min=0)
    moved, _, change = displacement(before, after, gold, chosen, rejected)
    others = torch.ones_like(gained, dtype=torch.bool)
    others[[chosen, rejected]] = False
    return moved, torch.where(others & (gold < gold[rejected]), gained, 0.0).sum(), change


def _gold_after(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    moved, worse, _ = displacement(before, after, gold, chosen, rejected)
    return moved, worse, (after.softmax(-1) * gold).sum()


def _unweighted(before: Tensor, after: Tensor, gold: Tensor, chosen: int, rejected: int) -> Triple:
    moved, worse, _ = displacement(before, after, gold, chosen, rejected)
    return moved, worse, moved[0] * gold[chosen] + moved[1] * gold[rejected]


DISPLACEMENT = Exercise(
    id="dpo.displacement.1",
    title="Where did the probability go?",
    chapter=22,
    difficulty=3,
    minutes=25,
    goal=(
        "From the logits of all answers to one prompt before and after training: the probability "
        "that the chosen, the rejected and all other answers gained, the part of the last that "
        "went to answers worse than the rejected one, and the change of the mean gold reward."
    ),
    outputs=(Output("moved", "(3,)"), Output("worse", "()"), Output("gold_change", "()")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=displacement,
    mutants=(
        Mutant(
            "differences of logarithms",
            _logs,
            "log-probabilities are subtracted; mass is probability, and only its changes add up "
            "to 0",
        ),
        Mutant("before minus after", _turned, "the change is taken as before minus after"),
        Mutant(
            "chosen and rejected exchanged",
            _swapped,
            "the first two entries of `moved` are exchanged",
        ),
        Mutant(
            "worse than the chosen",
            _worse_than_chosen,
            "`worse` counts answers below the *chosen* one: an answer between the two is no harm, "
            "so compare with the rejected one",
        ),
        Mutant(
            "ties are worse",
            _with_ties,
            "`worse` counts answers that are as good as the rejected one: take strictly less",
        ),
        Mutant(
            "the rejected is among the others",
            _with_rejected,
            "`worse` holds what the rejected answer itself lost or gained: it is about all other "
            "answers",
        ),
        Mutant(
            "gains only",
            _gains_only,
            "`worse` adds gains and leaves out losses: it is a net flow, so add both",
        ),
        Mutant(
            "the reward after",
            _gold_after,
            "`gold_change` is the mean after training; take the mean before off",
        ),
        Mutant(
            "gold of the pair alone",
            _unweighted,
            "`gold_change` weighs the two answers of the pair alone: most of the mass may have "
            "gone elsewhere",
        ),
    ),
    not_tested="answers too many to enumerate: there one samples.",
)
