"""REINFORCE on film reviews: five seeds of every comparison that chapter 11 draws.

Each seed pre-trains its own base policy, then starts every arm from a copy of it. Seeds, arms and
numbers of updates were fixed before the run; the seeds used while the chapter was written (0 to 5)
are not among them.
"""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from bookkit.authoring.study import start_study
from nbkit.envs.reviews import ALPHABET, reviews
from nbkit.rewards.text import (
    contains_keyword,
    keyword_count,
    sentiment,
    sentiment_of_distinct_words,
)
from nbkit.text.environment import TextEnv
from nbkit.text.metrics import judge
from nbkit.text.policies import make_policy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.language_model import pretrain
from nbkit.trainers.reinforce import ReinforceConfig, train
from studies._frame import Frame, figures

SEEDS = (21, 22, 23, 24, 25)
KEYWORD = "great"
BODIES = {
    "lstm": {"sizes": {"width": 96}, "steps": 300, "learning_rate": 2e-2},
    "transformer": {"sizes": {"width": 96, "layers": 2}, "steps": 300, "learning_rate": 5e-3},
}
BASE = ReinforceConfig(updates=60, batch_size=64, learning_rate=2e-3)
REWARDS = {
    "keyword": contains_keyword(KEYWORD),
    "count": keyword_count(KEYWORD),
    "sentiment": sentiment,
    "distinct": sentiment_of_distinct_words,
}
# arm: (body, reward, settings that differ from BASE)
ARMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "keyword": ("lstm", "keyword", {}),
    "keyword, no baseline": ("lstm", "keyword", {"baseline": "none"}),
    "keyword, batch mean": ("lstm", "keyword", {"baseline": "batch-mean"}),
    "keyword, KL 0.1": ("lstm", "keyword", {"kl_coefficient": 0.1}),
    "keyword, Transformer": ("transformer", "keyword", {}),
    "count": ("lstm", "count", {}),
    "sentiment": ("lstm", "sentiment", {}),
    "sentiment, Transformer": ("transformer", "sentiment", {}),
    "sentiment, distinct words": ("lstm", "distinct", {}),
    **{
        f"sentiment, KL {beta}": ("lstm", "sentiment", {"kl_coefficient": beta})
        for beta in (0.01, 0.03, 0.1, 0.3)
    },
    "distinct words, KL 0.03": ("lstm", "distinct", {"kl_coefficient": 0.03}),
}
CURVES = ("return", "length", "entropy", "perplexity", "distinct_2", "kl")
EVALUATION_TEXTS = 512


def base_policy(body: str, seed: int, vocabulary: CharVocabulary) -> torch.nn.Module:
    """Pre-train the frozen starting point of one seed."""
    torch.manual_seed(seed)
    settings = BODIES[body]
    policy = make_policy(body, len(vocabulary), **settings["sizes"])
    pretrain(
        policy,
        vocabulary,
        reviews(8000, seed=1),
        steps=settings["steps"],
        learning_rate=settings["learning_rate"],
        seed=seed,
        progress=False,
    )
    return policy


def evaluate(policy, base, reward, vocabulary, seed: int) -> dict[str, Any]:
    """Score fresh texts, with randomness that training never saw."""
    env = TextEnv(vocabulary, reward)
    generator = torch.Generator().manual_seed(10_000 + seed)
    batch = rollout(policy, env, EVALUATION_TEXTS, generator=generator)
    texts = batch.texts(env)
    return {
        "return": batch.returns.mean().item(),
        "length": batch.lengths.float().mean().item(),
        "keyword_rate": sum(KEYWORD in text for text in texts) / len(texts),
        "sentiment": sum(map(sentiment, texts)) / len(texts),
        "examples": texts[:4],
        **judge(batch, env, base),
    }


def run_arm(name: str, base, vocabulary, seed: int, updates: int | None = None) -> dict[str, Any]:
    """Train one arm of one seed and evaluate it before and after."""
    _, reward_name, changes = ARMS[name]
    reward = REWARDS[reward_name]
    config = replace(BASE, seed=seed, **changes)
    if updates is not None:
        config = replace(config, updates=updates)
    policy = copy.deepcopy(base)
    env = TextEnv(vocabulary, reward)
    history = train(
        policy,
        env,
        config,
        reference=base if config.kl_coefficient else None,
        measure=lambda batch: judge(batch, env, base),
        progress=False,
    )
    return {
        "before": evaluate(base, base, reward, vocabulary, seed),
        "after": evaluate(policy, base, reward, vocabulary, seed),
        "curves": {key: [round(step[key], 4) for step in history] for key in CURVES},
    }


def head() -> dict[str, float]:
    """Twenty steps of pre-training, then three updates of three arms.

    So short a pre-training never writes the keyword; a letter is paid in its place.
    """
    vocabulary = CharVocabulary(ALPHABET)
    torch.manual_seed(SEEDS[0])
    base = make_policy("lstm", len(vocabulary), width=96)
    losses = pretrain(
        base, vocabulary, reviews(8000, seed=1), steps=20, learning_rate=2e-2, progress=False
    )
    found = {f"loss {i}": losses[i - 1] for i in (1, 2, 5, 10, 20)}
    letter = {"keyword": contains_keyword("e"), "count": keyword_count("e")}
    for name in ("keyword", "count", "sentiment, KL 0.1"):
        _, reward, changes = ARMS[name]
        env = TextEnv(vocabulary, (REWARDS | letter)[reward])
        config = replace(BASE, seed=SEEDS[0], **changes, updates=3)
        reference = base if config.kl_coefficient else None
        history = train(copy.deepcopy(base), env, config, reference=reference, progress=False)
        found |= figures(history, METRICS, name)
    return found


def measure(out: Path) -> None:
    """Run the study and write its stamped result."""
    study = start_study(out, seeds=SEEDS, config={"base": vars(BASE), "bodies": BODIES})
    vocabulary = CharVocabulary(ALPHABET)
    arms: dict[str, list[Any]] = {name: [] for name in ARMS}
    with tqdm(total=len(SEEDS) * len(ARMS), desc="arms", mininterval=10) as bar:
        for seed in SEEDS:
            bases = {body: base_policy(body, seed, vocabulary) for body in BODIES}
            for name, (body, _, _) in ARMS.items():
                arms[name].append(run_arm(name, bases[body], vocabulary, seed))
                bar.update()
    study.finish({"arms": arms})


METRICS = ("return", "entropy", "gradient_norm", "length")
TOLERANCES = {
    **{"loss": 1e-3, "return": 5e-3, "entropy": 1e-3, "gradient_norm": 2e-3, "length": 0.02},
}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
