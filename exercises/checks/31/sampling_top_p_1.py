"""sampling.top_p.1: the nucleus of a distribution."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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
        case("p is one, logits not normalised", [[0.5, 0.3, 0.2]], 1.0, add=3.0),
        case("two rows", [[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]], 0.8),
        case("two rows that keep different numbers", [[0.97, 0.02, 0.01], [0.4, 0.35, 0.25]], 0.7),
        case("a tie at the boundary", [[0.4, 0.2, 0.2, 0.2]], 0.5),
        case("all the same", [[0.25, 0.25, 0.25, 0.25]], 0.6),
        case("huge logits", [[0.05, 0.3, 0.15, 0.5]], 0.7, add=4000.0),
        case("small p", [[0.3, 0.36, 0.34]], 0.1),
    )


CHECK = Check(
    id="sampling.top_p.1",
    outputs=(Output("logprobs", "(B, V)", atol=1e-3),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the crossing token dropped",
            "(above < top_p).sum(-1, keepdim=True) - 1",
            "((above < top_p).sum(-1, keepdim=True) - 2).clamp(min=0)",
            "the token that carries the sum over `top_p` is dropped: what is left then "
            "holds less than p. It is the last one that stays",
        ),
        edits(
            "nothing left",
            (
                "(above < top_p).sum(-1, keepdim=True) - 1",
                "(probabilities.cumsum(-1) <= top_p + 1e-6).sum(-1, keepdim=True) - 1",
            ),
            (
                "ordered.gather(-1, last)",
                "ordered.gather(-1, last.clamp(min=0))\n"
                "    threshold = torch.where(last < 0, math.inf, threshold)",
            ),
            message="tokens stay while the sum with themselves is at most `top_p`: where the "
            "first alone exceeds it, nothing is left, and the softmax is nan. Compare the "
            "sum before the token",
        ),
        edit(
            "one token too many",
            "(above < top_p).sum(-1, keepdim=True) - 1",
            "(above < top_p).sum(-1, keepdim=True).clamp(max=logits.shape[-1] - 1)",
            "one token too many stays: the set ends with the token that reaches `top_p`",
        ),
        edit(
            "not normalised",
            "logits.masked_fill(logits < threshold, -math.inf).log_softmax(-1)",
            "logits.log_softmax(-1).masked_fill(logits < threshold, -math.inf)",
            "what stays is not normalised: these are log-probabilities of the whole "
            "distribution, but the token is drawn from the nucleus",
        ),
        edit(
            "logits returned",
            ".log_softmax(-1)",
            "",
            "the kept logits are returned as they are: take a log-softmax of them",
        ),
        edit(
            "in sorted order",
            "ordered =",
            "logits = logits.sort(-1, descending=True).values\n    ordered =",
            "the result is in sorted order: column v must belong to token v again",
        ),
        edit(
            "mask in sorted order",
            "logits < threshold",
            "ordered < threshold",
            "the mask of the sorted tokens is laid on the unsorted ones: scatter it back, "
            "or compare logits with a threshold",
        ),
        edits(
            "least probable first",
            (", descending=True", ""),
            ("logits < threshold", "logits > threshold"),
            message="the sum begins with the least probable token: sort descending",
        ),
        edit(
            "own probability",
            "return logits.masked_fill(logits < threshold,",
            "p = logits.softmax(-1)\n"
            "    lost = (p < 1 - top_p) & (p < p.amax(-1, keepdim=True))\n"
            "    return logits.masked_fill(lost,",
            "each token's own probability is compared with 1 - p; top-p looks at the sum "
            "of those above it",
        ),
        edit(
            "min-p",
            "return logits.masked_fill(logits < threshold,",
            "p = logits.softmax(-1)\n"
            "    return logits.masked_fill(p < top_p * p.amax(-1, keepdim=True),",
            "tokens are compared with p times the best one: that is min-p, another filter",
        ),
        edit(
            "first row decides",
            "ordered.gather(-1, last)",
            "ordered[:, last[0]]",
            "every row keeps as many tokens as the first: the number belongs to the row",
        ),
        edit(
            "ties cut",
            "return logits.masked_fill(logits < threshold,",
            "order = logits.sort(stable=True, dim=-1, descending=True).indices\n"
            "    lost = torch.zeros_like(above, dtype=torch.bool).scatter(-1, order, "
            "above >= top_p)\n"
            "    return logits.masked_fill(lost,",
            "of tokens that tie at the boundary some go and some stay: which ones, the "
            "sort decides. Compare with a threshold, so that equals are treated alike",
        ),
        edit(
            "probabilities",
            "log_softmax(-1)",
            "log_softmax(-1).exp()",
            "these are probabilities; return their logarithms",
        ),
    ),
    not_tested="a p that equals a sum to the last bit, half precision, and speed.",
    wide=("logits",),
)
