"""The arms of a comparison on film reviews: one frozen base, several ways to tune a copy of it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from nbkit.envs.reviews import reviews
from nbkit.rewards.text import sentiment
from nbkit.text.environment import TextEnv
from nbkit.text.metrics import judge
from nbkit.text.policies import LSTMPolicy, TextPolicy, TransformerPolicy, make_policy
from nbkit.text.protocols import TextVocabulary
from nbkit.text.rollouts import rollout
from nbkit.trainers.pretraining import pretrain
from nbkit.trainers.reinforce import ReinforceConfig, train

CURVES = ("return", "length", "entropy", "perplexity", "distinct_2", "kl")
EVALUATION_TEXTS = 512


@dataclass(frozen=True)
class Arm:
    """One way to tune.

    Attributes:
        body: key of the base policy that it starts from.
        reward: terminal reward of the environment.
        changes: fields of ``ReinforceConfig`` that differ from the common settings.

    """

    body: str
    reward: Callable[[str], float]
    changes: Mapping[str, Any] = field(default_factory=dict)


def pretrained(
    kind: str,
    vocabulary: TextVocabulary,
    *,
    seed: int,
    steps: int,
    learning_rate: float,
    sizes: Mapping[str, int],
) -> LSTMPolicy | TransformerPolicy:
    """Return a policy trained on 8,000 reviews by maximum likelihood; all randomness from seed."""
    torch.manual_seed(seed)
    policy = make_policy(kind, len(vocabulary), **sizes)
    corpus = reviews(8000, seed=1)
    pretrain(
        policy,
        vocabulary,
        corpus,
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
        progress=False,
    )
    return policy


def run_arm(
    arm: Arm,
    base: TextPolicy,
    vocabulary: TextVocabulary,
    config: ReinforceConfig,
    *,
    keyword: str,
    curves: tuple[str, ...] = CURVES,
) -> dict[str, Any]:
    """Tune a copy of ``base``; return its curves, and its texts judged before and after.

    Args:
        arm: what to do.
        base: the frozen start, and the reference of the KL term.
        vocabulary: ids to text.
        config: common settings, the seed among them.
        keyword: what to count in fresh texts.
        curves: metrics to keep of every update.

    """
    config = replace(config, **arm.changes)
    policy, env = copy.deepcopy(base), TextEnv(vocabulary, arm.reward)
    history = train(
        policy,
        env,
        config,
        reference=base if config.kl_coefficient else None,
        measure=lambda batch: judge(batch, env, base),
        progress=False,
    )
    return {
        "before": evaluate(base, base, env, keyword, config.seed),
        "after": evaluate(policy, base, env, keyword, config.seed),
        "curves": {key: [round(step[key], 4) for step in history] for key in curves},
    }


def evaluate(
    policy: TextPolicy, base: TextPolicy, env: TextEnv, keyword: str, seed: int
) -> dict[str, float | list[str]]:
    """Judge fresh texts, sampled with randomness that training never saw."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    batch = rollout(policy, env, EVALUATION_TEXTS, generator=generator)
    texts = batch.texts(env)
    return {
        "return": batch.returns.mean().item(),
        "length": batch.lengths.float().mean().item(),
        "keyword_rate": sum(keyword in text for text in texts) / len(texts),
        "sentiment": sum(map(sentiment, texts)) / len(texts),
        "examples": texts[:4],
        **judge(batch, env, base),
    }
