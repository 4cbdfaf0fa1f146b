"""ppo.entropy.1: how undecided a discrete policy is."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(logits: list[list[float]]) -> list[float]:
    """The definition, after subtracting the largest logit."""
    answer = []
    for row in logits:
        top = max(row)
        weights = [math.exp(value - top) for value in row]
        total = math.fsum(weights)
        answer.append(
            math.fsum(w / total * (math.log(total) - math.log(w)) for w in weights if w > 0)
        )
    return answer


def cases(draw: Draw) -> Case:
    """Logits of ordinary size, sometimes with a forbidden action."""
    rows, actions = draw.dimension(), draw.dimension(2)
    logits = draw.normal(rows, actions, scale=2.0)
    forbidden = draw.choice([False, False, True])
    if forbidden:
        logits[:, 0] = -math.inf
    return Case(f"{rows} × {actions}" + (", one barred" if forbidden else ""), {"logits": logits})


def edges() -> tuple[Case, ...]:
    """Fair, certain, huge, forbidden."""

    def case(name: str, logits: list[list[float]]) -> Case:
        return Case(name, {"logits": torch.tensor(logits, dtype=torch.float64)})

    return (
        case("one action", [[3.0]]),
        case("two fair actions", [[0.0, 0.0]]),
        case("four fair actions", [[1.0, 1.0, 1.0, 1.0]]),
        case("three to one", [[math.log(3.0), 0.0]]),
        case("nearly certain", [[50.0, 0.0, 0.0]]),
        case("huge logits", [[1000.0, 999.0, -1000.0]]),
        case("a forbidden action", [[0.0, -math.inf, 0.0]]),
        case("two rows", [[0.0, 0.0, 1.0], [2.0, 0.0, -1.0]]),
        case("as many rows as actions", [[0.0, 3.0], [1.0, -2.0]]),
    )


CHECK = Check(
    id="ppo.entropy.1",
    outputs=(Output("entropy", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "opposite sign",
            "return -",
            "return ",
            "this is the sum of p log p, which is never positive: entropy is minus that",
        ),
        edit(
            "log of softmax",
            "* finite",
            "* logits.softmax(dim=-1).log()",
            "`softmax(...).log()` is -inf where a probability has underflowed to 0, and 0 "
            "· -inf is nan: use `log_softmax`, and leave impossible actions out",
        ),
        edits(
            "own softmax",
            (
                "logp = torch.log_softmax(logits, dim=-1)",
                "p = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)\n"
                "    logp = torch.where(p > 0, p, 1.0).log()",
            ),
            ("logp.exp() * finite", "p * finite"),
            message="`exp` of a huge logit is inf, and inf/inf is nan: use `log_softmax`, which "
            "subtracts the largest first",
        ),
        edit(
            "forbidden actions give nan",
            "* finite",
            "* logp",
            "a forbidden action has log-probability -inf and gives 0 · -inf = nan: "
            "replace the -inf before the product",
        ),
        edit(
            "bits",
            ".sum(dim=-1)",
            ".sum(dim=-1) / 0.6931471805599453",
            "the result is in bits (base 2); use the natural logarithm",
        ),
        edit(
            "mean over the actions",
            "sum",
            "mean",
            "the terms are averaged over the actions: the probabilities already are the "
            "weights, so sum",
        ),
        edit(
            "not weighted",
            "logp.exp() * finite",
            "finite",
            "the log-probabilities are summed without their probabilities as weights",
        ),
        edit(
            "the likeliest action",
            "(logp.exp() * finite).sum(dim=-1)",
            "torch.log_softmax(logits, dim=-1).max(dim=-1).values",
            "this is the surprise of the likeliest action only; entropy is the mean "
            "surprise over all actions",
        ),
        edits(
            "over the rows",
            ("logits, dim=-1", "logits, dim=0"),
            ("logp == -torch.inf", "~logp.isfinite()"),
            (
                "(logp.exp() * finite).sum(dim=-1)",
                "(logp.exp().nan_to_num(0.0) * finite).sum(dim=0)",
            ),
            message="the distribution is taken over the rows (dim 0); the actions are the last "
            "axis",
        ),
        edit(
            "mean over the batch",
            "-(logp.exp() * finite).sum(dim=-1)",
            "(-(logp.exp() * finite).sum(dim=-1)).mean()",
            "the rows are averaged to one number; keep one entropy a row",
        ),
        edit(
            "share of the maximum",
            ".sum(dim=-1)",
            ".sum(dim=-1) / torch.tensor(max(logits.shape[-1], 2)).log()",
            "it is divided by the entropy of a fair choice: no division is asked for",
        ),
    ),
    not_tested="half precision.",
    gradient_to=("logits",),
    wide=("logits",),
)
