"""sampling.top_p.1: the nucleus of a distribution."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def top_p_logprobs(logits: Tensor, top_p: float) -> Tensor:
    """Keep a token while the more probable ones sum to less than p; normalise what is left."""
    return _filtered(logits, top_p)


def _filtered(logits: Tensor, top_p: float, *, shift: int = 0) -> Tensor:
    ordered = logits.sort(-1, descending=True).values
    probabilities = ordered.softmax(-1)
    above = probabilities.cumsum(-1) - probabilities
    last = (above < top_p).sum(-1, keepdim=True) - 1 + shift
    threshold = ordered.gather(-1, last.clamp(0, logits.shape[-1] - 1))
    return logits.masked_fill(logits < threshold, -math.inf).log_softmax(-1)


def oracle(logits: list[list[float]], top_p: float) -> list[list[float]]:
    """Token by token: how much probability lies strictly above it?"""
    out = []
    for row in logits:
        top = max(row)
        weights = [math.exp(x - top) for x in row]
        total = math.fsum(weights)
        stays = []
        for x in row:
            above = math.fsum(w for y, w in zip(row, weights, strict=True) if y > x) / total
            stays.append(above < top_p)
        kept = math.fsum(w for w, s in zip(weights, stays, strict=True) if s)
        out.append(
            [x - top - math.log(kept) if s else -math.inf for x, s in zip(row, stays, strict=True)]
        )
    return out


def cases(draw: Draw) -> Case:
    """A p that lies well between two of the sums that can occur."""
    rows, vocabulary = draw.dimension(), draw.dimension(2)
    logits = draw.normal(rows, vocabulary, scale=1.5)
    probabilities = logits.softmax(-1).sort(-1, descending=True).values
    sums = torch.cat([torch.zeros(1), probabilities.cumsum(-1).flatten().float()]).sort().values
    gaps = sums.diff()
    wide = [i for i in range(len(gaps)) if gaps[i] > 0.01 and sums[i] < 0.98]
    number = draw.choice(wide)
    top_p = round(float(sums[number] + gaps[number] / 2), 3)
    return Case(f"{rows} × {vocabulary}", {"logits": logits, "top_p": top_p})


def edges() -> tuple[Case, ...]:
    """One token above p, all kept, a tie at the boundary, huge logits, the order shuffled."""

    def case(name: str, probabilities: list[list[float]], top_p: float, add: float = 0.0) -> Case:
        values = torch.tensor(probabilities, dtype=torch.float64).log() + add
        return Case(name, {"logits": values, "top_p": top_p})

    return (
        case("one token", [[1.0]], 0.5),
        case("the first token is enough", [[0.9, 0.06, 0.04]], 0.5),
        case("the hand example", [[0.5, 0.3, 0.15, 0.05]], 0.7),
        case("in another order", [[0.05, 0.3, 0.15, 0.5]], 0.7),
        case("p is one", [[0.5, 0.3, 0.2]], 1.0),
        case("two rows", [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]], 0.8),
        case("two rows that keep different numbers", [[0.97, 0.02, 0.01], [0.4, 0.35, 0.25]], 0.7),
        case("a tie at the boundary", [[0.4, 0.2, 0.2, 0.2]], 0.5),
        case("all the same", [[0.25, 0.25, 0.25, 0.25]], 0.6),
        case("huge logits", [[0.05, 0.3, 0.15, 0.5]], 0.7, add=4000.0),
        case("small p", [[0.3, 0.36, 0.34]], 0.1),
    )


def _crossing_dropped(logits: Tensor, top_p: float) -> Tensor:
    return _filtered(logits, top_p, shift=-1)


def _crossing_dropped_raw(logits: Tensor, top_p: float) -> Tensor:
    ordered = logits.sort(-1, descending=True).values
    kept = ordered.softmax(-1).cumsum(-1) <= top_p + 1e-6
    number = kept.sum(-1, keepdim=True)
    threshold = ordered.gather(-1, (number - 1).clamp(min=0))
    threshold = torch.where(number == 0, math.inf, threshold)
    return logits.masked_fill(logits < threshold, -math.inf).log_softmax(-1)


def _one_more(logits: Tensor, top_p: float) -> Tensor:
    return _filtered(logits, top_p, shift=1)


def _not_normalised(logits: Tensor, top_p: float) -> Tensor:
    stays = top_p_logprobs(logits, top_p) > -math.inf
    return logits.log_softmax(-1).masked_fill(~stays, -math.inf)


def _logits_left(logits: Tensor, top_p: float) -> Tensor:
    stays = top_p_logprobs(logits, top_p) > -math.inf
    return logits.masked_fill(~stays, -math.inf)


def _in_sorted_order(logits: Tensor, top_p: float) -> Tensor:
    return top_p_logprobs(logits.sort(-1, descending=True).values, top_p)


def _mask_in_sorted_order(logits: Tensor, top_p: float) -> Tensor:
    ordered = top_p_logprobs(logits.sort(-1, descending=True).values, top_p)
    kept = logits.masked_fill(ordered == -math.inf, -math.inf)
    return kept.log_softmax(-1)


def _least_first(logits: Tensor, top_p: float) -> Tensor:
    ordered = logits.sort(-1).values
    probabilities = ordered.softmax(-1)
    above = probabilities.cumsum(-1) - probabilities
    last = (above < top_p).sum(-1, keepdim=True) - 1
    return logits.masked_fill(logits > ordered.gather(-1, last), -math.inf).log_softmax(-1)


def _own_probability(logits: Tensor, top_p: float) -> Tensor:
    probabilities = logits.softmax(-1)
    best = probabilities.max(-1, keepdim=True).values
    kept = (probabilities >= 1 - top_p) | (probabilities == best)
    return logits.masked_fill(~kept, -math.inf).log_softmax(-1)


def _relative(logits: Tensor, top_p: float) -> Tensor:
    probabilities = logits.softmax(-1)
    kept = probabilities >= top_p * probabilities.max(-1, keepdim=True).values
    return logits.masked_fill(~kept, -math.inf).log_softmax(-1)


def _first_row_counts(logits: Tensor, top_p: float) -> Tensor:
    ordered = logits.sort(-1, descending=True).values
    probabilities = ordered.softmax(-1)
    number = int(((probabilities.cumsum(-1) - probabilities)[0] < top_p).sum())
    threshold = ordered[:, number - 1 : number]
    return logits.masked_fill(logits < threshold, -math.inf).log_softmax(-1)


def _ties_cut(logits: Tensor, top_p: float) -> Tensor:
    ordered, order = logits.sort(stable=True, dim=-1, descending=True)
    probabilities = ordered.softmax(-1)
    cut = probabilities.cumsum(-1) - probabilities >= top_p
    stays = torch.zeros_like(cut).scatter(-1, order, ~cut)
    return logits.masked_fill(~stays, -math.inf).log_softmax(-1)


def _probabilities(logits: Tensor, top_p: float) -> Tensor:
    return top_p_logprobs(logits, top_p).exp()


TOP_P = Exercise(
    id="sampling.top_p.1",
    title="Top-p: the nucleus",
    chapter=31,
    difficulty=3,
    minutes=25,
    goal=(
        "The log-probabilities after top-p: a token stays if those strictly more probable sum to "
        "less than `top_p`; the rest is -inf, and what stays sums to 1."
    ),
    outputs=(Output("logprobs", "(B, V)", atol=1e-3),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=top_p_logprobs,
    mutants=(
        Mutant(
            "the crossing token dropped",
            _crossing_dropped,
            "the token that carries the sum over `top_p` is dropped: what is left then holds less "
            "than p. It is the last one that stays",
        ),
        Mutant(
            "nothing left",
            _crossing_dropped_raw,
            "tokens stay while the sum with themselves is at most `top_p`: where the first alone "
            "exceeds it, nothing is left, and the softmax is nan. Compare the sum before the token",
        ),
        Mutant(
            "one token too many",
            _one_more,
            "one token too many stays: the set ends with the token that reaches `top_p`",
        ),
        Mutant(
            "not normalised",
            _not_normalised,
            "what stays is not normalised: these are log-probabilities of the whole distribution, "
            "but the token is drawn from the nucleus",
        ),
        Mutant(
            "logits returned",
            _logits_left,
            "the kept logits are returned as they are: take a log-softmax of them",
        ),
        Mutant(
            "in sorted order",
            _in_sorted_order,
            "the result is in sorted order: column v must belong to token v again",
        ),
        Mutant(
            "mask in sorted order",
            _mask_in_sorted_order,
            "the mask of the sorted tokens is laid on the unsorted ones: scatter it back, or "
            "compare logits with a threshold",
        ),
        Mutant(
            "least probable first",
            _least_first,
            "the sum begins with the least probable token: sort descending",
        ),
        Mutant(
            "own probability",
            _own_probability,
            "each token's own probability is compared with 1 - p; top-p looks at the sum of those "
            "above it",
        ),
        Mutant(
            "min-p",
            _relative,
            "tokens are compared with p times the best one: that is min-p, another filter",
        ),
        Mutant(
            "first row decides",
            _first_row_counts,
            "every row keeps as many tokens as the first: the number belongs to the row",
        ),
        Mutant(
            "ties cut",
            _ties_cut,
            "of tokens that tie at the boundary some go and some stay: which ones, the sort "
            "decides. Compare with a threshold, so that equals are treated alike",
        ),
        Mutant(
            "probabilities",
            _probabilities,
            "these are probabilities; return their logarithms",
        ),
    ),
    not_tested="a p that equals a sum to the last bit, half precision, and speed.",
)
