"""reinforce.exact.1: the gradient without sampling, on a problem small enough to list."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="reinforce.exact.1",
    outputs=(Output("first_gradient", "(V,)"), Output("second_gradient", "(V, V)")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "gradient of the loss",
            "gradients[0], gradients[1]",
            "(-gradients[0], -gradients[1])",
            "this is the gradient of minus the expected reward, the loss: return the "
            "gradient of the expected reward itself",
        ),
        edit(
            "sequences not weighted",
            "torch.softmax(first, dim=0)[:, None] * torch.softmax(second, dim=1)",
            "torch.log_softmax(first, dim=0)[:, None] + torch.log_softmax(second, dim=1)",
            "every sequence counts fully, whatever its probability: an expectation "
            "weights each by p(a) · p(b | a)",
        ),
        edits(
            "plain average over sequences",
            (
                "torch.softmax(first, dim=0)[:, None] * torch.softmax(second, dim=1)",
                "torch.log_softmax(first, dim=0)[:, None] + torch.log_softmax(second, dim=1)",
            ),
            ("(joint * rewards).sum()", "(joint * rewards).mean()"),
            message="all sequences count equally, as if the policy were uniform: weight each by "
            "its own probability p(a) · p(b | a)",
        ),
        edit(
            "second step not weighted by the first",
            "gradients[0], gradients[1]",
            "gradients[0], torch.autograd.grad((torch.softmax(second, dim=1) * "
            "rewards).sum(), second)[0]",
            "the gradient of `second_logits[a]` is not multiplied by p(a): the row is "
            "used only when the first token is a",
        ),
        edit(
            "one softmax over the whole table",
            "torch.softmax(second, dim=1)",
            "second.flatten().softmax(dim=0).view_as(second)",
            "`second_logits` is normalised as one table; each row is a distribution of "
            "its own (`dim=1`), given the first token",
        ),
        edit(
            "softmax down the columns",
            "dim=1",
            "dim=0",
            "the softmax of second_logits runs down the columns: row a holds the logits "
            "of the second token after a, so normalise along `dim=1`",
        ),
        edit(
            "first token along the columns",
            ", None",
            "",
            "`p(a)` multiplies the columns of p(b | a): a tensor (V,) is spread along the "
            "last axis. Row a belongs to p(a), so give it the shape (V, 1) with [:, None]",
        ),
        edit(
            "rewards transposed",
            "* rewards",
            "* rewards.T",
            "`rewards` is read as [second, first]; rewards[a, b] belongs to first token a "
            "and second token b",
        ),
        edit(
            "score without its mean",
            "return gradients[0], gradients[1]",
            "weights = (joint * rewards).detach()\n    return weights.sum(dim=1), weights",
            "the score of a softmax is (one-hot minus probabilities), not the one-hot "
            "alone: the part from the normaliser is missing",
        ),
        edit(
            "no gradient to the first step",
            "gradients[0], gradients[1]",
            "(torch.zeros_like(first_logits), gradients[1])",
            "the first step gets no gradient: its choice decides which rewards can "
            "follow, so the reward at the end counts for it as well",
        ),
    ),
    not_tested="more than two steps (the sum grows as V to the T), results beyond ±10, "
    "and a sampled estimate.",
    wide=(
        "first_logits",
        "second_logits",
        "rewards",
    ),
)
