"""ppo.entropy.1: how undecided a discrete policy is."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def entropy(logits: Tensor) -> Tensor:
    """Minus the sum of p log p; an impossible action adds nothing."""
    logp = torch.log_softmax(logits, dim=-1)
    finite = logp.masked_fill(logp == -math.inf, 0.0)
    return -(logp.exp() * finite).sum(dim=-1)


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


def _negative(logits: Tensor) -> Tensor:
    return -entropy(logits)


def _log_of_softmax(logits: Tensor) -> Tensor:
    p = logits.softmax(dim=-1)
    return -(p * p.log()).sum(dim=-1)


def _own_softmax(logits: Tensor) -> Tensor:
    weights = logits.exp()
    p = weights / weights.sum(dim=-1, keepdim=True)
    safe = torch.where(p > 0, p, 1.0)
    return -(p * safe.log()).sum(dim=-1)


def _forbidden_is_nan(logits: Tensor) -> Tensor:
    logp = torch.log_softmax(logits, dim=-1)
    return -(logp.exp() * logp).sum(dim=-1)


def _bits(logits: Tensor) -> Tensor:
    return entropy(logits) / math.log(2.0)


def _mean_over_actions(logits: Tensor) -> Tensor:
    return entropy(logits) / logits.shape[-1]


def _unweighted(logits: Tensor) -> Tensor:
    logp = torch.log_softmax(logits, dim=-1)
    return -logp.masked_fill(logp == -math.inf, 0.0).sum(dim=-1)


def _of_the_likeliest(logits: Tensor) -> Tensor:
    return -torch.log_softmax(logits, dim=-1).max(dim=-1).values


def _over_rows(logits: Tensor) -> Tensor:
    logp = torch.log_softmax(logits, dim=0)
    finite = logp.masked_fill(~logp.isfinite(), 0.0)
    weights = logp.exp().nan_to_num(0.0)
    return -(weights * finite).sum(dim=0)


def _batch_mean(logits: Tensor) -> Tensor:
    return entropy(logits).mean()


def _share_of_maximum(logits: Tensor) -> Tensor:
    return entropy(logits) / math.log(max(logits.shape[-1], 2))


ENTROPY = Exercise(
    id="ppo.entropy.1",
    title="How undecided a policy is",
    chapter=12,
    difficulty=2,
    minutes=15,
    goal=(
        "The entropy in nats of the categorical distribution of each row of logits. A logit may be "
        "huge, and it may be -inf: that action is forbidden and adds nothing."
    ),
    outputs=(Output("entropy", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=entropy,
    gradient_to=("logits",),
    mutants=(
        Mutant(
            "opposite sign",
            _negative,
            "this is the sum of p log p, which is never positive: entropy is minus that",
        ),
        Mutant(
            "log of softmax",
            _log_of_softmax,
            "`softmax(...).log()` is -inf where a probability has underflowed to 0, and 0 · -inf "
            "is nan: use `log_softmax`, and leave impossible actions out",
        ),
        Mutant(
            "own softmax",
            _own_softmax,
            "`exp` of a huge logit is inf, and inf/inf is nan: use `log_softmax`, which subtracts "
            "the largest first",
        ),
        Mutant(
            "forbidden actions give nan",
            _forbidden_is_nan,
            "a forbidden action has log-probability -inf and gives 0 · -inf = nan: replace the "
            "-inf before the product",
        ),
        Mutant("bits", _bits, "the result is in bits (base 2); use the natural logarithm"),
        Mutant(
            "mean over the actions",
            _mean_over_actions,
            "the terms are averaged over the actions: the probabilities already are the weights, "
            "so sum",
        ),
        Mutant(
            "not weighted",
            _unweighted,
            "the log-probabilities are summed without their probabilities as weights",
        ),
        Mutant(
            "the likeliest action",
            _of_the_likeliest,
            "this is the surprise of the likeliest action only; entropy is the mean surprise over "
            "all actions",
        ),
        Mutant(
            "over the rows",
            _over_rows,
            "the distribution is taken over the rows (dim 0); the actions are the last axis",
        ),
        Mutant(
            "mean over the batch",
            _batch_mean,
            "the rows are averaged to one number; keep one entropy a row",
        ),
        Mutant(
            "share of the maximum",
            _share_of_maximum,
            "it is divided by the entropy of a fair choice: no division is asked for",
        ),
    ),
    not_tested="half precision.",
)
