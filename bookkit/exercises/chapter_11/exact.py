"""reinforce.exact.1: the gradient without sampling, on a problem small enough to list."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Gradients = tuple[Tensor, Tensor]


def exact_gradient(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    """Write the expected reward as a double sum and let autograd differentiate it."""
    first = first_logits.detach().clone().requires_grad_()
    second = second_logits.detach().clone().requires_grad_()
    joint = torch.softmax(first, dim=0)[:, None] * torch.softmax(second, dim=1)
    gradients = torch.autograd.grad((joint * rewards).sum(), (first, second))
    return gradients[0], gradients[1]


def _softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / math.fsum(weights) for weight in weights]


def oracle(
    first_logits: list[float], second_logits: list[list[float]], rewards: list[list[float]]
) -> tuple[list[float], list[list[float]]]:
    """Visit every sequence: its probability times its reward times its score function."""
    size = len(first_logits)
    first = _softmax(first_logits)
    second = [_softmax(row) for row in second_logits]
    first_gradient = [0.0] * size
    second_gradient = [[0.0] * size for _ in range(size)]
    for a in range(size):
        for b in range(size):
            weight = first[a] * second[a][b] * rewards[a][b]
            for k in range(size):
                first_gradient[k] += weight * ((k == a) - first[k])
                second_gradient[a][k] += weight * ((k == b) - second[a][k])
    return first_gradient, second_gradient


def cases(draw: Draw) -> Case:
    """Vocabularies of 2 to 5 tokens."""
    size = draw.integer(2, min(2 + draw.size, 5))
    inputs = {
        "first_logits": draw.normal(size),
        "second_logits": draw.normal(size, size),
        "rewards": draw.normal(size, size, scale=2.0),
    }
    return Case(f"{size} tokens", inputs)


def edges() -> tuple[Case, ...]:
    """One token, a uniform policy, one paid sequence, and a policy that has made up its mind."""

    def case(name: str, first: list[float], second: list[list[float]], rewards: list[list[float]]):  # type: ignore[no-untyped-def]
        named = {"first_logits": first, "second_logits": second, "rewards": rewards}
        return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in named.items()})

    zeros = [[0.0, 0.0], [0.0, 0.0]]
    paid = [[0.0, 0.0], [4.0, 0.0]]
    return (
        case("one token", [1.0], [[2.0]], [[3.0]]),
        case("a uniform policy, one paid sequence", [0.0, 0.0], zeros, paid),
        case("equal rewards", [1.0, -1.0], [[0.0, 1.0], [2.0, 0.0]], [[2.0, 2.0], [2.0, 2.0]]),
        case("only the first token matters", [1.0, 0.0], zeros, [[1.0, 1.0], [0.0, 0.0]]),
        case("huge logits", [1e4, -1e4], [[-1e4, 1e4], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]),
    )


def _by_scores(
    first_logits: Tensor,
    second_logits: Tensor,
    rewards: Tensor,
    *,
    weights: Tensor | None = None,
) -> Gradients:
    """The score-function form; the mutants change its weights."""
    first = torch.softmax(first_logits, dim=0)
    second = torch.softmax(second_logits, dim=1)
    if weights is None:
        weights = first[:, None] * second * rewards
    total = weights.sum(dim=1)
    return total - first * total.sum(), weights - second * total[:, None]


def _loss_gradient(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    first, second = exact_gradient(first_logits, second_logits, rewards)
    return -first, -second


def _unweighted(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    return _by_scores(first_logits, second_logits, rewards, weights=rewards)


def _plain_average(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    return _by_scores(first_logits, second_logits, rewards, weights=rewards / rewards.numel())


def _second_not_weighted(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    second = torch.softmax(second_logits, dim=1)
    weights = second * rewards
    own = weights - second * weights.sum(dim=1, keepdim=True)
    return exact_gradient(first_logits, second_logits, rewards)[0], own


def _independent_steps(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    whole = second_logits.flatten().softmax(dim=0).view_as(second_logits)
    first = torch.softmax(first_logits, dim=0)
    weights = first[:, None] * whole * rewards
    return _by_scores(first_logits, second_logits, rewards, weights=weights)


def _columns(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    second = torch.softmax(second_logits, dim=0)
    weights = torch.softmax(first_logits, dim=0)[:, None] * second * rewards
    total = weights.sum(dim=1)
    first_gradient = total - torch.softmax(first_logits, dim=0) * total.sum()
    return first_gradient, weights - second * weights.sum(dim=0)


def _first_along_the_columns(
    first_logits: Tensor, second_logits: Tensor, rewards: Tensor
) -> Gradients:
    first = first_logits.detach().clone().requires_grad_()
    second = second_logits.detach().clone().requires_grad_()
    joint = torch.softmax(first, dim=0) * torch.softmax(second, dim=1)
    gradients = torch.autograd.grad((joint * rewards).sum(), (first, second))
    return gradients[0], gradients[1]


def _rewards_transposed(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    return exact_gradient(first_logits, second_logits, rewards.T)


def _not_centred(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    first = torch.softmax(first_logits, dim=0)
    weights = first[:, None] * torch.softmax(second_logits, dim=1) * rewards
    return weights.sum(dim=1), weights


def _immediate_only(first_logits: Tensor, second_logits: Tensor, rewards: Tensor) -> Gradients:
    _, second_gradient = exact_gradient(first_logits, second_logits, rewards)
    return torch.zeros_like(first_logits), second_gradient


EXACT = Exercise(
    id="reinforce.exact.1",
    title="The exact gradient of a two-step problem",
    chapter=11,
    difficulty=3,
    minutes=25,
    goal=(
        "The gradient of the expected reward of a two-token sequence with respect to both tables "
        "of logits, by listing all V · V sequences."
    ),
    outputs=(Output("first_gradient", "(V,)"), Output("second_gradient", "(V, V)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=exact_gradient,
    mutants=(
        Mutant(
            "gradient of the loss",
            _loss_gradient,
            "this is the gradient of minus the expected reward, the loss: return the gradient of "
            "the expected reward itself",
        ),
        Mutant(
            "sequences not weighted",
            _unweighted,
            "every sequence counts fully, whatever its probability: an expectation weights each "
            "by p(a) · p(b | a)",
        ),
        Mutant(
            "plain average over sequences",
            _plain_average,
            "all sequences count equally, as if the policy were uniform: weight each by its own "
            "probability p(a) · p(b | a)",
        ),
        Mutant(
            "second step not weighted by the first",
            _second_not_weighted,
            "the gradient of `second_logits[a]` is not multiplied by p(a): the row is used only "
            "when the first token is a",
        ),
        Mutant(
            "one softmax over the whole table",
            _independent_steps,
            "`second_logits` is normalised as one table; each row is a distribution of its own "
            "(`dim=1`), given the first token",
        ),
        Mutant(
            "softmax down the columns",
            _columns,
            "the softmax of second_logits runs down the columns: row a holds the logits of the "
            "second token after a, so normalise along `dim=1`",
        ),
        Mutant(
            "first token along the columns",
            _first_along_the_columns,
            "`p(a)` multiplies the columns of p(b | a): a tensor (V,) is spread along the last "
            "axis. Row a belongs to p(a), so give it the shape (V, 1) with [:, None]",
        ),
        Mutant(
            "rewards transposed",
            _rewards_transposed,
            "`rewards` is read as [second, first]; rewards[a, b] belongs to first token a and "
            "second token b",
        ),
        Mutant(
            "score without its mean",
            _not_centred,
            "the score of a softmax is (one-hot minus probabilities), not the one-hot alone: the "
            "part from the normaliser is missing",
        ),
        Mutant(
            "no gradient to the first step",
            _immediate_only,
            "the first step gets no gradient: its choice decides which rewards can follow, so the "
            "reward at the end counts for it as well",
        ),
    ),
    not_tested="more than two steps (the sum grows as V to the T), and a sampled estimate.",
)
