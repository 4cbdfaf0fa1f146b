"""What the studies of chapter 22 share: one run of DPO or PPO on the language world."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch

from nbkit.envs.helpful import (
    Pair,
    all_questions,
    demonstrations,
    encode_demonstrations,
    gold_reward,
)
from nbkit.recipes.dpo_recipe import VOCABULARY, Base, ids_of, judged
from nbkit.text.policies_value import ScalarModel
from nbkit.trainers import reward_model as rm
from nbkit.trainers.dpo import DPOConfig, DPOTrainer
from nbkit.trainers.dpo.evaluation import Judgement
from nbkit.trainers.rlhf import RLHFTrainer
from nbkit.trainers.rlhf.config import RLHFConfig

PAIRS = 4000
POINTS = 6  # of a curve, after its start


def generator(seed: int) -> torch.Generator:
    """A fresh source on the CPU."""
    return torch.Generator().manual_seed(seed)


def rounded(numbers: dict[str, float]) -> dict[str, float]:
    """Numbers with four decimals, which is more than their noise."""
    return {name: round(value, 4) for name, value in numbers.items()}


def worst_decile(made: Judgement) -> float:
    """Mean gold reward of the worst tenth of the answers."""
    assert made.scores is not None
    count = max(1, len(made.scores) // 10)
    return made.scores.sort().values[:count].mean().item()


def run_dpo(
    base: Base, pairs: Sequence[Pair], config: DPOConfig, seed: int, points: int = POINTS
) -> dict[str, Any]:
    """Train from the base on some pairs; look at the samples `points` times.

    Returns:
        "curve": at each look the divergence, gold, length of the samples and the metrics of the
        step; "log": four figures of every step.

    """
    policy = copy.deepcopy(base.model)
    trainer = DPOTrainer(
        policy, ids_of(pairs), config, pad_id=VOCABULARY.pad_id, generator=generator(seed)
    )
    every = max(1, math.ceil(config.steps / points))
    curve: list[dict[str, float]] = []

    def look(step: int, metrics: dict[str, float]) -> None:
        made = judged(policy, base.model, seed=10_000 + seed)
        numbers = {**made.summary(), "worst_decile": worst_decile(made)}
        curve.append(rounded({"step": float(step), **numbers, **metrics}))

    look(0, {})
    for step in range(1, config.steps + 1):
        metrics = trainer.step()
        if step % every == 0 or step == config.steps:
            look(step, {name: metrics[name] for name in LOGGED})
    return {
        "curve": curve,
        "log": {name: [round(m[name], 4) for m in trainer.history] for name in LOGGED},
    }


LOGGED = ("loss", "accuracy", "margin", "logp_chosen", "logp_rejected")


def make_reward_model(base: Base, config: rm.RewardModelConfig, seed: int) -> ScalarModel:
    """A reward model on the base's body, from the pairs of DPO; centred on demonstrations."""
    model = ScalarModel.from_causal(base.model)
    pairs = ids_of(base.pairs)
    rm.train(
        model, pairs, config, pad_id=VOCABULARY.pad_id, generator=generator(seed), progress=False
    )
    examples = encode_demonstrations(demonstrations(500, seed=seed), VOCABULARY)
    rm.centre(model, examples, pad_id=VOCABULARY.pad_id)
    return model


def run_ppo(
    base: Base, config: RLHFConfig, seed: int, reward: ScalarModel | None
) -> dict[str, Any]:
    """PPO from the base; `reward` None: on the gold reward itself.

    Returns:
        "curve": as of ``run_dpo``, without the metrics of pairs.

    """
    policy = copy.deepcopy(base.model)
    value = ScalarModel.from_causal(base.model) if reward is None else copy.deepcopy(reward)
    trainer = RLHFTrainer(
        policy,
        VOCABULARY,
        all_questions(False),
        gold_reward if reward is None else rm.reward_function(reward, VOCABULARY),
        config,
        reference=base.model,
        value=value,
        generator=generator(seed),
    )
    every = max(1, math.ceil(config.updates / POINTS))
    curve = [rounded({"step": 0.0, **judged(policy, base.model, seed=10_000 + seed).summary()})]
    for update in range(1, config.updates + 1):
        metrics = trainer.step()
        if update % every == 0 or update == config.updates:
            made = judged(policy, base.model, seed=10_000 + seed)
            curve.append(
                rounded({"step": float(update), **made.summary(), "reward": metrics["reward"]})
            )
    return {"curve": curve}
