"""The code task of chapter 23 end to end: lessons with planted habits, then tests as the reward."""

from collections.abc import Sequence
from typing import Any

import torch

from nbkit.envs.expressions import (
    CodeRewards,
    ExpressionVocabulary,
    FunctionTask,
    code_corpus,
    draw_tasks,
)
from nbkit.generate import answer
from nbkit.recipes.grpo_recipe import teach
from nbkit.text.protocols import LanguageModel
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.variants import variant
from nbkit.trainers.sampling import as_completions

VOCABULARY = ExpressionVocabulary()
LIMIT = 40  # tokens; the longest body of the corpus has 29 and an EOS
BODY: dict[str, Any] = {"width": 64, "layers": 2, "heads": 4, "rope_base": 100.0}
TASKS = 400  # so few that programs come again, and their verdicts are known


def taught_coder(seed: int, *, faulty: float = 0.4, lessons: int = 350, device: str = "cpu") -> Any:
    """A tiny model that has read 20,000 bodies, of whose lines a share `faulty` is a habit's.

    Args:
        seed: of weights, corpus and minibatches.
        faulty: planted chance of a fault in each line.
        lessons: supervised steps.
        device: where it is trained.

    """
    model = tiny_model(VOCABULARY, seed=seed, **BODY).to(device)
    examples = code_corpus(20_000, seed=seed, faulty=faulty)
    teach(model, VOCABULARY, examples, steps=lessons, batch_size=32, learning_rate=8e-3, seed=seed)
    return model


def code_config(**changes: Any) -> GRPOConfig:
    """GRPO without KL: 16 tasks with 8 programs each, 40 updates."""
    settings = {"updates": 40, "prompts": 16, "group_size": 8, "max_new_tokens": LIMIT}
    return variant("grpo", **{**settings, "learning_rate": 1e-3, "kl_coefficient": 0.0, **changes})


def evaluate_code(
    model: LanguageModel, tasks: Sequence[FunctionTask], rewards: CodeRewards, *, seed: int = 0
) -> dict[str, float]:
    """Write one program for each task at temperature 1 and judge it.

    Returns:
        "accuracy" (share that pass all tests), "share" (mean share of tests), "length" (tokens).

    """
    made = answer(model, VOCABULARY, tasks, max_new_tokens=LIMIT, seeds=seed)
    parts = [reward.parts for reward in rewards(tasks, as_completions(made, VOCABULARY))]
    return {
        "accuracy": sum(part["correct"] for part in parts) / len(tasks),
        "share": sum(part["share"] for part in parts) / len(tasks),
        "length": made.lengths.float().mean().item(),
    }


def code_trainer(
    model: LanguageModel, rewards: CodeRewards, seed: int, *, tasks: int = TASKS, **changes: Any
) -> GRPOTrainer:
    """A trainer on tasks of one to three steps."""
    device = next(model.parameters()).device
    return GRPOTrainer(
        model,
        VOCABULARY,
        draw_tasks(tasks, seed=seed),
        rewards,
        code_config(**changes),
        generator=torch.Generator(device).manual_seed(seed),
    )
