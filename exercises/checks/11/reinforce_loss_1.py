"""reinforce.loss.1: the loss whose gradient is the policy gradient."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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


CHECK = Check(
    id="reinforce.loss.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "minus sign missing",
            "-per_token.sum",
            "per_token.sum",
            "the sign is wrong: an optimiser descends, so this loss teaches the policy to "
            "avoid what was rewarded. Put a minus in front",
        ),
        edit(
            "mean over the tokens",
            ".sum(dim=1).mean()",
            ".sum() / mask.sum().clamp(min=1)",
            "the sum is divided by the number of counted tokens; here it is the number of "
            "sequences, so that a long answer is not worth less for each of its tokens",
        ),
        edit(
            "mean over all places",
            ".sum",
            ".mean",
            "`mean()` divides by all B · T places, masked ones included: sum over a row's "
            "tokens, then take the mean over the rows",
        ),
        edit(
            "mean within each sequence",
            "per_token.sum(dim=1)",
            "(per_token.sum(dim=1) / mask.sum(dim=1).clamp(min=1))",
            "each sequence is averaged over its own length: the log-probability of a "
            "sequence is the sum over its tokens",
        ),
        edit(
            "sum over the batch",
            "dim=1",
            "",
            "the sum over sequences is not divided by their number B: the step would grow "
            "with the batch",
        ),
        edit(
            "weights not detached",
            "weights.detach()",
            "weights",
            "the value is right, but a gradient flows into the weights: they must act as "
            "constants, or a reward built from log-probabilities is differentiated as well",
        ),
        edit(
            "mask never used",
            "per_token.sum",
            "(weights.detach() * logprobs).sum",
            "the mask is never used: masked tokens count as well",
        ),
        edit(
            "product with the mask",
            "(), 0.0",
            "(), weights.detach() * logprobs",
            "multiplying by the mask does not remove nan or inf (0 · nan is nan): replace "
            "what is masked before it is multiplied, with `torch.where` or `masked_fill`",
        ),
        edit(
            "product of the sums",
            "per_token = constants",
            "per_token = constants.sum(dim=1, keepdim=True)",
            "a row's summed weights multiply its summed log-probabilities; each token "
            "must meet its own weight before anything is summed",
        ),
        edit(
            "sums the first n places",
            "constants =",
            "mask = torch.arange(mask.shape[1])[None, :] < mask.sum(dim=1, keepdim=True)\n"
            "    constants =",
            "each row counts its first n places, where n is how many of its places count: "
            "a mask may begin late or have holes (a tool's output inside a text), so use "
            "it at each place",
        ),
        edit(
            "empty rows not counted",
            ".sum(dim=1).mean()",
            ".sum() / mask.any(dim=1).sum().clamp(min=1)",
            "rows without a token are left out of the mean: here they count as sequences "
            "with sum 0, so that the divisor is always B",
        ),
        edit(
            "log-probabilities cut off",
            "logprobs,",
            "logprobs.detach(),",
            "the value is right, but the log-probabilities are detached, so that nothing "
            "is learned: only the weights are constants",
        ),
        edit(
            "probabilities",
            "(mask, logprobs, 0.0)",
            "(mask, logprobs, 0.0).exp()",
            "the weights multiply probabilities; the policy gradient needs "
            "log-probabilities, whose gradient divides by how likely the token was anyway",
        ),
    ),
    not_tested="data-parallel means over ranks of different size, half precision, and learning.",
    gradient_to=("logprobs",),
    no_gradient_to=("weights",),
    wide=(
        "logprobs",
        "weights",
    ),
    holed=("mask",),
)
