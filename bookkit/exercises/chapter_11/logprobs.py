"""reinforce.logprobs.1: log-probabilities of the sampled tokens."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

VOCABULARY = 4


def response_logprobs(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    """Shift, scale, normalise, gather."""
    logprobs = torch.log_softmax(logits[:, :-1] / temperature, dim=-1)
    return logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)


def oracle(
    logits: list[list[list[float]]], ids: list[list[int]], temperature: float
) -> list[list[float]]:
    """Sum the exponentials with the largest taken out, one position after the other."""
    answer = []
    for scores, row in zip(logits, ids, strict=True):
        line = []
        for t in range(len(row) - 1):
            scaled = [score / temperature for score in scores[t]]
            top = max(scaled)
            log_total = top + math.log(math.fsum(math.exp(s - top) for s in scaled))
            line.append(scaled[row[t + 1]] - log_total)
        answer.append(line)
    return answer


def cases(draw: Draw) -> Case:
    """Logits of ordinary size; the temperature is never 1, so that it cannot be forgotten."""
    rows, columns = draw.dimension(), draw.dimension(2)
    ids = draw.integers(0, VOCABULARY - 1, rows, columns)
    ids[:, 0] = 0
    logits = draw.normal(rows, columns, VOCABULARY, scale=1.5)
    temperature = draw.choice([0.5, 0.8, 1.25, 2.0])
    inputs = {"logits": logits, "ids": ids, "temperature": temperature}
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """Hand-size numbers, and the sizes at which exp gives up."""

    def case(name: str, rows: list[list[float]], ids: list[int], temperature: float) -> Case:
        logits = torch.tensor([rows], dtype=torch.float64)
        inputs = {"logits": logits, "ids": torch.tensor([ids]), "temperature": temperature}
        return Case(name, inputs)

    ordinary = [[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    uneven = {
        "logits": torch.tensor([[[1e4, -1e4, 0.0], *ordinary[1:]], ordinary], dtype=torch.float64),
        "ids": torch.tensor([[0, 1, 2], [0, 2, 1]]),
        "temperature": 0.5,
    }
    four = [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 3.0], [4.0, 0.0, 0.0, 0.0]]
    return (
        case("one step", [[2.0, 1.0, 0.0], [0.0, 0.0, 7.0]], [0, 1], 0.5),
        case("a row followed by hand", four, [3, 1, 2, 3], 1.0),
        case("huge logits", [[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0]], [0, 1, 2], 0.5),
        Case("huge logits at one place, ordinary ones at the others", uneven),
        case("huge logits of one sign", [[-2e4, -2e4, -2e4], [0.0, 1.0, 2.0]], [0, 1], 2.0),
        case("the same logits at every place", [[2.0, 1.0, 0.0]] * 3, [1, 0, 2], 0.5),
        case("a banned token", [[0.0, 1.0, -math.inf], [0.0, 0.0, 0.0]], [0, 1], 2.0),
    )


def _not_shifted(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    logprobs = torch.log_softmax(logits[:, 1:] / temperature, dim=-1)
    return logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)


def _tokens_not_shifted(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    logprobs = torch.log_softmax(logits[:, :-1] / temperature, dim=-1)
    return logprobs.gather(-1, ids[:, :-1, None]).squeeze(-1)


def _untempered(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return response_logprobs(logits, ids, 1.0)


def _divided_afterwards(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return response_logprobs(logits, ids, 1.0) / temperature


def _multiplied(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return response_logprobs(logits, ids, 1.0 / temperature)


def _log_of_softmax(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    probabilities = torch.softmax(logits[:, :-1] / temperature, dim=-1)
    return probabilities.log().gather(-1, ids[:, 1:, None]).squeeze(-1)


def _epsilon(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    probabilities = torch.softmax(logits[:, :-1] / temperature, dim=-1)
    return (probabilities.gather(-1, ids[:, 1:, None]).squeeze(-1) + 1e-8).log()


def _exp_and_sum(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    scaled = logits[:, :-1] / temperature
    chosen = scaled.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return chosen - scaled.exp().sum(dim=-1).log()


def _one_maximum(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    scaled = logits[:, :-1] / temperature
    return _exp_and_sum(logits - temperature * scaled.max(), ids, temperature)


def _probabilities(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return response_logprobs(logits, ids, temperature).exp()


def _over_time(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    logprobs = torch.log_softmax(logits[:, :-1] / temperature, dim=1)
    return logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)


def _largest(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    return torch.log_softmax(logits[:, :-1] / temperature, dim=-1).max(dim=-1).values


def _cross_entropy(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    scaled = logits[:, :-1] / temperature
    return functional.cross_entropy(scaled.transpose(1, 2), ids[:, 1:], reduction="none")


def _logits_only(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    scaled = logits[:, :-1] / temperature
    return scaled.gather(-1, ids[:, 1:, None]).squeeze(-1)


LOGPROBS = Exercise(
    id="reinforce.logprobs.1",
    title="Log-probabilities of what was said",
    chapter=11,
    difficulty=2,
    minutes=15,
    goal=(
        "From the logits of a sequence that begins with BOS, the log-probability of each token "
        "after it, at the temperature at which it was sampled."
    ),
    outputs=(Output("logprobs", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=response_logprobs,
    gradient_to=("logits",),
    mutants=(
        Mutant(
            "logits not shifted",
            _not_shifted,
            "each token is scored by the logits of its own position, which have already read it: "
            "`logits[:, t]` predicts `ids[:, t + 1]`, so drop the last logits, not the first",
        ),
        Mutant(
            "tokens not shifted",
            _tokens_not_shifted,
            "`logits[:, t]` is asked about `ids[:, t]`, the token that the model has just read, "
            "and BOS is scored as if it had been chosen: take `ids[:, 1:]`",
        ),
        Mutant(
            "temperature missing",
            _untempered,
            "the temperature has no effect: the tokens were drawn from softmax(logits / "
            "temperature), so that is the distribution whose log-probability counts",
        ),
        Mutant(
            "log-probabilities divided by the temperature",
            _divided_afterwards,
            "the log-probabilities are divided by the temperature, but the result is no longer "
            "normalised: divide the logits, before the softmax",
        ),
        Mutant(
            "logits times temperature",
            _multiplied,
            "the logits are multiplied by the temperature: a high temperature must flatten the "
            "distribution, so divide",
        ),
        Mutant(
            "log of softmax",
            _log_of_softmax,
            "the log of a softmax is -inf where the probability is too small for a float: use "
            "`log_softmax`, or subtract `logsumexp`",
        ),
        Mutant(
            "epsilon in the logarithm",
            _epsilon,
            "an epsilon inside the logarithm hides every probability below it: what is rarer than "
            "that all looks the same and gets no gradient. Use `log_softmax`, which needs none",
        ),
        Mutant(
            "exp and sum",
            _exp_and_sum,
            "exp of a large logit is inf, and of very small ones 0 whose log is -inf: take the "
            "largest out first, as `logsumexp` does",
        ),
        Mutant(
            "one maximum for the whole batch",
            _one_maximum,
            "the largest logit of the whole batch is taken out everywhere: where all logits lie "
            "far below it, every exp is 0 and its log -inf. Each place needs its own largest, over "
            "`dim=-1`, as `logsumexp` takes it",
        ),
        Mutant(
            "probabilities",
            _probabilities,
            "these are probabilities: the logarithm is missing",
        ),
        Mutant(
            "softmax over time",
            _over_time,
            "the softmax runs over the positions (`dim=1`); it must run over the vocabulary, "
            "`dim=-1`",
        ),
        Mutant(
            "largest instead of chosen",
            _largest,
            "this is the log-probability of the likeliest token at each place, not of the token "
            "that was sampled: gather with ids",
        ),
        Mutant(
            "cross-entropy",
            _cross_entropy,
            "cross-entropy is minus the log-probability: change the sign",
        ),
        Mutant(
            "not normalised",
            _logits_only,
            "these are the chosen logits; `logsumexp` over the vocabulary must still be subtracted",
        ),
    ),
    not_tested=(
        "half precision, left padding, a mask, and how much memory a vocabulary of 150,000 takes."
    ),
)
