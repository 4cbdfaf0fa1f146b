"""reinforce.kl.1: a reward that pays for staying near the base model."""

import math
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def _last_token(mask: Tensor) -> Tensor:
    """True at the last counted place of each row."""
    return mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)


def kl_shaped_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, beta: float
) -> Tensor:
    """Minus beta times the log-ratio at every token; the score at the last one."""
    penalty = torch.where(mask, beta * (logprobs - ref_logprobs), 0.0).detach()
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


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


def _penalty(own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    return torch.where(mask, beta * (own - base), 0.0).detach()


def _paid_in_the_last_column(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    rewards = -_penalty(own, base, mask, beta)
    rewards[:, -1] += scores
    return rewards


def _paid_at_the_first_pad(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    rewards = -_penalty(own, base, mask, beta)
    place = mask.sum(dim=1).clamp(max=mask.shape[1] - 1)
    rewards[torch.arange(len(scores)), place] += scores
    return rewards


def _paid_by_count(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    rewards = -_penalty(own, base, mask, beta)
    rewards[torch.arange(len(scores)), mask.sum(dim=1) - 1] += scores
    return rewards


def _paid_to_every_row(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    rewards = -_penalty(own, base, mask, beta)
    rewards[:, mask.sum(dim=1) - 1] += scores
    return rewards


def _score_missing(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    return -_penalty(own, base, mask, beta)


def _score_replaces_penalty(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    penalty = _penalty(own, base, mask, beta)
    return torch.where(_last_token(mask), scores[:, None], -penalty)


def _paid_everywhere(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    penalty = _penalty(own, base, mask, beta)
    return torch.where(mask, scores[:, None] - penalty, 0.0)


def _opposite_penalty(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    return kl_shaped_rewards(scores, base, own, mask, beta)


def _penalty_at_the_end(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    total = _penalty(own, base, mask, beta).sum(dim=1)
    return torch.where(_last_token(mask), (scores - total)[:, None], 0.0)


def _not_detached(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    penalty = torch.where(mask, beta * (own - base), 0.0)
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


def _product_with_the_mask(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    penalty = (beta * (own - base) * mask).detach()
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


def _no_mask(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    penalty = beta * (own - base).detach()
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


def _score_times_beta(
    scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float
) -> Tensor:
    return kl_shaped_rewards(beta * scores, own, base, mask, beta)


def _absolute_value(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    penalty = _penalty(own, base, mask, beta).abs()
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


def _k3(scores: Tensor, own: Tensor, base: Tensor, mask: Tensor, beta: float) -> Tensor:
    log_ratio = torch.where(mask, base - own, 0.0).detach()
    penalty = beta * (torch.expm1(log_ratio) - log_ratio)
    return torch.where(_last_token(mask), scores[:, None], 0.0) - penalty


KL = Exercise(
    id="reinforce.kl.1",
    title="A reward with a leash",
    chapter=11,
    difficulty=3,
    minutes=20,
    goal=(
        "Per-token rewards: minus beta times the log-ratio of policy and base at each counted "
        "token, plus the sequence's score at its last counted token; constants, 0 elsewhere."
    ),
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=kl_shaped_rewards,
    no_gradient_to=("logprobs", "ref_logprobs"),
    mutants=(
        Mutant(
            "score in the last column",
            _paid_in_the_last_column,
            "the score is paid in the last column: for a row that ended earlier that is padding, "
            "where the mask then removes it. Pay it at the row's last counted token",
        ),
        Mutant(
            "score at the first pad",
            _paid_at_the_first_pad,
            "the score is paid one place too late, behind the last counted token: the mask is "
            "0 there and the reward is lost",
        ),
        Mutant(
            "score at the number of tokens",
            _paid_by_count,
            "`mask.sum() - 1` is the last counted place only if the mask has no hole; and for an "
            "empty row it is -1, the last column. Look for the last True",
        ),
        Mutant(
            "score for every row",
            _paid_to_every_row,
            "`rewards[:, last]` writes into all rows at all those columns: a text then gets the "
            "scores of others. Pair rows with columns, `rewards[torch.arange(B), last]`, or use a "
            "bool mask",
        ),
        Mutant(
            "score missing",
            _score_missing,
            "the scores never enter: add each to the penalty at its row's last counted token",
        ),
        Mutant(
            "score instead of the penalty",
            _score_replaces_penalty,
            "the score overwrites the penalty of the last token: add the two",
        ),
        Mutant(
            "score at every token",
            _paid_everywhere,
            "the score is paid at every token, so a long answer earns it many times: pay it once, "
            "at the last counted token",
        ),
        Mutant(
            "sign of the log-ratio",
            _opposite_penalty,
            "the log-ratio has the wrong sign, so that leaving the base model is rewarded: it is "
            "-beta * (logprobs - ref_logprobs)",
        ),
        Mutant(
            "penalty at the end",
            _penalty_at_the_end,
            "the penalty is summed and paid with the score; pay each token its own, so that the "
            "reward to go tells the tokens apart",
        ),
        Mutant(
            "not detached",
            _not_detached,
            "the values are right, but a gradient flows through the reward: a reward is a constant "
            "in the policy gradient, so detach",
        ),
        Mutant(
            "product with the mask",
            _product_with_the_mask,
            "multiplying by the mask does not remove nan (0 · nan is nan): choose with "
            "`torch.where`",
        ),
        Mutant(
            "penalty under the mask",
            _no_mask,
            "masked places get a penalty too: they must be 0, whatever stands there",
        ),
        Mutant(
            "score times beta",
            _score_times_beta,
            "`beta` multiplies the score as well: it is the price of the log-ratio only",
        ),
        Mutant(
            "absolute value",
            _absolute_value,
            "the absolute value of the log-ratio is charged: single log-ratios may be negative, "
            "and only with their sign do they average to the KL divergence",
        ),
        Mutant(
            "k3 instead of the log-ratio",
            _k3,
            "this is the k3 estimator (ratio - 1 - log-ratio): here the plain log-ratio is asked "
            "for, which in the reward gives the right gradient",
        ),
    ),
    not_tested="whether beta is well chosen, clamping of extreme log-ratios, and learning.",
)
