"""reinforce.kl.1: a reward that pays for staying near the base model."""

import math
from typing import Any

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


def oracle(
    scores: list[float],
    logprobs: list[list[float]],
    ref_logprobs: list[list[float]],
    mask: list[list[bool]],
    beta: float,
) -> list[list[float]]:
    """Fill each row token by token, remembering where the last one stood."""
    answer = []
    for score, own, base, flags in zip(scores, logprobs, ref_logprobs, mask, strict=True):
        line, last = [0.0] * len(flags), None
        for t, counts in enumerate(flags):
            if counts:
                line[t] = -beta * (own[t] - base[t])
                last = t
        if last is not None:
            line[last] += score
        answer.append(line)
    return answer


def _inputs(scores: Any, own: Any, base: Any, mask: Any, beta: float) -> dict[str, Any]:
    return {
        "scores": torch.as_tensor(scores, dtype=torch.float64),
        "logprobs": torch.as_tensor(own, dtype=torch.float64),
        "ref_logprobs": torch.as_tensor(base, dtype=torch.float64),
        "mask": torch.as_tensor(mask).bool(),
        "beta": beta,
    }


def cases(draw: Draw) -> Case:
    """Rows of different length."""
    rows, columns = draw.dimension(), draw.dimension()
    own = -draw.uniform(0.05, 4.0, rows, columns)
    base = -draw.uniform(0.05, 4.0, rows, columns)
    mask = draw.prefix_mask(rows, columns)
    inputs = _inputs(draw.normal(rows), own, base, mask, draw.choice([0.05, 0.2, 1.5]))
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Full, short and empty rows, a hole, no penalty, and nan under the mask."""
    own, base = [[-0.5, -0.7, -1.0]], [[-1.0, -0.2, -1.5]]
    nan = math.nan
    return (
        Case("one step", _inputs([2.0], [[-1.0]], [[-3.0]], [[1]], 0.5)),
        Case("a full row", _inputs([1.0], own, base, [[1, 1, 1]], 0.1)),
        Case("a row that ends early", _inputs([1.0], own, base, [[1, 1, 0]], 0.1)),
        Case("an empty row", _inputs([1.0, 2.0], own * 2, base * 2, [[0, 0, 0], [1, 1, 1]], 0.1)),
        Case("a hole (someone else's turn)", _inputs([1.0], own, base, [[1, 0, 1]], 0.1)),
        Case("the first places masked", _inputs([1.0], own, base, [[0, 1, 1]], 0.1)),
        Case("beta 0", _inputs([1.0], own, base, [[1, 1, 0]], 0.0)),
        Case(
            "nan under the mask",
            _inputs([1.0], [[-0.5, nan, nan]], [[-1.0, nan, -1.0]], [[1, 0, 0]], 0.1),
        ),
    )


CHECK = Check(
    id="reinforce.kl.1",
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "score in the last column",
            "last = mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)",
            "last = torch.arange(mask.shape[1]) == mask.shape[1] - 1",
            "the score is paid in the last column: for a row that ended earlier that is "
            "padding, where the mask then removes it. Pay it at the row's last counted "
            "token",
        ),
        edit(
            "score at the first pad",
            "last = mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)",
            "place = mask.sum(dim=1, keepdim=True).clamp(max=mask.shape[1] - 1)\n"
            "    last = torch.arange(mask.shape[1]) == place",
            "the score is paid one place too late, behind the last counted token: the "
            "mask is 0 there and the reward is lost",
        ),
        edit(
            "score at the number of tokens",
            "last = mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)",
            "last = torch.arange(mask.shape[1]) == (mask.sum(dim=1, keepdim=True) - 1) % "
            "mask.shape[1]",
            "`mask.sum() - 1` is the last counted place only if the mask has no hole; and "
            "for an empty row it is -1, the last column. Look for the last True",
        ),
        edit(
            "score for every row",
            "return torch.where(last, scores[:, None], 0.0) - penalty",
            "rewards = -penalty\n    rewards[:, mask.sum(dim=1) - 1] += scores\n    return rewards",
            "`rewards[:, last]` writes into all rows at all those columns: a text then "
            "gets the scores of others. Pair rows with columns, `rewards[torch.arange(B), "
            "last]`, or use a bool mask",
        ),
        edit(
            "score missing",
            "torch.where(last, scores[:, None], 0.0) - penalty",
            "-penalty",
            "the scores never enter: add each to the penalty at its row's last counted token",
        ),
        edit(
            "score instead of the penalty",
            "0.0) - penalty",
            "-penalty)",
            "the score overwrites the penalty of the last token: add the two",
        ),
        edit(
            "score at every token",
            "last,",
            "mask,",
            "the score is paid at every token, so a long answer earns it many times: pay "
            "it once, at the last counted token",
        ),
        edit(
            "sign of the log-ratio",
            "- p",
            "+ p",
            "the log-ratio has the wrong sign, so that leaving the base model is "
            "rewarded: it is -beta * (logprobs - ref_logprobs)",
        ),
        edit(
            "penalty at the end",
            "scores[:, None], 0.0) - penalty",
            "scores[:, None] - penalty.sum(dim=1, keepdim=True), 0.0)",
            "the penalty is summed and paid with the score; pay each token its own, so "
            "that the reward to go tells the tokens apart",
        ),
        edit(
            "not detached",
            ".detach()",
            "",
            "the values are right, but a gradient flows through the reward: a reward is a "
            "constant in the policy gradient, so detach",
        ),
        edit(
            "product with the mask",
            "- penalty",
            "- (beta * (logprobs - ref_logprobs) * mask).detach()",
            "multiplying by the mask does not remove nan (0 · nan is nan): choose with "
            "`torch.where`",
        ),
        edit(
            "penalty under the mask",
            "- penalty",
            "- (beta * (logprobs - ref_logprobs).detach())",
            "masked places get a penalty too: they must be 0, whatever stands there",
        ),
        edit(
            "score times beta",
            ", scores",
            ", (beta * scores)",
            "`beta` multiplies the score as well: it is the price of the log-ratio only",
        ),
        edit(
            "absolute value",
            ".detach",
            ".abs().detach",
            "the absolute value of the log-ratio is charged: single log-ratios may be "
            "negative, and only with their sign do they average to the KL divergence",
        ),
        edit(
            "k3 instead of the log-ratio",
            "beta * (logprobs - ref_logprobs)",
            "beta * (torch.expm1(ref_logprobs - logprobs) + logprobs - ref_logprobs)",
            "this is the k3 estimator (ratio - 1 - log-ratio): here the plain log-ratio "
            "is asked for, which in the reward gives the right gradient",
        ),
    ),
    not_tested="whether beta is well chosen, clamping of extreme log-ratios, and learning.",
    no_gradient_to=("logprobs", "ref_logprobs"),
    wide=(
        "scores",
        "logprobs",
        "ref_logprobs",
    ),
    holed=("mask",),
    special=(
        ("mask", False),
        ("beta", 1.0),
    ),
)
