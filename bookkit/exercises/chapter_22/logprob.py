"""dpo.logprob.1: the log-probability of an answer."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def answer_logprob(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """Sum of the log-probabilities of the tokens that count; logits[:, t] scores ids[:, t+1]."""
    logp = torch.log_softmax(logits[:, :-1], dim=-1)
    chosen = logp.gather(2, ids[:, 1:, None]).squeeze(2)
    return torch.where(mask[:, 1:], chosen, 0.0).sum(dim=1)


def oracle(
    logits: list[list[list[float]]], ids: list[list[int]], mask: list[list[bool]]
) -> list[float]:
    """One token after the other."""
    sums = []
    for rows, tokens, counted in zip(logits, ids, mask, strict=True):
        terms = []
        for t in range(1, len(tokens)):
            if counted[t]:
                row = rows[t - 1]
                top = max(row)
                total = top + math.log(math.fsum(math.exp(x - top) for x in row))
                terms.append(row[tokens[t]] - total)
        sums.append(math.fsum(terms))
    return sums


def _masked(prompts: list[int], lengths: list[int], width: int) -> Tensor:
    rows = zip(prompts, lengths, strict=True)
    return torch.tensor([[p <= t < p + n for t in range(width)] for p, n in rows])


def cases(draw: Draw) -> Case:
    """Prompts and answers of several lengths, padded on the right."""
    rows, vocabulary = draw.dimension(), draw.integer(2, 5)
    prompts = [draw.integer(1, 3) for _ in range(rows)]
    lengths = [draw.integer(1, 3) for _ in range(rows)]
    width = max(p + n for p, n in zip(prompts, lengths, strict=True))
    inputs = {
        "logits": draw.normal(rows, width, vocabulary),
        "ids": draw.integers(0, vocabulary - 1, rows, width),
        "mask": _masked(prompts, lengths, width),
    }
    return Case(f"{rows} × {width}, vocabulary of {vocabulary}", inputs)


def edges() -> tuple[Case, ...]:
    """One token, by hand, a long prompt, padding of token 0, nan behind the end, huge logits."""
    draw = Draw(22)

    def case(name: str, prompts: list[int], lengths: list[int], width: int, scale: float) -> Case:
        rows = len(prompts)
        inputs = {
            "logits": draw.normal(rows, width, 4, scale=scale),
            "ids": draw.integers(0, 3, rows, width),
            "mask": _masked(prompts, lengths, width),
        }
        return Case(name, inputs, gradient=scale < 10)

    hand = {
        "logits": torch.tensor([[[0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]])
        .double()
        .log1p(),
        "ids": torch.tensor([[2, 0, 3]]),
        "mask": torch.tensor([[False, True, True]]),
    }
    behind = case("", [1, 1], [3, 1], 4, 1.0).inputs
    spoilt = behind["logits"].clone()
    spoilt[1, 2:] = math.nan
    return (
        case("one token of one", [1], [1], 2, 1.0),
        Case("two tokens by hand", hand),
        case("a long prompt", [4], [2], 6, 1.0),
        case("two rows, padding behind one", [2, 1], [3, 1], 5, 1.0),
        Case("nan behind the end", {**behind, "logits": spoilt}, gradient=False),
        case("huge logits", [1], [2], 3, 300.0),
    )


def _tokens(logits: Tensor, ids: Tensor) -> Tensor:
    return torch.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, None]).squeeze(2)


def _counted(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0.0).sum(1)


def _prompt_too(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    until = mask.flip(1).int().cummax(1).values.flip(1).bool()  # everything up to the last token
    return _counted(_tokens(logits, ids), until[:, 1:])


def _padding_too(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return _counted(_tokens(logits, ids), mask.int().cummax(1).values.bool()[:, 1:])


def _no_mask(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return _tokens(logits, ids).sum(1)


def _own_logits(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    logp = torch.log_softmax(logits, -1).gather(2, ids[:, :, None]).squeeze(2)
    return _counted(logp, mask)


def _one_late(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    late = torch.cat([torch.zeros_like(mask[:, :1]), mask[:, :-1]], 1) & mask
    return _counted(_tokens(logits, ids), late[:, 1:])


def _one_early(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return _counted(_tokens(logits, ids), mask[:, :-1])


def _mean(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return answer_logprob(logits, ids, mask) / mask[:, 1:].sum(1).clamp(min=1)


def _probabilities(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return _counted(_tokens(logits, ids).exp(), mask[:, 1:])


def _raw_logits(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return _counted(logits[:, :-1].gather(2, ids[:, 1:, None]).squeeze(2), mask[:, 1:])


def _no_end(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    more = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1) & mask
    return _counted(_tokens(logits, ids), more[:, 1:])


def _product(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return (_tokens(logits, ids) * mask[:, 1:]).sum(1)


def _negative(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    return -answer_logprob(logits, ids, mask)


def _naive(logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    weights = logits[:, :-1].exp()
    p = weights / weights.sum(-1, keepdim=True)
    return _counted(p.gather(2, ids[:, 1:, None]).squeeze(2).log(), mask[:, 1:])


LOGPROB = Exercise(
    id="dpo.logprob.1",
    title="The log-probability of an answer",
    chapter=22,
    difficulty=2,
    minutes=20,
    goal=(
        "For each row, the sum of the log-probabilities of the answer's tokens: neither the prompt "
        "nor the padding counts, and the end of the answer does."
    ),
    outputs=(Output("logprob", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=answer_logprob,
    gradient_to=("logits",),
    mutants=(
        Mutant(
            "the prompt counts",
            _prompt_too,
            "the tokens of the prompt are scored as well: only those under the mask count",
        ),
        Mutant(
            "the padding counts",
            _padding_too,
            "the padding behind the answer is scored as well: only tokens under the mask count",
        ),
        Mutant(
            "no mask",
            _no_mask,
            "the mask is never used: prompt and padding are scored as well",
        ),
        Mutant(
            "a token scored by its own logits",
            _own_logits,
            "each token is scored by the logits at its own place, which have already read it: "
            "logits[:, t] predicts ids[:, t+1]",
        ),
        Mutant(
            "the first token of the answer is lost",
            _one_late,
            "the first token of the answer is not scored: the last position of the prompt "
            "predicts it, so shift logits, ids and mask together",
        ),
        Mutant(
            "the mask is not shifted",
            _one_early,
            "the mask is used one place early, so that the last token is lost and one of the "
            "prompt counts: with ids[:, 1:] goes mask[:, 1:]",
        ),
        Mutant(
            "mean",
            _mean,
            "the result is a mean over the tokens: an answer's probability is a product, so its "
            "logarithm is the sum",
        ),
        Mutant(
            "probabilities are added",
            _probabilities,
            "probabilities are summed; take their logarithms",
        ),
        Mutant(
            "raw logits",
            _raw_logits,
            "the logits themselves are summed: they are log-probabilities only after log_softmax",
        ),
        Mutant(
            "the end does not count",
            _no_end,
            "the last token of the answer is not scored: it is the EOS, and to stop is a decision",
        ),
        Mutant(
            "product with the mask",
            _product,
            "multiplying by the mask leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
        Mutant(
            "minus",
            _negative,
            "the sign is opposite: a log-probability is negative, a loss comes later",
        ),
        Mutant(
            "log of a softmax",
            _naive,
            "exp of the logits overflows, or a probability becomes 0 and its log -inf: use "
            "log_softmax",
        ),
    ),
    not_tested="the tokenizer, and speed with a large vocabulary.",
)
