"""What the studies of chapter 22 share: one run of each method on the language world, judged."""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from nbkit.data.encode import EncodedPair, Example
from nbkit.envs.helpful import (
    Pair,
    all_questions,
    demonstrations,
    encode_demonstrations,
    gold_reward,
)
from nbkit.recipes.dpo_recipe import VOCABULARY, Base, ids_of, judged
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers import reward_model as rm
from nbkit.trainers import sft
from nbkit.trainers.dpo import DPOConfig, DPOTrainer, OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.dpo.evaluation import Judgement
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.rlhf import RLHFTrainer
from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.scoring import Completion, RewardFunction

PAIRS = 4000
POINTS = 6  # of a curve, after its start
Curve = list[dict[str, float]]


def generator(seed: int) -> torch.Generator:
    """A fresh source on the CPU."""
    return torch.Generator().manual_seed(seed)


def rounded(numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers with four decimals, which is more than their noise."""
    return {name: round(value, 4) for name, value in numbers.items()}


def worst_decile(made: Judgement) -> float:
    """Mean gold reward of the worst tenth of the answers."""
    assert made.scores is not None
    count = max(1, len(made.scores) // 10)
    return made.scores.sort().values[:count].mean().item()


def mean_proxy(made: Judgement, reward_of: RewardFunction) -> float:
    """Mean score of sampled answers by a reward function."""
    questions = all_questions(held_out=True)
    answers = []
    for ids, length in zip(made.answers, made.lengths.tolist(), strict=True):
        truncated = length == len(ids)
        whole = ids if truncated else [*ids, VOCABULARY.eos_id]
        answers.append(Completion(VOCABULARY.decode(ids), length, truncated, tuple(whole)))
    scores = reward_of([questions[number] for number in made.prompts], answers)
    return sum(float(score) for score in scores) / len(answers)  # type: ignore[arg-type]


def follow(
    policy: Any,
    base: Base,
    seed: int,
    updates: int,
    step: Callable[[], Mapping[str, float]],
    *,
    kept: Sequence[str] = (),
    points: int = POINTS,
    proxy: RewardFunction | None = None,
) -> Curve:
    """Train, and judge the policy's samples before, ``points`` times on the way, and at the end.

    Args:
        policy: what is trained.
        base: with the reference of the divergence.
        seed: of the judge's samples.
        updates: how many steps.
        step: takes one and returns its metrics.
        kept: the metrics to keep at each look.
        points: how many looks.
        proxy: a reward function to score the samples with as well.

    Returns:
        at each look divergence, gold, length, "worst_decile", "proxy", the metrics, and "seconds":
        the processor time of the training alone so far.

    """
    every = max(1, math.ceil(updates / points))
    curve: Curve = []
    seconds = 0.0

    def look(number: int, metrics: Mapping[str, float]) -> None:
        made = judged(policy, base.model, seed=10_000 + seed)
        numbers = {"step": float(number), **made.summary(), "worst_decile": worst_decile(made)}
        if proxy is not None:
            numbers["proxy"] = mean_proxy(made, proxy)
        curve.append(rounded({**numbers, "seconds": seconds, **metrics}))

    look(0, {})
    for number in range(1, updates + 1):
        start = time.process_time()
        metrics = step()
        seconds += time.process_time() - start
        if number % every == 0 or number == updates:
            look(number, {name: metrics[name] for name in kept})
    return curve


LOGGED = ("loss", "accuracy", "margin", "logp_chosen", "logp_rejected")


def run_dpo(
    base: Base,
    pairs: Sequence[Pair],
    config: DPOConfig,
    seed: int,
    *,
    proxy: RewardFunction | None = None,
) -> dict[str, Any]:
    """Train from the base on some pairs.

    Returns:
        "curve": as of ``follow``, with the metrics of the step; "log": five figures of every step.

    """
    policy = copy.deepcopy(base.model)
    trainer = DPOTrainer(
        policy, ids_of(pairs), config, pad_id=VOCABULARY.pad_id, generator=generator(seed)
    )
    curve = follow(policy, base, seed, config.steps, trainer.step, kept=LOGGED, proxy=proxy)
    log = {name: [round(m[name], 4) for m in trainer.history] for name in LOGGED}
    return {"curve": curve, "log": log}


def run_sft(
    base: Base, config: sft.SFTConfig, seed: int, *, proxy: RewardFunction | None = None
) -> dict[str, Any]:
    """Supervised fine-tuning from the base on the chosen answers alone."""
    policy = copy.deepcopy(base.model)
    examples = [Example(pair.prompt_ids, pair.chosen_ids) for pair in ids_of(base.pairs)]
    trainer = sft.SFTTrainer(
        policy, examples, config, pad_id=VOCABULARY.pad_id, generator=generator(seed)
    )
    return {"curve": follow(policy, base, seed, config.steps, trainer.step, proxy=proxy)}


def make_reward_model(
    base: Base, config: rm.RewardModelConfig, seed: int, pairs: Sequence[EncodedPair] | None = None
) -> ScalarModel:
    """A reward model on the base's body, from the pairs of DPO; centred on demonstrations."""
    model = ScalarModel.from_causal(base.model)
    rm.RewardModelTrainer(
        model,
        ids_of(base.pairs) if pairs is None else pairs,
        config,
        pad_id=VOCABULARY.pad_id,
        generator=generator(seed),
    ).run(progress=False)
    examples = encode_demonstrations(demonstrations(500, seed=seed), VOCABULARY)
    rm.centre(model, examples, pad_id=VOCABULARY.pad_id)
    return model


def penalised(reward_of: RewardFunction, penalty: float = 1.0) -> RewardFunction:
    """The same reward, less a penalty for an answer that met the limit."""

    def score(problems: Sequence[Any], completions: Sequence[Completion]) -> list[float]:
        given = reward_of(problems, completions)
        return [
            float(value) - penalty * completion.truncated  # type: ignore[arg-type]
            for value, completion in zip(given, completions, strict=True)
        ]

    return score


def run_ppo(
    base: Base,
    config: RLHFConfig,
    seed: int,
    reward: ScalarModel | None,
    *,
    proxy: RewardFunction | None = None,
) -> dict[str, Any]:
    """PPO from the base; `reward` None: on the gold reward itself."""
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
    return {
        "curve": follow(
            policy, base, seed, config.updates, trainer.step, kept=("reward",), proxy=proxy
        )
    }


def run_sampled(
    base: Base,
    trainer: type[GRPOTrainer] | type[OnlineDPOTrainer],
    config: GRPOConfig | OnlineDPOConfig,
    seed: int,
    reward_of: RewardFunction,
) -> dict[str, Any]:
    """A trainer that samples, from the base on a reward function, which also scores the samples."""
    policy = copy.deepcopy(base.model)
    run = trainer(
        policy,
        VOCABULARY,
        all_questions(False),
        reward_of,
        config,  # type: ignore[arg-type]
        reference=base.model,
        generator=generator(seed),
    )
    return {
        "curve": follow(
            policy, base, seed, run.planned, run.step, kept=("reward",), proxy=reward_of
        )
    }
