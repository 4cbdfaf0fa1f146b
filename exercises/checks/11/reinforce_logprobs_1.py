"""reinforce.logprobs.1: log-probabilities of the sampled tokens."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

VOCABULARY = 4


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


CHECK = Check(
    id="reinforce.logprobs.1",
    outputs=(Output("logprobs", "(B, T)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "logits not shifted",
            ":-1",
            "1:",
            "each token is scored by the logits of its own position, which have already "
            "read it: `logits[:, t]` predicts `ids[:, t + 1]`, so drop the last logits, "
            "not the first",
        ),
        edit(
            "tokens not shifted",
            "1:,",
            ":-1,",
            "`logits[:, t]` is asked about `ids[:, t]`, the token that the model has just "
            "read, and BOS is scored as if it had been chosen: take `ids[:, 1:]`",
        ),
        edit(
            "temperature missing",
            "/ temperature",
            "/ 1.0",
            "the temperature has no effect: the tokens were drawn from softmax(logits / "
            "temperature), so that is the distribution whose log-probability counts",
        ),
        edits(
            "log-probabilities divided by the temperature",
            ("(-1)", "(-1) / temperature"),
            ("[:, :-1] / temperature", "[:, :-1] / 1.0"),
            message="the log-probabilities are divided by the temperature, but the result is no "
            "longer normalised: divide the logits, before the softmax",
        ),
        edit(
            "logits times temperature",
            "/ temperature",
            "/ (1.0 / temperature)",
            "the logits are multiplied by the temperature: a high temperature must "
            "flatten the distribution, so divide",
        ),
        edit(
            "log of softmax",
            "scaled,",
            "torch.softmax(logits[:, :-1] / temperature, dim=-1).log(),",
            "the log of a softmax is -inf where the probability is too small for a float: "
            "use `log_softmax`, or subtract `logsumexp`",
        ),
        edit(
            "epsilon in the logarithm",
            "logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)",
            "(logprobs.exp().gather(-1, ids[:, 1:, None]).squeeze(-1) + 1e-8).log()",
            "an epsilon inside the logarithm hides every probability below it: what is "
            "rarer than that all looks the same and gets no gradient. Use `log_softmax`, "
            "which needs none",
        ),
        edit(
            "exp and sum",
            "torch.log_softmax(scaled, dim=-1)",
            "scaled - scaled.exp().sum(dim=-1, keepdim=True).log()",
            "exp of a large logit is inf, and of very small ones 0 whose log is -inf: "
            "take the largest out first, as `logsumexp` does",
        ),
        edit(
            "one maximum for the whole batch",
            "torch.log_softmax(scaled, dim=-1)",
            "scaled - scaled.max()\n"
            "    logprobs = logprobs - logprobs.exp().sum(dim=-1, keepdim=True).log()",
            "the largest logit of the whole batch is taken out everywhere: where all "
            "logits lie far below it, every exp is 0 and its log -inf. Each place needs "
            "its own largest, over `dim=-1`, as `logsumexp` takes it",
        ),
        edit(
            "probabilities",
            "(-1)",
            "(-1).exp()",
            "these are probabilities: the logarithm is missing",
        ),
        edit(
            "softmax over time",
            "=-1",
            "=1",
            "the softmax runs over the positions (`dim=1`); it must run over the "
            "vocabulary, `dim=-1`",
        ),
        edit(
            "largest instead of chosen",
            "logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1)",
            "logprobs.max(dim=-1).values",
            "this is the log-probability of the likeliest token at each place, not of the "
            "token that was sampled: gather with ids",
        ),
        edit(
            "cross-entropy",
            "return logprobs",
            "return -logprobs",
            "cross-entropy is minus the log-probability: change the sign",
        ),
        edit(
            "not normalised",
            "logprobs.",
            "scaled.",
            "these are the chosen logits; `logsumexp` over the vocabulary must still be subtracted",
        ),
    ),
    not_tested=(
        "half precision, left padding, a mask, and how much memory a vocabulary of 150,000 takes."
    ),
    gradient_to=("logits",),
    wide=("logits",),
)
