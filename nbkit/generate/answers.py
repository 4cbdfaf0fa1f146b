"""``generate`` for problems: a vocabulary makes the ids and says where an answer ends."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit.generate.engine import generate
from nbkit.generate.result import Generation
from nbkit.text.protocols import EncodedProblem, LanguageModel, Problem, Vocabulary, prompt_ids


def answer(
    model: LanguageModel,
    vocabulary: Vocabulary,
    problems: Sequence[Problem | EncodedProblem],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    seeds: int | Tensor | torch.Generator = 0,
    group_size: int = 1,
    max_batch: int | None = None,
    dtype: torch.dtype | None = None,
) -> Generation:
    """Answer each problem ``group_size`` times.

    Args:
        model: see ``generate``, as for all but the next two.
        vocabulary: of prompts and answers; its EOS ends an answer.
        problems: P of them; as ids where they hold ids, else as text.
        max_new_tokens: limit of an answer.
        temperature: 0 is greedy.
        seeds: one, one a row (P times ``group_size``), or a generator.
        group_size: answers to each problem, which stand together.
        max_batch: slots.
        dtype: of the computation.

    """
    return generate(
        model,
        [prompt_ids(problem, vocabulary) for problem in problems],
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        eos_ids=vocabulary.eos_id,
        pad_id=vocabulary.pad_id,
        seeds=seeds,
        group_size=group_size,
        max_batch=max_batch,
        dtype=dtype,
    )
