"""sampling.logprob.1: log-probabilities of the distribution that was really sampled from."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def sampled_logprobs(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    """Temper, cut, normalise, gather; 0 where nothing was sampled and at temperature 0."""
    return _scores(logits, tokens, mask, temperature, top_k)


def _cut(scaled: Tensor, top_k: int) -> Tensor:
    threshold = scaled.topk(top_k, -1).values[..., -1:]
    return scaled.masked_fill(scaled < threshold, -math.inf)


def _pick(logprobs: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    chosen = logprobs.gather(-1, tokens[..., None])[..., 0]
    return torch.where(mask, chosen, 0.0)


def _scores(logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int) -> Tensor:
    if temperature == 0:
        return torch.zeros_like(logits[..., 0])
    return _pick(_cut(logits / temperature, top_k).log_softmax(-1), tokens, mask)


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


def _before_temperature(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    return _scores(logits, tokens, mask, 1.0 if temperature else 0.0, top_k)


def _before_the_filter(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    return _scores(logits, tokens, mask, temperature, logits.shape[-1])


def _raw(logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int) -> Tensor:
    return _scores(logits, tokens, mask, 1.0 if temperature else 0.0, logits.shape[-1])


def _multiplied(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    if temperature == 0:
        return torch.zeros_like(logits[..., 0])
    return _pick(_cut(logits * temperature, top_k).log_softmax(-1), tokens, mask)


def _divided_afterwards(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    if temperature == 0:
        return torch.zeros_like(logits[..., 0])
    return _pick(_cut(logits, top_k).log_softmax(-1) / temperature, tokens, mask)


def _division_by_zero(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    return _pick(_cut(logits / temperature, top_k).log_softmax(-1), tokens, mask)


def _greedy_at_one(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    return _scores(logits, tokens, mask, temperature or 1.0, top_k)


def _product(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    if temperature == 0:
        return torch.zeros_like(logits[..., 0])
    logprobs = _cut(logits / temperature, top_k).log_softmax(-1)
    return logprobs.gather(-1, tokens[..., None])[..., 0] * mask


def _no_mask(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    return _scores(logits, tokens, torch.ones_like(mask), temperature, top_k)


def _best(logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int) -> Tensor:
    return _scores(logits, logits.nan_to_num().argmax(-1), mask, temperature, top_k)


def _probability(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    scores = _scores(logits, tokens, mask, temperature, top_k)
    return torch.where(mask, scores.exp(), 0.0)


def _ties_cut(
    logits: Tensor, tokens: Tensor, mask: Tensor, temperature: float, top_k: int
) -> Tensor:
    if temperature == 0:
        return torch.zeros_like(logits[..., 0])
    scaled = logits / temperature
    chosen = scaled.gather(-1, tokens[..., None])[..., 0]
    total = scaled.topk(top_k, -1).values.logsumexp(-1)
    return torch.where(mask, chosen - total, 0.0)


LOGPROB = Exercise(
    id="sampling.logprob.1",
    title="The log-probability of what was really sampled",
    chapter=31,
    difficulty=3,
    minutes=20,
    goal=(
        "The log-probability of each sampled token under the distribution it was drawn from: "
        "tempered, cut by top-k, normalised; 0 where the mask is False and at temperature 0."
    ),
    outputs=(Output("logprobs", "(B, T)", atol=1e-3),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=sampled_logprobs,
    mutants=(
        Mutant(
            "taken before the temperature",
            _before_temperature,
            "the log-probabilities are taken before the temperature: the token was drawn from the "
            "tempered distribution, and the trainer's ratio would not be 1",
        ),
        Mutant(
            "filter ignored",
            _before_the_filter,
            "the log-probabilities ignore top-k: what is left after the cut is normalised anew, "
            "so each token that stays is more probable",
        ),
        Mutant(
            "raw distribution",
            _raw,
            "these are log-probabilities of the raw model: neither temperature nor top-k is in "
            "them, but the token was drawn with both",
        ),
        Mutant(
            "multiplied by the temperature",
            _multiplied,
            "the logits are multiplied by the temperature; divide, so that a low one sharpens",
        ),
        Mutant(
            "temperature after the log-softmax",
            _divided_afterwards,
            "the temperature comes after the log-softmax: the result is not normalised, so divide "
            "the logits first",
        ),
        Mutant(
            "division by zero",
            _division_by_zero,
            "temperature 0 divides by zero: greedy choice is a point mass, and the logarithm of 1 "
            "is 0",
        ),
        Mutant(
            "greedy scored at temperature one",
            _greedy_at_one,
            "temperature 0 is scored as temperature 1: the greedy token had probability 1, so its "
            "log-probability is 0",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan behind the end of a row (0 · nan is nan): choose "
            "with `torch.where`",
        ),
        Mutant("no mask", _no_mask, "the mask is never used: behind the end of a row stands 0"),
        Mutant(
            "best token scored",
            _best,
            "the most probable token is scored instead of the one that was sampled",
        ),
        Mutant(
            "probability",
            _probability,
            "these are probabilities; the result must be their logarithms",
        ),
        Mutant(
            "ties cut",
            _ties_cut,
            "exactly `top_k` tokens are counted although more tie at the boundary: tokens that "
            "equal the last one stay too",
        ),
    ),
    not_tested="gradients, half precision, and top-p.",
)
