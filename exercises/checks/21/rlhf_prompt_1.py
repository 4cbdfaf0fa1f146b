"""rlhf.prompt.1: the loss of supervised fine-tuning, on the answer alone."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

VOCABULARY = 4


PAD = 2  # also the end of sequence, as in many tokenizers


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


CHECK = Check(
    id="rlhf.prompt.1",
    outputs=(Output("loss", "()"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "prompt not masked",
            "positions >= prompt_lengths[:, None]",
            "True",
            "the prompt counts as well: the model is then taught to write questions too, "
            "and in most data sets the prompts have more tokens than the answers",
        ),
        edit(
            "pads counted",
            "attention &",
            "torch.ones_like(attention) &",
            "`attention` has no effect: pads behind the answer are learned, and there may "
            "be more of them than of real tokens",
        ),
        edit(
            "end of sequence lost",
            "counted = (attention &",
            "counted = (attention & (ids != 2) &",
            "the end of sequence is left out, because its id is that of the pad: the "
            "model never learns to stop. Read pads from `attention`, not from the id",
        ),
        edit(
            "first answer token lost",
            "= p",
            " p",
            "the mask is shifted by one to the right, so the first answer token is lost: "
            "the logits at t - 1 score the token at t, and the mask belongs to the token",
        ),
        edit(
            "last prompt token counted",
            "positions >= prompt_lengths",
            "torch.arange(ids.shape[1])[None, :] >= (prompt_lengths - 1)",
            "the mask is shifted by one to the left, so the last prompt token counts: the "
            "logits at t - 1 score the token at t, and the mask belongs to the token",
        ),
        edits(
            "logits not shifted",
            ("[:, None]))[:, 1:]", "[:, None]))"),
            ("logits[:, :-1]", "logits"),
            ("ids[:, 1:, None]", "ids[:, :, None]"),
            message="the logits at t score the token at t, which the model has already read: they "
            "are its prediction of the token at t + 1",
        ),
        edit(
            "mean of means",
            "-torch.where(counted, logp, 0.0).sum() / counted.sum().clamp(min=1)",
            "-(torch.where(counted, logp, 0.0).sum(1) / counted.sum(1).clamp(min=1)).mean()",
            "each row is averaged by itself and then the rows: a token of a short answer "
            "then weighs more than one of a long answer. Divide one sum by one number of "
            "tokens",
        ),
        edit(
            "sum",
            " / counted.sum().clamp(min=1)",
            "",
            "this is the sum over the answer tokens; divide by their number",
        ),
        edit(
            "divided by all positions",
            ".sum() / counted.sum().clamp(min=1)",
            ".mean()",
            "the sum is divided by all positions, so longer prompts make a smaller loss; "
            "divide by the number of answer tokens",
        ),
        edit(
            "minus sign missing",
            "return -torch",
            "return torch",
            "the sign is opposite: surprise is minus the log-probability",
        ),
        edit(
            "nan without an answer",
            "-torch.where(counted, logp, 0.0).sum() / counted.sum().clamp(min=1)",
            "-logp[counted].mean()",
            "a batch without an answer token gives nan: the mean of nothing. Divide by at least 1",
        ),
        edit(
            "mask upside down",
            ">= p",
            "< p",
            "this is the loss of the prompts: the mask is upside down",
        ),
        edit(
            "logarithm of a softmax",
            ".log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)",
            ".softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).log()",
            "log of softmax is -inf where a probability underflows: use `log_softmax`",
        ),
    ),
    not_tested="left padding, dialogues in which several turns are answers, and learning.",
    gradient_to=("logits",),
    wide=("logits",),
)
