"""zero.step.1: a step of ZeRO 1 on ranks that are rows of a tensor."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def _cut(x: Tensor, ranks: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, -x.numel() % ranks)).view(ranks, -1)


def oracle(
    weights: list[float],
    gradients: list[list[float]],
    means: list[list[float]],
    squares: list[list[float]],
    count: int,
    rate: float,
) -> tuple[list[float], list[list[float]], list[list[float]]]:
    """Adam entry by entry on the whole vector; entry i is number i % size of rank i // size."""
    ranks, size = len(means), len(means[0])
    new = list(weights)
    m = [list(row) for row in means]
    v = [list(row) for row in squares]
    for i in range(ranks * size):
        rank, place = divmod(i, size)
        g = sum(row[i] for row in gradients) / ranks if i < len(weights) else 0.0
        m[rank][place] += (1 - 0.9) * (g - m[rank][place])
        v[rank][place] += (1 - 0.95) * (g * g - v[rank][place])
        if i < len(weights):
            upper = m[rank][place] / (1 - 0.9**count)
            lower = (v[rank][place] / (1 - 0.95**count)) ** 0.5 + 1e-8
            new[i] -= rate * upper / lower
    return new, m, v


def cases(draw: Draw) -> Case:
    """Some weights on some ranks, moments of earlier steps, no moment where there is padding."""
    numbers, ranks = draw.dimension(), draw.integer(1, 4)
    inputs = {
        "weights": draw.normal(numbers),
        "gradients": draw.normal(ranks, numbers),
        "means": _cut(draw.normal(numbers), ranks),
        "squares": _cut(draw.uniform(0.1, 2.0, numbers), ranks),
        "count": draw.integer(2, 9),
        "rate": 0.1,
    }
    return Case(f"{numbers} weights on {ranks} ranks", inputs)


def edges() -> tuple[Case, ...]:
    """The first step, one rank, padding, gradients that cancel, a later step."""

    def case(name: str, gradients: list[list[float]], count: int, moment: float = 0.0) -> Case:
        given = torch.tensor(gradients, dtype=torch.float64)
        ranks, numbers = given.shape
        whole = torch.full((numbers,), moment, dtype=torch.float64)
        inputs = {
            "weights": torch.arange(1.0, numbers + 1, dtype=torch.float64),
            "gradients": given,
            "means": _cut(whole, ranks),
            "squares": _cut(whole.abs(), ranks),
            "count": count,
            "rate": 0.1,
        }
        return Case(name, inputs)

    return (
        case("the hand example", [[2.0, 0.0, -2.0, 4.0], [0.0, 4.0, 0.0, 2.0]], 1),
        case("one rank", [[1.0, -2.0]], 3, 0.5),
        case("padding", [[1.0, 2.0, -3.0], [3.0, -1.0, 0.5]], 2, 0.4),
        case("more ranks than weights", [[1.0], [2.0], [4.0]], 2, 0.3),
        case("gradients that cancel", [[1.0, 2.0], [-1.0, -2.0]], 4, 0.2),
        case("gradients as small as epsilon", [[2e-8, -1e-8, 6e-8], [0.0, -3e-8, 2e-8]], 2),
        case("the hundredth step", [[0.5, 1.5, 2.5, 3.5], [1.0, 0.0, -1.0, 2.0]], 100, 0.6),
    )


CHECK = Check(
    id="zero.step.1",
    outputs=(
        Output("weights", "(N,), the same on every rank"),
        Output("means", "(ranks, S)"),
        Output("squares", "(ranks, S)"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "summed",
            "gradients.mean(0)",
            "gradients.sum(0)",
            "the gradients are summed over the ranks: each is a mean over its own rows, "
            "so the batch's gradient is their mean",
        ),
        edit(
            "own gradient only",
            "cut(gradients.mean(0))",
            "torch.stack([cut(row)[rank] for rank, row in enumerate(gradients)])",
            "each rank steps its piece with its own gradient: the rows of the other ranks "
            "never reach that piece. Average first, then cut",
        ),
        edit(
            "first rank's gradient",
            "gradients.mean(0)",
            "gradients[0]",
            "the gradient of rank 0 is taken for all: the rows of the others are lost",
        ),
        edit(
            "mean of squares",
            "0.05 * g**2",
            "0.05 * cut((gradients**2).mean(0))",
            "`squares` collects the mean of the ranks' squared gradients: Adam squares "
            "the gradient of the batch, so average before squaring",
        ),
        edits(
            "no bias correction",
            (" / (1 - 0.9**count)", ""),
            ("(squares / (1 - 0.95**count))", "squares"),
            message="the moments are not divided by 1 - β^count: in the first steps they are far "
            "too small",
        ),
        edit(
            "epsilon inside the root",
            "(1 - 0.95**count)).sqrt() + 1e-8",
            "(1 - 0.95**count) + 1e-8).sqrt()",
            "ε is added before the root is taken, where it counts as 1e-4: it is added to the root",
        ),
        edit(
            "no epsilon",
            " + 1e-8",
            "",
            "ε is missing: where the moments are 0, as in the padding, that is 0 / 0",
        ),
        edit(
            "one step ahead",
            "    g = cut",
            "    count = count + 1\n    g = cut",
            "the bias correction uses count + 1: `count` is the number of this step, from 1",
        ),
        edit(
            "never joined",
            "pieces = cut(weights) - rate * upper / lower",
            "pieces = cut(weights).clone()\n    pieces[0] -= (rate * upper / lower)[0]",
            "only the first rank's piece of the weights moves: after the step the pieces "
            "of all ranks are gathered",
        ),
        edits(
            "dealt like cards",
            (".view(ranks, -1)", ".view(-1, ranks).T"),
            ("pieces.flatten()", "pieces.T.flatten()"),
            message="numbers are dealt out one by one: a rank owns one piece without gaps, as its "
            "moments were saved",
        ),
        edits(
            "old moments",
            ("    means = 0.9", "    old = means, squares\n    means = 0.9"),
            ("[: weights.numel()], means, squares", "[: weights.numel()], *old"),
            message="the moments that are returned are the old ones: each step would be a first "
            "step",
        ),
        edit(
            "uphill",
            "- rate *",
            "+ rate *",
            "the weights move along the gradient instead of against it",
        ),
    ),
    not_tested="weight decay, second moments above 2, clipping to the norm over all "
    "ranks, and real messages.",
    time_limit_s=30.0,
    wide=(
        "weights",
        "gradients",
        "means",
    ),
    special=(
        ("count", 1.0),
        ("rate", 0.0),
        ("rate", 1.0),
    ),
)
