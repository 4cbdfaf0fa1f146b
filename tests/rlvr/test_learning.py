"""From nothing to a policy that has learned from the verifier, by GRPO and by PPO."""

import copy

import pytest
import torch

from nbkit.envs.arithmetic import ArithmeticVocabulary, corpus, draw_sums
from nbkit.recipes.grpo_recipe import evaluate, teach, verifier
from nbkit.text.scalar_models import ScalarModel
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer, variant
from nbkit.trainers.rlhf import RLHFTrainer
from nbkit.trainers.rlhf.config import RLHFConfig

pytestmark = [pytest.mark.slow, pytest.mark.chapter(24)]

VOCABULARY = ArithmeticVocabulary()
PAIRS = {"seed": 0, "terms": (2, 2)}
ASKED = draw_sums(400, seed=1000, held_out=True, terms=(2, 2))


@pytest.fixture(scope="module")
def taught():
    """A model with a planted fault, and its accuracy; settings tried on seed 100 (.62)."""
    model = tiny_model(VOCABULARY, width=48, layers=2, heads=4, rope_base=100.0, seed=0)
    teach(
        model, VOCABULARY, corpus(6000, forget=0.75, **PAIRS),
        steps=300, batch_size=32, learning_rate=8e-3, seed=0,
    )  # fmt: skip
    before = judged(model)
    assert 0.4 < before["accuracy"] < 0.8  # of 400: standard error .024
    return model, before


def judged(model):
    return evaluate(model, VOCABULARY, ASKED, max_new_tokens=24)


def test_grpo_learns_from_the_verifier(taught):
    """On seed 100 accuracy went from .62 to .83; the seed here is another."""
    model, before = copy.deepcopy(taught[0]), taught[1]
    history = GRPOTrainer(
        model,
        VOCABULARY,
        draw_sums(4000, **PAIRS),
        verifier,
        variant("grpo", updates=30, learning_rate=1e-3, max_new_tokens=24, kl_coefficient=0.0),
        generator=torch.Generator().manual_seed(0),
    ).run(progress=False)
    after = judged(model)
    assert after["accuracy"] > before["accuracy"] + 0.12
    assert after["format"] > 0.97
    assert history[-1]["reward/correct"] > history[0]["reward/correct"]


def test_ppo_learns_from_the_same_verifier_in_the_place_of_a_reward_model(taught):
    """Chapter 21's trainer with one argument changed; .62 to .83 on seed 100."""
    model, before = copy.deepcopy(taught[0]), taught[1]
    config = RLHFConfig(
        updates=30, prompts=128, max_new_tokens=24, kl_coefficient=0.005, epochs=1,
        minibatches=2, learning_rate=1e-3, value_learning_rate=2e-3,
    )  # fmt: skip
    trainer = RLHFTrainer(
        model, VOCABULARY, draw_sums(4000, **PAIRS), verifier, config,
        reference=taught[0], value=ScalarModel.from_causal(taught[0]),
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    history = trainer.run(progress=False)
    after = judged(model)
    assert after["accuracy"] > before["accuracy"] + 0.12
    assert history[-1]["reward"] > history[0]["reward"]
