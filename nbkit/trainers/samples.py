"""Samples for a person to read: from the batch that was trained on, or asked for in between."""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nbkit.generate import answer, clear
from nbkit.generate.weights import causal
from nbkit.parallel import Parallel
from nbkit.runs.samples import Sample
from nbkit.text.adapters import merged
from nbkit.text.protocols import EncodedProblem, Problem, Vocabulary, prompt_ids
from nbkit.trainers.scoring import Note

if TYPE_CHECKING:
    from nbkit.trainers.grpo.batch import GroupBatch
    from nbkit.trainers.rlhf.batch import RLHFBatch


def noted_samples(
    batch: "GroupBatch | RLHFBatch | None",
    notes: Sequence[Note],
    vocabulary: Vocabulary,
    count: int,
) -> list[Sample]:
    """Samples of rows that are spread evenly over a batch.

    Args:
        batch: that was trained on; None: there was none yet, and there are no samples.
        notes: one a row; of rows that were thrown away, where the batch is empty.
        vocabulary: of its ids.
        count: at most so many.

    """
    if batch is None:
        return []
    advantages, mask = batch.advantages, batch.mask
    most = min(count, len(notes))
    rows = [index * (len(notes) - 1) // max(1, most - 1) for index in range(most)]
    found = []
    for row in rows:
        one, advantage = notes[row], None
        if len(mask) and mask[row].any():
            advantage = advantages[row][mask[row]].mean().item()
        found.append(
            Sample(
                prompt=prompt_text(one.problem, vocabulary),
                text=vocabulary.decode(one.ids),
                reward=None if math.isnan(one.reward) else one.reward,
                parts=dict(one.parts),
                advantage=advantage,
            )
        )
    return found


def prompt_text(problem: Problem | EncodedProblem, vocabulary: Vocabulary) -> str:
    """The prompt as text, decoded where a problem holds ids alone; a turn of a chat ends a line."""
    text = getattr(problem, "prompt", None)
    if isinstance(text, str):
        return text
    eos = vocabulary.eos_id
    ends = {eos} if isinstance(eos, int) else set(eos)
    turns: list[list[int]] = [[]]
    for token in prompt_ids(problem, vocabulary):
        if token in ends:
            turns.append([])
        else:
            turns[-1].append(token)
    return "\n".join(vocabulary.decode(turn) for turn in turns if turn)


def answers(
    parallel: Parallel,
    vocabulary: Vocabulary,
    problems: Sequence[Problem | EncodedProblem],
    *,
    max_new_tokens: int,
    dtype: torch.dtype | None = None,
) -> Callable[[], list[Sample]]:
    """What answers some prompts greedily, for the ``samples`` of ``fit``.

    For training on pairs or examples, which samples nothing by itself. It draws no random number.

    Args:
        parallel: of the model; every rank must call the result, and each gets all answers.
        vocabulary: of prompts and answers.
        problems: a few; those of a job are held out.
        max_new_tokens: limit of an answer.
        dtype: of the sampler's copy of the weights; None: the weights as they are.

    """

    def ask() -> list[Sample]:
        with parallel.gathered() as whole, merged(whole):
            sampler = causal(whole)
            made = answer(
                sampler, vocabulary, problems,
                max_new_tokens=max_new_tokens, temperature=0.0, dtype=dtype,
            )  # fmt: skip
            clear(sampler)
        return [
            Sample(prompt_text(problem, vocabulary), vocabulary.decode(row))
            for problem, row in zip(problems, made.lists(), strict=True)
        ]

    return ask


def batch_as_data(batch: Any, **beside: Any) -> dict[str, Any]:
    """The tensors of a batch on the CPU, and plain data, as ``torch.load`` reads them safely.

    Args:
        batch: a dataclass or NamedTuple of tensors.
        beside: more tensors and numbers, by name.

    """
    names = getattr(batch, "_fields", None) or [field.name for field in fields(batch)]
    found = {name: getattr(batch, name) for name in names} | beside
    return {
        name: value.detach().cpu() if isinstance(value, Tensor) else value
        for name, value in found.items()
    }
