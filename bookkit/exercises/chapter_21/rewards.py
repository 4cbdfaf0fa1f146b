"""rlhf.rewards.1: a score for the text and a price for each token."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def token_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, beta: float
) -> Tensor:
    """Minus beta times the log-ratio on every token, plus the score on the last one."""
    drift = torch.where(mask, logprobs - ref_logprobs, 0.0).detach()
    return -beta * drift + _on(_last(mask), scores.detach())


def _last(mask: Tensor) -> Tensor:
    positions = torch.arange(mask.shape[1])[None, :]
    return mask & (positions == torch.where(mask, positions, -1).amax(dim=1, keepdim=True))


def _on(where: Tensor, scores: Tensor) -> Tensor:
    return torch.where(where, scores[:, None], 0.0)


def oracle(
    scores: list[float],
    logprobs: list[list[float]],
    ref_logprobs: list[list[float]],
    mask: list[list[bool]],
    beta: float,
) -> list[list[float]]:
    """Backwards through each row, so that the first real token met is the last one."""
    rows = []
    for score, own, other, counts in zip(scores, logprobs, ref_logprobs, mask, strict=True):
        row, paid = [0.0] * len(own), False
        for t in reversed(range(len(own))):
            if counts[t]:
                row[t] = -beta * (own[t] - other[t]) + (0.0 if paid else score)
                paid = True
        rows.append(row)
    return rows


def cases(draw: Draw) -> Case:
    """Answers of unequal length."""
    rows, columns = draw.dimension(), draw.dimension()
    inputs = {
        "scores": draw.normal(rows),
        "logprobs": -draw.uniform(0.05, 3.0, rows, columns),
        "ref_logprobs": -draw.uniform(0.05, 3.0, rows, columns),
        "mask": draw.prefix_mask(rows, columns),
        "beta": draw.choice([0.0, 0.05, 0.5]),
    }
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """One token, pads, an empty row, no KL, KL alone, a hole, nan under the mask."""

    def case(
        name: str,
        scores: list[float],
        own: list[list[float]],
        other: list[list[float]],
        mask: list[str],
        beta: float,
    ) -> Case:
        numbers = {"scores": scores, "logprobs": own, "ref_logprobs": other}
        inputs = {k: torch.tensor(v, dtype=torch.float64) for k, v in numbers.items()}
        counts = torch.tensor([[letter == "1" for letter in row] for row in mask])
        return Case(name, {**inputs, "mask": counts, "beta": beta})

    own, other = [[-0.5, -1.0, -2.0]], [[-1.0, -0.8, -2.5]]
    return (
        case("one token", [2.0], [[-0.5]], [[-1.0]], ["1"], 0.5),
        case("no pads", [2.0], own, other, ["111"], 0.5),
        case("a pad", [2.0], own, other, ["110"], 0.5),
        case("beta is 0", [2.0], own, other, ["110"], 0.0),
        case("the score is 0", [0.0], own, other, ["111"], 0.1),
        case("an empty row", [2.0], own, other, ["000"], 0.5),
        case("a hole in the mask", [2.0], own, other, ["101"], 0.5),
        case("two rows", [1.0, -3.0], own * 2, other * 2, ["111", "100"], 0.5),
        case("nan under the mask", [1.0], [[-0.5, math.nan]], [[-1.0, math.nan]], ["10"], 0.5),
    )


Arguments = tuple[Tensor, Tensor, Tensor, Tensor, float]


def _drift(own: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, own - other, 0.0).detach()


def _sign(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return token_rewards(scores, other, own, mask, beta)


def _last_column(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    at = torch.zeros_like(mask)
    at[:, -1] = True
    return -beta * _drift(own, other, mask) + _on(at, scores)


def _every_token(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return -beta * _drift(own, other, mask) + _on(mask, scores)


def _first_pad(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    last = _last(mask)
    after = torch.cat([torch.zeros_like(last[:, :1]), last[:, :-1]], dim=1)
    at = torch.where(last[:, -1:], last, after)
    return -beta * _drift(own, other, mask) + _on(at, scores)


def _count(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    index = mask.sum(dim=1, keepdim=True) - 1
    at = (torch.arange(mask.shape[1])[None, :] == index) & mask.any(dim=1, keepdim=True)
    return -beta * _drift(own, other, mask) + _on(at, scores)


def _whole_kl_last(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return _on(_last(mask), scores - beta * _drift(own, other, mask).sum(dim=1))


def _absolute(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return -beta * _drift(own, other, mask).abs() + _on(_last(mask), scores)


def _k3(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    gap = _drift(other, own, mask)
    return -beta * (torch.expm1(gap) - gap) + _on(_last(mask), scores)


def _no_beta(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return token_rewards(scores, own, other, mask, 1.0)


def _all_scaled(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return beta * token_rewards(scores, own, other, mask, 1.0)


def _kl_but_last(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return torch.where(_last(mask), scores[:, None], -beta * _drift(own, other, mask))


def _attached(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return -beta * torch.where(mask, own - other, 0.0) + _on(_last(mask), scores)


def _product(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    return (-beta * (own - other).detach()) * mask + _on(_last(mask), scores)


def _wraps(scores: Tensor, own: Tensor, other: Tensor, mask: Tensor, beta: float) -> Tensor:
    rewards = -beta * _drift(own, other, mask)
    last = torch.where(mask, torch.arange(mask.shape[1]), -1).amax(dim=1)
    rewards[torch.arange(len(last)), last] += scores
    return rewards


REWARDS = Exercise(
    id="rlhf.rewards.1",
    title="A reward for every token",
    chapter=21,
    difficulty=3,
    minutes=20,
    goal=(
        "Each counted token pays beta times its log-ratio to the reference; the last counted one "
        "also receives the score. All are constants, and what does not count gets 0."
    ),
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=token_rewards,
    no_gradient_to=("logprobs", "scores"),
    mutants=(
        Mutant(
            "KL with the opposite sign",
            _sign,
            "the KL term has the opposite sign: a token that the policy likes more than the "
            "reference does must cost, so it is -beta times (logprobs - ref_logprobs)",
        ),
        Mutant(
            "score in the last column",
            _last_column,
            "the score is paid in the last column, which may be a pad: it belongs to the "
            "last token that counts",
        ),
        Mutant(
            "score on every token",
            _every_token,
            "the score is paid on every token, so a long answer earns it many times: pay it once, "
            "on the last token that counts",
        ),
        Mutant(
            "score on the first pad",
            _first_pad,
            "the score is paid one position after the last counted token, where no action was "
            "taken",
        ),
        Mutant(
            "last position by counting",
            _count,
            "the last position is found by counting the mask: with a hole in it (a tool's turn) "
            "that is too early. Take the largest position that counts",
        ),
        Mutant(
            "whole KL at the end",
            _whole_kl_last,
            "the KL of all tokens is paid on the last one: the sum is right, but each token must "
            "pay its own, or the advantages cannot tell which token drifted",
        ),
        Mutant(
            "absolute log-ratio",
            _absolute,
            "the log-ratio is taken without its sign: a single one may be negative, and only their "
            "mean is a divergence",
        ),
        Mutant(
            "another estimator",
            _k3,
            "this is the estimator exp(d) - 1 - d: fine as a measure, but in the reward its "
            "expected gradient is not that of the KL",
        ),
        Mutant(
            "beta not used",
            _no_beta,
            "`beta` has no effect: it multiplies the log-ratio",
        ),
        Mutant(
            "beta on the score",
            _all_scaled,
            "`beta` multiplies the score as well: it is the price of the KL alone",
        ),
        Mutant(
            "no KL on the last token",
            _kl_but_last,
            "the score replaces the KL term of the last token: it is added to it",
        ),
        Mutant(
            "not detached",
            _attached,
            "the values are right, but a gradient flows through the rewards: they are what the "
            "world paid, so detach them",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan where it hides nan (0 · nan is nan): choose with "
            "`torch.where`",
        ),
        Mutant(
            "empty row",
            _wraps,
            "a row without a counted token is paid in its last column (its index is -1): it gets "
            "nothing",
        ),
    ),
    not_tested="the discount, and a coefficient that changes during training.",
)
