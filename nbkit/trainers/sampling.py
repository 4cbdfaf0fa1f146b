"""What a trainer samples, and what reward functions see of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nbkit.generate import Generation, answer, clear
from nbkit.text.protocols import EncodedProblem, LanguageModel, Problem, Vocabulary
from nbkit.trainers.scoring import Completion

if TYPE_CHECKING:
    from nbkit.trainers.grpo.config import GRPOConfig
    from nbkit.trainers.rlhf.config import RLHFConfig


def sample(
    model: LanguageModel,
    vocabulary: Vocabulary,
    problems: Sequence[Problem | EncodedProblem],
    config: "GRPOConfig | RLHFConfig",
    seeds: Tensor,
) -> Generation:
    """Answer problems as a configuration says.

    Args:
        model: whole on this device, without a wrapper that splits it.
        vocabulary: of prompts and completions.
        problems: P of them.
        config: limit, temperature, group size, precision of the sampler, and whether its memory
            is handed back.
        seeds: (R,) one a completion; R is P times the size of a group.

    """
    made = answer(
        model,
        vocabulary,
        problems,
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        seeds=seeds,
        group_size=config.group_size,
        dtype=torch.bfloat16 if config.sampler_dtype else None,
    )
    if config.release_engine:
        clear(model)
    return made


def as_completions(made: Generation, vocabulary: Vocabulary) -> list[Completion]:
    """What reward functions see of a generation."""
    return [
        Completion(vocabulary.decode(row), len(row), cut, tuple(row))
        for row, cut in zip(made.lists(), made.truncated.tolist(), strict=True)
    ]
