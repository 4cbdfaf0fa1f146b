"""Two-digit sums for a pretrained model: four worked examples, a question, one line of answer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbkit.generate import clear, generate
from nbkit.text.protocols import LanguageModel, Tokenizer, Vocabulary

TOKENS = 12
SHOTS = 4


@dataclass(frozen=True)
class Question:
    """A problem of the trainers.

    Attributes:
        prompt: the examples and the question.
        answer: the right sum.

    """

    prompt: str
    answer: str


class LineVocabulary:
    """A tokenizer whose answers end with the line.

    Args:
        tokenizer: of transformers; a newline may be of several tokens, each ends an answer.

    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer: Any = tokenizer
        lines = [i for i in range(len(self.tokenizer)) if self.tokenizer.decode([i]) == "\n"]
        ends = [*lines, tokenizer.eos_token_id]
        self.eos_id = tuple(number for number in ends if number is not None)
        self.pad_id = self.eos_id[-1] if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def encode(self, text: str) -> list[int]:
        """Ids without special tokens."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to the end of the line."""
        ids = list(ids)
        end = next((place for place, one in enumerate(ids) if one in self.eos_id), len(ids))
        text: str = self.tokenizer.decode(ids[:end])
        return text


def questions(count: int, seed: int, shots: int = SHOTS) -> list[Question]:
    """Draw sums of two numbers from 10 to 99, each behind worked examples of its own."""
    draw = random.Random(seed)

    def pair() -> tuple[int, int]:
        return draw.randint(10, 99), draw.randint(10, 99)

    made = []
    for _ in range(count):
        shown = "".join(
            f"Q: {a} + {b} = ?\nA: {a + b}\n" for a, b in (pair() for _ in range(shots))
        )
        a, b = pair()
        made.append(Question(f"{shown}Q: {a} + {b} = ?\nA:", str(a + b)))
    return made


def right(asked: Sequence[Question], completions: Sequence[Any]) -> list[float]:
    """1 for the sum and nothing else on the line, 0 for anything else."""
    return [
        float(completion.text.strip() == question.answer)
        for question, completion in zip(asked, completions, strict=True)
    ]


@torch.no_grad()
def judged(
    model: LanguageModel, vocabulary: Vocabulary, asked: Sequence[Question], *, seed: int
) -> dict[str, Any]:
    """Answer each question greedily and once at temperature 1, in bfloat16.

    Returns:
        "greedy" and "sampled" (shares of right answers), "texts" (greedy answers to the first
        four).

    """
    found: dict[str, Any] = {}
    for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
        made = generate(
            model, [vocabulary.encode(question.prompt) for question in asked],
            max_new_tokens=TOKENS, temperature=temperature, eos_ids=vocabulary.eos_id,
            pad_id=vocabulary.pad_id, seeds=seed, max_batch=256, dtype=torch.bfloat16,
        )  # fmt: skip
        texts = [vocabulary.decode(row) for row in made.lists()]
        pairs = zip(texts, asked, strict=True)
        found[name] = sum(text.strip() == one.answer for text, one in pairs) / len(asked)
        found["texts"] = texts[:4]
    clear(model)
    return found
