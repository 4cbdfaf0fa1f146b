"""REINFORCE on film reviews: five seeds of every comparison that chapter 11 draws.

Each seed pre-trains its own base policy, then starts every arm from a copy of it. Seeds, arms and
numbers of updates were fixed before the run; the seeds used while the chapter was written (0 to 5)
are not among them.
"""

import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from nbkit.envs.reviews import ALPHABET, reviews
from nbkit.rewards.text import (
    contains_keyword,
    keyword_count,
    sentiment,
    sentiment_of_distinct_words,
)
from nbkit.text.environment import TextEnv
from nbkit.text.policies import make_policy
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.pretraining import pretrain
from nbkit.trainers.reinforce import ReinforceConfig, train
from studies._arms import Arms, Run, seed_by_seed
from studies._frame import Frame, figures
from studies._review_arms import Arm, pretrained, run_arm

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


VOCABULARY = CharVocabulary(ALPHABET)


@lru_cache(len(BODIES))
def base_policy(body: str, seed: int) -> Any:
    """The start of a seed's arms with one body; none of them moves it."""
    return pretrained(body, VOCABULARY, seed=seed, **BODIES[body])


def one_run(name: str, seed: int) -> Run:
    """One arm of one seed, judged before and after."""
    body, reward, changes = ARMS[name]
    arm, config = Arm(body, REWARDS[reward], changes), replace(BASE, seed=seed)
    return run_arm(arm, base_policy(body, seed), VOCABULARY, config, keyword=KEYWORD)


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


METRICS = ("return", "entropy", "gradient_norm", "length")
TOLERANCES = {
    **{"loss": 1e-3, "return": 5e-3, "entropy": 1e-3, "gradient_norm": 2e-3, "length": 0.02},
}
STUDY = Frame(
    __file__,
    Arms(one_run, seed_by_seed(ARMS, SEEDS), {"base": vars(BASE), "bodies": BODIES}).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
