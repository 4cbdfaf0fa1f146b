"""reinforce.loss.1: the loss whose gradient is the policy gradient."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def reinforce_loss(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """Minus the mean over sequences of the sum of weight times log-probability."""
    per_token = torch.where(mask, weights.detach(), 0.0) * torch.where(mask, logprobs, 0.0)
    return -per_token.sum(dim=1).mean()


def oracle(
    logprobs: list[list[float]], weights: list[list[float]], mask: list[list[bool]]
) -> float:
    """Two loops and a division by the number of rows."""
    total = math.fsum(
        weight * logprob
        for rows in zip(logprobs, weights, mask, strict=True)
        for logprob, weight, counts in zip(*rows, strict=True)
        if counts
    )
    return -total / len(logprobs)


def cases(draw: Draw) -> Case:
    """Log-probabilities and weights of both signs; every other mask has holes."""
    rows, columns = draw.dimension(), draw.dimension()
    draw_mask = draw.choice([draw.prefix_mask, draw.holed_mask])
    inputs = {
        "logprobs": -draw.uniform(0.05, 4.0, rows, columns),
        "weights": draw.normal(rows, columns),
        "mask": draw_mask(rows, columns),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Hand-size, empty rows, masks with holes, and garbage of every kind under the mask."""

    def case(
        name: str, logprobs: list[list[float]], weights: list[list[float]], mask: list[list[int]]
    ) -> Case:
        inputs = {
            "logprobs": torch.tensor(logprobs, dtype=torch.float64),
            "weights": torch.tensor(weights, dtype=torch.float64),
            "mask": torch.tensor(mask).bool(),
        }
        return Case(name, inputs)

    two = [[-1.0, -2.0], [-0.5, -3.0]]
    return (
        case("one step", [[-2.0]], [[3.0]], [[1]]),
        case("two rows by hand", two, [[1.0, 1.0], [-2.0, 5.0]], [[1, 1], [1, 0]]),
        case("three rows, one empty", [*two, [-1, -1]], [[1, 2]] * 3, [[1, 1], [1, 0], [0, 0]]),
        case("everything masked", two, [[1.0, 1.0], [2.0, 5.0]], [[0, 0], [0, 0]]),
        case("a hole in the mask", [[-1.0, -2.0, -4.0]], [[1.0, 3.0, -2.0]], [[1, 0, 1]]),
        case("the first place masked", [[-1.0, -2.0, -4.0]], [[1.0, 3.0, -2.0]], [[0, 1, 1]]),
        case("-inf under the mask", [[-1.0, -math.inf]], [[2.0, 0.0]], [[1, 0]]),
        case("nan weight under the mask", [[-1.0, -2.0]], [[2.0, math.nan]], [[1, 0]]),
    )


def _terms(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, weights.detach(), 0.0) * torch.where(mask, logprobs, 0.0)


def _plus(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -reinforce_loss(logprobs, weights, mask)


def _token_mean(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -_terms(logprobs, weights, mask).sum() / mask.sum().clamp(min=1)


def _plain_mean(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -_terms(logprobs, weights, mask).mean()


def _sequence_means(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    lengths = mask.sum(dim=1).clamp(min=1)
    return -(_terms(logprobs, weights, mask).sum(dim=1) / lengths).mean()


def _sum(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -_terms(logprobs, weights, mask).sum()


def _not_detached(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    per_token = torch.where(mask, weights, 0.0) * torch.where(mask, logprobs, 0.0)
    return -per_token.sum(dim=1).mean()


def _no_mask(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -(weights.detach() * logprobs).sum(dim=1).mean()


def _product_with_the_mask(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return -(weights.detach() * logprobs * mask).sum(dim=1).mean()


def _product_of_sums(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    weight_sums = torch.where(mask, weights.detach(), 0.0).sum(dim=1)
    return -(weight_sums * torch.where(mask, logprobs, 0.0).sum(dim=1)).mean()


def _first_places(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    first = torch.arange(mask.shape[1])[None, :] < mask.sum(dim=1, keepdim=True)
    return reinforce_loss(logprobs, weights, first)


def _without_empty_rows(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    full = mask.any(dim=1).sum().clamp(min=1)
    return -_terms(logprobs, weights, mask).sum() / full


def _cut(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    return reinforce_loss(logprobs.detach(), weights, mask)


def _probabilities(logprobs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    probabilities = torch.where(mask, logprobs, 0.0).exp()
    return -(torch.where(mask, weights.detach(), 0.0) * probabilities).sum(dim=1).mean()


LOSS = Exercise(
    id="reinforce.loss.1",
    title="The loss",
    chapter=11,
    difficulty=2,
    minutes=15,
    goal=(
        "Minus the mean over sequences of the sum over their tokens of weight times "
        "log-probability; the weights are constants, and nothing under the mask gets in."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=reinforce_loss,
    gradient_to=("logprobs",),
    no_gradient_to=("weights",),
    mutants=(
        Mutant(
            "minus sign missing",
            _plus,
            "the sign is wrong: an optimiser descends, so this loss teaches the policy to avoid "
            "what was rewarded. Put a minus in front",
        ),
        Mutant(
            "mean over the tokens",
            _token_mean,
            "the sum is divided by the number of counted tokens; here it is the number of "
            "sequences, so that a long answer is not worth less for each of its tokens",
        ),
        Mutant(
            "mean over all places",
            _plain_mean,
            "`mean()` divides by all B · T places, masked ones included: sum over a row's tokens, "
            "then take the mean over the rows",
        ),
        Mutant(
            "mean within each sequence",
            _sequence_means,
            "each sequence is averaged over its own length: the log-probability of a sequence is "
            "the sum over its tokens",
        ),
        Mutant(
            "sum over the batch",
            _sum,
            "the sum over sequences is not divided by their number B: the step would grow with "
            "the batch",
        ),
        Mutant(
            "weights not detached",
            _not_detached,
            "the value is right, but a gradient flows into the weights: they must act as "
            "constants, or a reward built from log-probabilities is differentiated as well",
        ),
        Mutant("mask never used", _no_mask, "the mask is never used: masked tokens count as well"),
        Mutant(
            "product with the mask",
            _product_with_the_mask,
            "multiplying by the mask does not remove nan or inf (0 · nan is nan): replace what is "
            "masked before it is multiplied, with `torch.where` or `masked_fill`",
        ),
        Mutant(
            "product of the sums",
            _product_of_sums,
            "a row's summed weights multiply its summed log-probabilities; each token must meet "
            "its own weight before anything is summed",
        ),
        Mutant(
            "sums the first n places",
            _first_places,
            "each row counts its first n places, where n is how many of its places count: a mask "
            "may begin late or have holes (a tool's output inside a text), so use it at each place",
        ),
        Mutant(
            "empty rows not counted",
            _without_empty_rows,
            "rows without a token are left out of the mean: here they count as sequences with sum "
            "0, so that the divisor is always B",
        ),
        Mutant(
            "log-probabilities cut off",
            _cut,
            "the value is right, but the log-probabilities are detached, so that nothing is "
            "learned: only the weights are constants",
        ),
        Mutant(
            "probabilities",
            _probabilities,
            "the weights multiply probabilities; the policy gradient needs log-probabilities, "
            "whose gradient divides by how likely the token was anyway",
        ),
    ),
    not_tested="data-parallel means over ranks of different size, half precision, and learning.",
)
