"""sampling.logprob.1: log-probabilities of the distribution that was really sampled from."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


def oracle(
    logits: list[list[list[float]]],
    tokens: list[list[int]],
    mask: list[list[bool]],
    temperature: float,
    top_k: int,
) -> list[list[float]]:
    """Token by token, the sum over those that stay written out."""
    out = []
    for b, row in enumerate(logits):
        scores = []
        for t, line in enumerate(row):
            if not mask[b][t] or temperature == 0:
                scores.append(0.0)
                continue
            least = sorted(line, reverse=True)[top_k - 1]
            stay = [x for x in line if x >= least]
            top = max(stay)
            total = math.fsum(math.exp((x - top) / temperature) for x in stay)
            scores.append((line[tokens[b][t]] - top) / temperature - math.log(total))
        out.append(scores)
    return out


def cases(draw: Draw) -> Case:
    """Tokens that top-k leaves in, at several temperatures."""
    rows, steps, vocabulary = draw.dimension(), draw.dimension(), draw.dimension(2)
    logits = draw.normal(rows, steps, vocabulary, scale=1.5)
    top_k = draw.integer(1, vocabulary)
    best = logits.topk(top_k, -1).indices
    tokens = best.gather(-1, draw.integers(0, top_k - 1, rows, steps, 1))[..., 0]
    inputs = {
        "logits": logits,
        "tokens": tokens,
        "mask": draw.prefix_mask(rows, steps),
        "temperature": draw.choice([0.5, 0.7, 1.0, 1.5]),
        "top_k": top_k,
    }
    return Case(f"{rows} × {steps} × {vocabulary}", inputs)


def edges() -> tuple[Case, ...]:
    """Greedy, one token left, no filter, a tie, huge logits, nan behind the end."""

    def case(
        name: str,
        logits: list[list[list[float]]],
        tokens: list[list[int]],
        temperature: float,
        top_k: int,
        mask: list[list[int]] | None = None,
    ) -> Case:
        ids = torch.tensor(tokens)
        real = torch.ones_like(ids) if mask is None else torch.tensor(mask)
        inputs = {
            "logits": torch.tensor(logits, dtype=torch.float64),
            "tokens": ids,
            "mask": real.bool(),
            "temperature": temperature,
            "top_k": top_k,
        }
        return Case(name, inputs)

    ln3, ln5 = math.log(3), math.log(5)
    nan = math.nan
    return (
        case("no filter, temperature 1", [[[ln3, 0.0, 0.0]]], [[0]], 1.0, 3),
        case("temperature one half", [[[ln3, 0.0, 0.0]]], [[0]], 0.5, 3),
        case("temperature two", [[[ln3, ln5, 0.0]]], [[1]], 2.0, 3),
        case("top-k leaves two", [[[ln3, ln5, 0.0, 0.0]]], [[0]], 1.0, 2),
        case("both", [[[ln3, ln5, 0.0, 0.0]]], [[0]], 0.5, 2),
        case("top-k leaves one", [[[0.0, ln5]]], [[1]], 0.7, 1),
        case("greedy", [[[ln3, ln5, 0.0]]], [[1]], 0.0, 3),
        case("a tie at the boundary", [[[ln5, 0.0, 0.0]]], [[1]], 1.0, 2),
        case("huge logits", [[[3000.0, 2999.0, -3000.0]]], [[1]], 0.5, 3),
        case("a row that ended", [[[ln3, 0.0], [ln5, 0.0]]], [[0, 1]], 0.5, 2, [[1, 0]]),
        case("nan behind the end", [[[ln3, 0.0], [nan, nan]]], [[0, 0]], 1.0, 2, [[1, 0]]),
        case(
            "two steps",
            [[[ln3, 0.0], [0.0, ln5]], [[1.0, 0.0], [0.5, 2.0]]],
            [[1, 1], [0, 0]],
            1.5,
            2,
        ),
    )


CHECK = Check(
    id="sampling.logprob.1",
    outputs=(Output("logprobs", "(B, T)", atol=1e-3),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "taken before the temperature",
            " / temperature",
            "",
            "the log-probabilities are taken before the temperature: the token was drawn "
            "from the tempered distribution, and the trainer's ratio would not be 1",
        ),
        edit(
            "filter ignored",
            "top_k,",
            "logits.shape[-1],",
            "the log-probabilities ignore top-k: what is left after the cut is normalised "
            "anew, so each token that stays is more probable",
        ),
        edit(
            "raw distribution",
            "scaled.masked_fill(scaled < threshold, -math.inf)",
            "logits",
            "these are log-probabilities of the raw model: neither temperature nor top-k "
            "is in them, but the token was drawn with both",
        ),
        edit(
            "multiplied by the temperature",
            "/ t",
            "* t",
            "the logits are multiplied by the temperature; divide, so that a low one sharpens",
        ),
        edits(
            "temperature after the log-softmax",
            ("scaled = logits / temperature", "scaled = logits"),
            ("log_softmax(-1)", "log_softmax(-1) / temperature"),
            message="the temperature comes after the log-softmax: the result is not normalised, "
            "so divide the logits first",
        ),
        edit(
            "division by zero",
            "= 0",
            "= (-1)",
            "temperature 0 divides by zero: greedy choice is a point mass, and the "
            "logarithm of 1 is 0",
        ),
        edit(
            "greedy scored at temperature one",
            "    if temperature == 0:\n        return torch.zeros_like(logits[..., 0])\n",
            "    temperature = temperature or 1.0\n",
            "temperature 0 is scored as temperature 1: the greedy token had probability "
            "1, so its log-probability is 0",
        ),
        edit(
            "product with the mask",
            "torch.where(mask, chosen, 0.0)",
            "chosen * mask",
            "multiplying by the mask leaves nan behind the end of a row (0 · nan is nan): "
            "choose with `torch.where`",
        ),
        edit(
            "no mask",
            "torch.where(mask, chosen, 0.0)",
            "chosen",
            "the mask is never used: behind the end of a row stands 0",
        ),
        edit(
            "best token scored",
            "1, tokens",
            "1, logits.nan_to_num().argmax(-1)",
            "the most probable token is scored instead of the one that was sampled",
        ),
        edits(
            "probability",
            ("torch.zeros_like(logits[..., 0])", "mask.to(logits.dtype)"),
            ("mask, chosen", "mask, chosen.exp()"),
            message="these are probabilities; the result must be their logarithms",
        ),
        edit(
            "ties cut",
            "chosen = logprobs.gather(-1, tokens[..., None])[..., 0]",
            "total = scaled.topk(top_k, -1).values.logsumexp(-1)\n"
            "    chosen = scaled.gather(-1, tokens[..., None])[..., 0] - total",
            "exactly `top_k` tokens are counted although more tie at the boundary: tokens "
            "that equal the last one stay too",
        ),
    ),
    not_tested="gradients, half precision, logits beyond ±10, and top-p.",
    holed=("mask",),
)
