"""rlhf.rewards.1: a score for the text and a price for each token."""

import math

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


CHECK = Check(
    id="rlhf.rewards.1",
    outputs=(Output("rewards", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "KL with the opposite sign",
            "-beta",
            "beta",
            "the KL term has the opposite sign: a token that the policy likes more than "
            "the reference does must cost, so it is -beta times (logprobs - ref_logprobs)",
        ),
        edit(
            "score in the last column",
            "is_last = mask & (positions == last)",
            "is_last = positions == mask.shape[1] - 1",
            "the score is paid in the last column, which may be a pad: it belongs to the "
            "last token that counts",
        ),
        edit(
            "score on every token",
            "is_last = mask & (positions == last)",
            "is_last = mask",
            "the score is paid on every token, so a long answer earns it many times: pay "
            "it once, on the last token that counts",
        ),
        edit(
            "score on the first pad",
            "is_last = mask & (positions == last)",
            "is_last = (last >= 0) & (positions == (last + 1).clamp(max=mask.shape[1] - 1))",
            "the score is paid one position after the last counted token, where no action "
            "was taken",
        ),
        edit(
            "last position by counting",
            "torch.where(mask, positions, -1).amax(dim=1, keepdim=True)",
            "mask.sum(dim=1, keepdim=True) - 1\n    mask = torch.ones_like(mask)",
            "the last position is found by counting the mask: with a hole in it (a tool's "
            "turn) that is too early. Take the largest position that counts",
        ),
        edit(
            "whole KL at the end",
            "(-beta * drift + torch.where(is_last, scores[:, None], 0.0)).detach()",
            "torch.where(\n"
            "        is_last, scores[:, None] - beta * drift.sum(dim=1, keepdim=True), "
            "0.0\n"
            "    ).detach()",
            "the KL of all tokens is paid on the last one: the sum is right, but each "
            "token must pay its own, or the advantages cannot tell which token drifted",
        ),
        edit(
            "absolute log-ratio",
            "-beta * drift",
            "-beta * drift.abs()",
            "the log-ratio is taken without its sign: a single one may be negative, and "
            "only their mean is a divergence",
        ),
        edit(
            "another estimator",
            "-beta * drift",
            "-beta * (torch.expm1(-drift) + drift)",
            "this is the estimator exp(d) - 1 - d: fine as a measure, but in the reward "
            "its expected gradient is not that of the KL",
        ),
        edit("beta not used", "-beta", "-1.0", "`beta` has no effect: it multiplies the log-ratio"),
        edit(
            "beta on the score",
            "torch.where(is_last",
            "beta * torch.where(is_last",
            "`beta` multiplies the score as well: it is the price of the KL alone",
        ),
        edit(
            "no KL on the last token",
            "(-beta * drift + torch.where(is_last, scores[:, None], 0.0))",
            "torch.where(is_last, scores[:, None], -beta * drift)",
            "the score replaces the KL term of the last token: it is added to it",
        ),
        edit(
            "not detached",
            ".detach()",
            "",
            "the values are right, but a gradient flows through the rewards: they are "
            "what the world paid, so detach them",
        ),
        edit(
            "product with the mask",
            "torch.where(mask, logprobs - ref_logprobs, 0.0)",
            "(logprobs - ref_logprobs) * mask",
            "multiplying by the mask leaves nan where it hides nan (0 · nan is nan): "
            "choose with `torch.where`",
        ),
        edit(
            "empty row",
            "is_last = mask & (positions == last)",
            "is_last = positions == last % mask.shape[1]",
            "a row without a counted token is paid in its last column (its index is -1): "
            "it gets nothing",
        ),
    ),
    not_tested="the discount, and a coefficient that changes during training.",
    no_gradient_to=("logprobs", "scores"),
    wide=(
        "scores",
        "logprobs",
        "ref_logprobs",
    ),
    special=(("beta", 1.0),),
)
