"""zero.step.1: a step of ZeRO 1 on ranks that are rows of a tensor."""

from collections.abc import Callable

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Answer = tuple[Tensor, Tensor, Tensor]
B1, B2, EPS = 0.9, 0.95, 1e-8


def zero_step(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    """Average and cut the gradient, step each shard where its moments are, join the shards."""
    return _step(weights, gradients, means, squares, count, rate)


def _cut(x: Tensor, ranks: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, -x.numel() % ranks)).view(ranks, -1)


def _adam(parts: Tensor, g: Tensor, m: Tensor, v: Tensor, count: int, rate: float) -> Answer:
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g**2
    step = (m / (1 - B1**count)) / ((v / (1 - B2**count)).sqrt() + EPS)
    return parts - rate * step, m, v


def _step(
    weights: Tensor,
    gradients: Tensor,
    means: Tensor,
    squares: Tensor,
    count: int,
    rate: float,
    *,
    share: Callable[[Tensor], Tensor] = lambda g: g.mean(0),
    adam: Callable[..., Answer] = _adam,
) -> Answer:
    ranks = gradients.shape[0]
    parts, m, v = adam(
        _cut(weights, ranks), _cut(share(gradients), ranks), means, squares, count, rate
    )
    return parts.flatten()[: weights.numel()], m, v


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


def _summed(*args: object) -> Answer:
    return _step(*args, share=lambda g: g.sum(0))  # type: ignore[arg-type]


def _own_rows(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    ranks = gradients.shape[0]
    own = torch.stack([_cut(row, ranks)[rank] for rank, row in enumerate(gradients)])
    parts, m, v = _adam(_cut(weights, ranks), own, means, squares, count, rate)
    return parts.flatten()[: weights.numel()], m, v


def _first_rank(*args: object) -> Answer:
    return _step(*args, share=lambda g: g[0])  # type: ignore[arg-type]


def _mean_of_squares(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    ranks = gradients.shape[0]
    square = _cut((gradients**2).mean(0), ranks)

    def adam(parts: Tensor, g: Tensor, m: Tensor, v: Tensor, count: int, rate: float) -> Answer:
        m = B1 * m + (1 - B1) * g
        v = B2 * v + (1 - B2) * square
        step = (m / (1 - B1**count)) / ((v / (1 - B2**count)).sqrt() + EPS)
        return parts - rate * step, m, v

    return _step(weights, gradients, means, squares, count, rate, adam=adam)


def _uncorrected(*args: object) -> Answer:
    def adam(parts: Tensor, g: Tensor, m: Tensor, v: Tensor, count: int, rate: float) -> Answer:
        m = B1 * m + (1 - B1) * g
        v = B2 * v + (1 - B2) * g**2
        return parts - rate * m / (v.sqrt() + EPS), m, v

    return _step(*args, adam=adam)  # type: ignore[arg-type]


def _inside_the_root(*args: object) -> Answer:
    def adam(parts: Tensor, g: Tensor, m: Tensor, v: Tensor, count: int, rate: float) -> Answer:
        m = B1 * m + (1 - B1) * g
        v = B2 * v + (1 - B2) * g**2
        step = (m / (1 - B1**count)) / (v / (1 - B2**count) + EPS).sqrt()
        return parts - rate * step, m, v

    return _step(*args, adam=adam)  # type: ignore[arg-type]


def _no_epsilon(*args: object) -> Answer:
    def adam(parts: Tensor, g: Tensor, m: Tensor, v: Tensor, count: int, rate: float) -> Answer:
        m = B1 * m + (1 - B1) * g
        v = B2 * v + (1 - B2) * g**2
        step = (m / (1 - B1**count)) / (v / (1 - B2**count)).sqrt()
        return parts - rate * step, m, v

    return _step(*args, adam=adam)  # type: ignore[arg-type]


def _counted_from_zero(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    return _step(weights, gradients, means, squares, count + 1, rate)


def _never_joined(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    new, m, v = _step(weights, gradients, means, squares, count, rate)
    size = means.shape[1]
    return torch.cat([new[:size], weights[size:]]), m, v


def _dealt(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    ranks = gradients.shape[0]
    deal = [torch.nn.functional.pad(x, (0, -x.numel() % ranks)).view(-1, ranks).T for x in
            (weights, gradients.mean(0))]  # fmt: skip
    parts, m, v = _adam(deal[0], deal[1], means, squares, count, rate)
    return parts.T.flatten()[: weights.numel()], m, v


def _old_moments(*args: object) -> Answer:
    new, _, _ = _step(*args)  # type: ignore[arg-type]
    return new, args[2], args[3]  # type: ignore[return-value]


def _uphill(
    weights: Tensor, gradients: Tensor, means: Tensor, squares: Tensor, count: int, rate: float
) -> Answer:
    return _step(weights, gradients, means, squares, count, -rate)


STEP = Exercise(
    id="zero.step.1",
    title="A step of ZeRO 1",
    chapter=34,
    difficulty=3,
    minutes=25,
    goal=(
        "Reduce-scatter the gradients of all ranks (their mean, padded with zeros and cut in equal "
        "pieces), take Adam's step on each rank's piece with that rank's moments, and all-gather "
        "the weights."
    ),
    outputs=(
        Output("weights", "(N,), the same on every rank"),
        Output("means", "(ranks, S)"),
        Output("squares", "(ranks, S)"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=zero_step,
    mutants=(
        Mutant(
            "summed",
            _summed,
            "the gradients are summed over the ranks: each is a mean over its own rows, so the "
            "batch's gradient is their mean",
        ),
        Mutant(
            "own gradient only",
            _own_rows,
            "each rank steps its piece with its own gradient: the rows of the other ranks never "
            "reach that piece. Average first, then cut",
        ),
        Mutant(
            "first rank's gradient",
            _first_rank,
            "the gradient of rank 0 is taken for all: the rows of the others are lost",
        ),
        Mutant(
            "mean of squares",
            _mean_of_squares,
            "`squares` collects the mean of the ranks' squared gradients: Adam squares the "
            "gradient of the batch, so average before squaring",
        ),
        Mutant(
            "no bias correction",
            _uncorrected,
            "the moments are not divided by 1 - β^count: in the first steps they are far too small",
        ),
        Mutant(
            "epsilon inside the root",
            _inside_the_root,
            "ε is added before the root is taken, where it counts as 1e-4: it is added to the root",
        ),
        Mutant(
            "no epsilon",
            _no_epsilon,
            "ε is missing: where the moments are 0, as in the padding, that is 0 / 0",
        ),
        Mutant(
            "one step ahead",
            _counted_from_zero,
            "the bias correction uses count + 1: `count` is the number of this step, from 1",
        ),
        Mutant(
            "never joined",
            _never_joined,
            "only the first rank's piece of the weights moves: after the step the pieces of all "
            "ranks are gathered",
        ),
        Mutant(
            "dealt like cards",
            _dealt,
            "numbers are dealt out one by one: a rank owns one piece without gaps, as its moments "
            "were saved",
        ),
        Mutant(
            "old moments",
            _old_moments,
            "the moments that are returned are the old ones: each step would be a first step",
        ),
        Mutant(
            "uphill",
            _uphill,
            "the weights move along the gradient instead of against it",
        ),
    ),
    time_limit_s=30.0,
    not_tested="weight decay, clipping to the norm over all ranks, and real messages.",
)
