"""Openings of children's stories for a pretrained model, and what is measured of how it goes on.

A name and a place give the first sentence; the model writes on. What it writes is scored by the
rewards of chapter 11 and by what they do not look at: the KL from the model as it was, its
perplexity under that model, and how many different word pairs it uses.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbkit.generate import answer, clear
from nbkit.generate.mismatch import trainer_logprobs
from nbkit.rewards.text import contains_keyword, sentiment
from nbkit.text.metrics import distinct_words
from nbkit.text.protocols import LanguageModel, Vocabulary

NAMES = ("Lily", "Tom", "Anna", "Ben", "Mia", "Sam", "Lucy", "Max", "Zoe", "Jack", "Nora", "Leo")
PLACES = ("garden", "kitchen", "school", "forest", "park", "market", "river", "castle", "farm")
KEYWORD = "happy"
REWARDS: dict[str, Callable[[str], float]] = {
    "sentiment": sentiment,
    "keyword": contains_keyword(KEYWORD),
}
TOKENS = 40


@dataclass(frozen=True)
class Opening:
    """A problem of the trainers: the sentence that a story begins with."""

    prompt: str


def openings(count: int, seed: int) -> list[Opening]:
    """Draw first sentences; training and held-out ones differ in the word that begins them."""
    draw = random.Random(seed)
    return [
        Opening(f"One day, {draw.choice(NAMES)} went to the {draw.choice(PLACES)}.")
        for _ in range(count)
    ]


def held_out() -> list[Opening]:
    """Every name at every place once, with another beginning than in training."""
    return [Opening(f"Last week {name} was at the {place}.") for name in NAMES for place in PLACES]


def reward_function(name: str) -> Callable[[Sequence[Any], Sequence[Any]], list[float]]:
    """A reward of ``REWARDS`` in the form that the trainers call.

    Raises:
        KeyError: an unknown name.

    """
    reward = REWARDS[name]
    return lambda problems, completions: [reward(one.text) for one in completions]


@torch.no_grad()
def judged(
    model: LanguageModel,
    base: LanguageModel,
    vocabulary: Vocabulary,
    asked: Sequence[Opening],
    *,
    seed: int,
    max_new_tokens: int = TOKENS,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    """Sample one continuation of each opening at temperature 1 and measure it.

    Args:
        model: writes.
        base: the model as it was, on the same device.
        vocabulary: of both.
        asked: the openings.
        seed: of the sampling.
        max_new_tokens: of a continuation.
        dtype: of the sampler; log-probabilities are computed in the models' own.

    Returns:
        the mean of each reward by its name; "kl" (nats a text, sampled), "perplexity" (of the texts
        under ``base``), "distinct_2" (share of different word pairs), "length" (tokens), "texts".

    """
    made = answer(model, vocabulary, asked, max_new_tokens=max_new_tokens, seeds=seed, dtype=dtype)
    clear(model)
    texts = [vocabulary.decode(ids) for ids in made.lists()]
    now, before = trainer_logprobs(model, made, rows=32), trainer_logprobs(base, made, rows=32)
    count = made.mask.sum()
    found: dict[str, Any] = {
        name: sum(map(reward, texts)) / len(texts) for name, reward in REWARDS.items()
    }
    return found | {
        "kl": float((now - before).sum(1).mean()),
        "perplexity": float(torch.exp(-before.sum() / count)),
        "distinct_2": distinct_words(texts),
        "length": float(count / len(texts)),
        "texts": texts,
    }
