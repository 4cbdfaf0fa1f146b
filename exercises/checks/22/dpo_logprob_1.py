"""dpo.logprob.1: the log-probability of an answer."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="dpo.logprob.1",
    outputs=(Output("logprob", "(B,)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the prompt counts",
            "    logp = torch.log_softmax",
            "    mask = mask.flip(1).int().cummax(1).values.flip(1).bool()  # up to the "
            "last token\n"
            "    logp = torch.log_softmax",
            "the tokens of the prompt are scored as well: only those under the mask count",
        ),
        edit(
            "the padding counts",
            "    logp = torch.log_softmax",
            "    mask = mask.int().cummax(1).values.bool()  # from the first token on\n"
            "    logp = torch.log_softmax",
            "the padding behind the answer is scored as well: only tokens under the mask count",
        ),
        edit(
            "no mask",
            "torch.where(mask[:, 1:], chosen, 0.0)",
            "chosen",
            "the mask is never used: prompt and padding are scored as well",
        ),
        edits(
            "a token scored by its own logits",
            ("logits[:, :-1]", "logits"),
            ("ids[:, 1:, None]", "ids[:, :, None]"),
            ("mask[:, 1:]", "mask"),
            message="each token is scored by the logits at its own place, which have already read "
            "it: logits[:, t] predicts ids[:, t+1]",
        ),
        edit(
            "the first token of the answer is lost",
            "mask[:, 1:]",
            "mask[:, 1:] & mask[:, :-1]",
            "the first token of the answer is not scored: the last position of the prompt "
            "predicts it, so shift logits, ids and mask together",
        ),
        edit(
            "the mask is not shifted",
            "[:, 1:], chosen",
            "[:, :-1], torch.log_softmax(logits[:, :-1], -1).gather(2, ids[:, 1:, "
            "None]).squeeze(2)",
            "the mask is used one place early, so that the last token is lost and one of "
            "the prompt counts: with ids[:, 1:] goes mask[:, 1:]",
        ),
        edit(
            "mean",
            "(dim=1)",
            "(dim=1) / mask[:, 1:].sum(1).clamp(min=1)",
            "the result is a mean over the tokens: an answer's probability is a product, "
            "so its logarithm is the sum",
        ),
        edit(
            "probabilities are added",
            "log_softmax",
            "softmax",
            "probabilities are summed; take their logarithms",
        ),
        edit(
            "raw logits",
            "logp.",
            "logits.",
            "the logits themselves are summed: they are log-probabilities only after log_softmax",
        ),
        edit(
            "the end does not count",
            "    logp = torch.log_softmax",
            "    mask = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1) & "
            "mask\n"
            "    logp = torch.log_softmax",
            "the last token of the answer is not scored: it is the EOS, and to stop is a decision",
        ),
        edit(
            "product with the mask",
            "torch.where(mask[:, 1:], chosen, 0.0)",
            "(chosen * mask[:, 1:])",
            "multiplying by the mask leaves nan (0 · nan is nan): choose with `torch.where`",
        ),
        edit(
            "minus",
            "torch.where",
            "-torch.where",
            "the sign is opposite: a log-probability is negative, a loss comes later",
        ),
        edit(
            "log of a softmax",
            "torch.log_softmax(logits[:, :-1], dim=-1)",
            "logits[:, :-1].exp()\n    logp = (logp / logp.sum(-1, keepdim=True)).log()",
            "exp of the logits overflows, or a probability becomes 0 and its log -inf: "
            "use log_softmax",
        ),
    ),
    not_tested="the tokenizer, and speed with a large vocabulary.",
    gradient_to=("logits",),
    wide=("logits",),
    holed=("mask",),
)
