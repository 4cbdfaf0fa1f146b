"""rlhf.prompt.1: the loss of supervised fine-tuning, on the answer alone."""

import math

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

VOCABULARY = 4
PAD = 2  # also the end of sequence, as in many tokenizers


def sft_loss(logits: Tensor, ids: Tensor, attention: Tensor, prompt_lengths: Tensor) -> Tensor:
    """Mean surprise over the answer tokens of all rows."""
    counted = _answers(ids, attention, prompt_lengths)[:, 1:]
    surprise = -_own(logits[:, :-1], ids[:, 1:])
    return torch.where(counted, surprise, 0.0).sum() / counted.sum().clamp(min=1)


def _answers(ids: Tensor, attention: Tensor, prompt_lengths: Tensor) -> Tensor:
    positions = torch.arange(ids.shape[1])[None, :]
    return (positions >= prompt_lengths[:, None]) & attention


def _own(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)


def oracle(
    logits: list[list[list[float]]],
    ids: list[list[int]],
    attention: list[list[bool]],
    prompt_lengths: list[int],
) -> float:
    """Token by token."""
    terms = []
    for row, tokens, real, prompt in zip(logits, ids, attention, prompt_lengths, strict=True):
        for t in range(max(prompt, 1), len(tokens)):
            if real[t]:
                before = row[t - 1]
                top = max(before)
                total = top + math.log(math.fsum(math.exp(x - top) for x in before))
                terms.append(total - before[tokens[t]])
    return math.fsum(terms) / max(1, len(terms))


def cases(draw: Draw) -> Case:
    """Right-padded rows, each with its own prompt and its own length."""
    rows, columns = draw.dimension(), draw.dimension(3)
    prompts = [draw.integer(1, columns - 1) for _ in range(rows)]
    lengths = [draw.integer(prompt, columns) for prompt in prompts]
    inputs = {
        "logits": draw.normal(rows, columns, VOCABULARY),
        "ids": draw.integers(0, VOCABULARY - 1, rows, columns),
        "attention": torch.arange(columns)[None, :] < torch.tensor(lengths)[:, None],
        "prompt_lengths": torch.tensor(prompts),
    }
    inputs["ids"] = torch.where(inputs["attention"], inputs["ids"], PAD)
    return Case(f"{rows} × {columns}", inputs)


def edges() -> tuple[Case, ...]:
    """One answer token, an answer that ends, rows of unequal length, no answer, huge logits."""
    draw = Draw(21)

    def case(name: str, ids: list[list[int]], prompts: list[int], real: list[int], **how) -> Case:  # type: ignore[no-untyped-def]
        tokens = torch.tensor(ids)
        rows, columns = tokens.shape
        logits = draw.normal(rows, columns, VOCABULARY) * how.get("scale", 1.0)
        return Case(
            name,
            {
                "logits": logits,
                "ids": tokens,
                "attention": torch.arange(columns)[None, :] < torch.tensor(real)[:, None],
                "prompt_lengths": torch.tensor(prompts),
            },
            gradient=how.get("scale", 1.0) == 1.0,
        )

    return (
        case("one prompt token, one answer token", [[0, 3]], [1], [2]),
        case("the answer ends", [[0, 1, 3, 2]], [2], [4]),
        case("a pad behind the end", [[0, 1, 3, 2, 2]], [2], [5 - 1]),
        case("rows of unequal length", [[0, 1, 3, 2], [1, 3, 2, 2]], [1, 2], [4, 3]),
        case("a row without an answer", [[0, 1, 3], [0, 1, 2]], [3, 2], [3, 3]),
        case("no answer at all", [[0, 1, 2]], [2], [2]),
        case("a long answer", [[0, 1, 1, 0, 3, 1, 2]], [2], [7]),
        case("huge logits", [[0, 1, 3, 2]], [2], [4], scale=1e3),
    )


def _with(counted: Tensor, logits: Tensor, ids: Tensor) -> Tensor:
    surprise = -_own(logits[:, :-1], ids[:, 1:])
    return torch.where(counted, surprise, 0.0).sum() / counted.sum().clamp(min=1)


def _whole(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return _with(attention[:, 1:], logits, ids)


def _pads(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return sft_loss(logits, ids, torch.ones_like(attention), prompts)


def _end_lost(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return _with((_answers(ids, attention, prompts) & (ids != PAD))[:, 1:], logits, ids)


def _mask_late(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return _with(_answers(ids, attention, prompts)[:, :-1] & attention[:, 1:], logits, ids)


def _mask_early(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return _with(_answers(ids, attention, prompts - 1)[:, 1:] & attention[:, 1:], logits, ids)


def _logits_not_shifted(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    counted = _answers(ids, attention, prompts)
    return torch.where(counted, -_own(logits, ids), 0.0).sum() / counted.sum().clamp(min=1)


def _mean_of_rows(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    counted = _answers(ids, attention, prompts)[:, 1:]
    surprise = torch.where(counted, -_own(logits[:, :-1], ids[:, 1:]), 0.0)
    return (surprise.sum(1) / counted.sum(1).clamp(min=1)).mean()


def _sum(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    counted = _answers(ids, attention, prompts)[:, 1:]
    return torch.where(counted, -_own(logits[:, :-1], ids[:, 1:]), 0.0).sum()


def _over_all(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    counted = _answers(ids, attention, prompts)[:, 1:]
    return torch.where(counted, -_own(logits[:, :-1], ids[:, 1:]), 0.0).mean()


def _no_minus(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return -sft_loss(logits, ids, attention, prompts)


def _nan(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return -_own(logits[:, :-1], ids[:, 1:])[_answers(ids, attention, prompts)[:, 1:]].mean()


def _prompt_only(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    return _with((~_answers(ids, attention, prompts) & attention)[:, 1:], logits, ids)


def _logarithm(logits: Tensor, ids: Tensor, attention: Tensor, prompts: Tensor) -> Tensor:
    counted = _answers(ids, attention, prompts)[:, 1:]
    chosen = logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return torch.where(counted, -chosen.log(), 0.0).sum() / counted.sum().clamp(min=1)


PROMPT = Exercise(
    id="rlhf.prompt.1",
    title="The loss of an answer",
    chapter=21,
    difficulty=2,
    minutes=20,
    goal=(
        "The mean surprise -log p over the answer tokens of a batch, the end of sequence "
        "included, prompt and pads left out; 0 where there is no answer token."
    ),
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=sft_loss,
    gradient_to=("logits",),
    mutants=(
        Mutant(
            "prompt not masked",
            _whole,
            "the prompt counts as well: the model is then taught to write questions too, and in "
            "most data sets the prompts have more tokens than the answers",
        ),
        Mutant(
            "pads counted",
            _pads,
            "`attention` has no effect: pads behind the answer are learned, and there may be "
            "more of them than of real tokens",
        ),
        Mutant(
            "end of sequence lost",
            _end_lost,
            "the end of sequence is left out, because its id is that of the pad: the model never "
            "learns to stop. Read pads from `attention`, not from the id",
        ),
        Mutant(
            "first answer token lost",
            _mask_late,
            "the mask is shifted by one to the right, so the first answer token is lost: the "
            "logits at t - 1 score the token at t, and the mask belongs to the token",
        ),
        Mutant(
            "last prompt token counted",
            _mask_early,
            "the mask is shifted by one to the left, so the last prompt token counts: the logits "
            "at t - 1 score the token at t, and the mask belongs to the token",
        ),
        Mutant(
            "logits not shifted",
            _logits_not_shifted,
            "the logits at t score the token at t, which the model has already read: they are its "
            "prediction of the token at t + 1",
        ),
        Mutant(
            "mean of means",
            _mean_of_rows,
            "each row is averaged by itself and then the rows: a token of a short answer then "
            "weighs more than one of a long answer. Divide one sum by one number of tokens",
        ),
        Mutant("sum", _sum, "this is the sum over the answer tokens; divide by their number"),
        Mutant(
            "divided by all positions",
            _over_all,
            "the sum is divided by all positions, so longer prompts make a smaller loss; divide "
            "by the number of answer tokens",
        ),
        Mutant(
            "minus sign missing",
            _no_minus,
            "the sign is opposite: surprise is minus the log-probability",
        ),
        Mutant(
            "nan without an answer",
            _nan,
            "a batch without an answer token gives nan: the mean of nothing. Divide by at least 1",
        ),
        Mutant(
            "mask upside down",
            _prompt_only,
            "this is the loss of the prompts: the mask is upside down",
        ),
        Mutant(
            "logarithm of a softmax",
            _logarithm,
            "log of softmax is -inf where a probability underflows: use `log_softmax`",
        ),
    ),
    not_tested="left padding, dialogues in which several turns are answers, and learning.",
)
