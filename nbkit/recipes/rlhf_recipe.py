"""The pipeline of chapter 21 in three calls, with the numbers that its runs use."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbkit._inputs import check_choice
from nbkit.data.encode import EncodedPair
from nbkit.envs.helpful import (
    HelpfulVocabulary,
    Pair,
    all_questions,
    demonstrations,
    encode_demonstrations,
    encode_pairs,
    gold_reward,
    policy_sampler,
    preference_pairs,
)
from nbkit.text.protocols import PretrainedModel
from nbkit.text.scalar_models import ScalarModel, SharedActorCritic
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers import reward_model, sft
from nbkit.trainers.reward_model import RewardModelConfig
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.sft import SFTConfig

VALUE_STARTS = ("reward-model", "policy", "random", "shared")


@dataclass(frozen=True)
class Recipe:
    """Numbers of the pipeline.

    Attributes:
        body: arguments of ``nbkit.text.tiny_models.tiny_model``.
        demonstrations: how many stage 1 learns from.
        sft: settings of stage 1.
        pairs: how many comparisons stage 2 learns from.
        held_out: comparisons that it is judged by.
        reward_model: settings of stage 2; its steps are at most three epochs of the pairs.
        rlhf: settings of stage 3.
        value: what the value model starts as: a copy of the "reward-model", the "policy"'s body
            with a zero head, "random" weights, or a head on the policy's own trunk ("shared").

    """

    body: Mapping[str, Any] = field(
        default_factory=lambda: {"width": 64, "layers": 2, "heads": 4, "max_length": 64}
    )
    demonstrations: int = 4000
    sft: SFTConfig = field(
        default_factory=lambda: SFTConfig(steps=250, batch_size=32, learning_rate=1e-2)
    )
    pairs: int = 4000
    held_out: int = 500
    reward_model: RewardModelConfig = field(
        default_factory=lambda: RewardModelConfig(steps=375, batch_size=32, learning_rate=3e-3)
    )
    rlhf: RLHFConfig = field(
        default_factory=lambda: RLHFConfig(
            updates=60, kl_coefficient=0.05, missing_eos_penalty=1.0, learning_rate=1e-3
        )
    )
    value: str = "reward-model"

    def __post_init__(self) -> None:
        check_choice("value", self.value, VALUE_STARTS)

    def reward_model_steps(self) -> RewardModelConfig:
        """Settings of stage 2 for this number of pairs: at least 20 steps, at most 3 epochs."""
        epochs = -(-3 * self.pairs // self.reward_model.batch_size)
        return replace(self.reward_model, steps=min(self.reward_model.steps, max(20, epochs)))


def stage_one(recipe: Recipe, *, seed: int, progress: bool = False) -> Any:
    """Return an SFT policy, made from nothing."""
    vocabulary = HelpfulVocabulary()
    model = tiny_model(vocabulary, seed=seed, **recipe.body)
    examples = encode_demonstrations(demonstrations(recipe.demonstrations, seed=seed), vocabulary)
    sft.SFTTrainer(
        model, examples, recipe.sft, pad_id=vocabulary.pad_id, generator=_generator(seed)
    ).run(progress=progress)
    return model


def comparisons(
    recipe: Recipe, policy: PretrainedModel, *, seed: int
) -> tuple[list[Pair], list[Pair]]:
    """Return pairs to learn from and held-out ones, both sampled from the SFT policy."""
    sampler = policy_sampler(policy, HelpfulVocabulary(), max_new_tokens=recipe.rlhf.max_new_tokens)
    return (
        preference_pairs(recipe.pairs, seed=seed, sampler=sampler),
        preference_pairs(recipe.held_out, seed=seed + 10_000, sampler=sampler),
    )


@dataclass(frozen=True)
class Proxy:
    """A reward model and how good it is.

    Attributes:
        model: centred on demonstrations.
        history: of its training.
        accuracy: on held-out comparisons, as they were labelled.
        loss: there, nats a pair.
        gold_accuracy: how often it agrees with the judge without the noise of the labels.
        held_out: the comparisons.

    """

    model: ScalarModel
    history: list[dict[str, float]]
    accuracy: float
    loss: float
    gold_accuracy: float
    held_out: list[EncodedPair]


def stage_two(
    recipe: Recipe,
    body: PretrainedModel,
    pairs: Sequence[Pair],
    held_out: Sequence[Pair],
    *,
    seed: int,
    progress: bool = False,
) -> Proxy:
    """Return a reward model that starts from a language model's body.

    Args:
        recipe: settings.
        body: an SFT policy, of any size.
        pairs: to learn from.
        held_out: to judge it by.
        seed: of the order of the pairs.
        progress: show a text progress bar.

    """
    vocabulary = HelpfulVocabulary()
    pad = vocabulary.pad_id
    model = ScalarModel.from_causal(body)
    judged = encode_pairs(held_out, vocabulary)
    history = reward_model.RewardModelTrainer(
        model,
        encode_pairs(pairs, vocabulary),
        recipe.reward_model_steps(),
        pad_id=pad,
        generator=_generator(seed),
    ).run(progress=progress)
    examples = encode_demonstrations(demonstrations(500, seed=seed), vocabulary)
    reward_model.centre(model, examples, pad_id=pad)
    result = reward_model.evaluate(model, judged, pad_id=pad)
    gaps = reward_model.margins(model, judged, pad_id=pad).tolist()
    agree = [
        (gap > 0) == (pair.gold_chosen > pair.gold_rejected)
        for gap, pair in zip(gaps, held_out, strict=True)
    ]
    return Proxy(
        model, history, result["accuracy"], result["loss"], sum(agree) / len(agree), judged
    )


def stage_three(
    recipe: Recipe, policy: PretrainedModel, proxy: ScalarModel, *, seed: int
) -> RLHFTrainer:
    """Return a trainer whose policy is a copy of the SFT policy; the judge only watches.

    Args:
        recipe: settings.
        policy: of stage 1; also the reference.
        proxy: of stage 2; frozen here.
        seed: of prompts and sampling.

    """
    vocabulary = HelpfulVocabulary()
    student: PretrainedModel | SharedActorCritic = copy.deepcopy(policy)
    value: ScalarModel | None = None
    if recipe.value == "shared":
        student = SharedActorCritic(copy.deepcopy(policy), seed=seed)
    elif recipe.value == "reward-model":
        value = copy.deepcopy(proxy)
    elif recipe.value == "policy":
        value = ScalarModel.from_causal(policy)
    else:
        fresh = tiny_model(vocabulary, seed=seed + 1, **recipe.body)
        value = ScalarModel.from_causal(fresh, head="random", seed=seed)
    return RLHFTrainer(
        student,
        vocabulary,
        all_questions(held_out=False),
        reward_model.reward_function(proxy, vocabulary),
        recipe.rlhf,
        reference=policy,
        value=value,
        monitors={"gold": gold_reward},
        generator=_generator(seed),
    )


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
