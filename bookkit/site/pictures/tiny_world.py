"""The world of the interactive figure `tiny-policy`, computed exactly: all 1,024 five-word reviews.

The figure's own mathematics is JavaScript (book/_theme/interactive/tiny-policy/model.js). This is a
second writing of the same definitions: the picture that stands in for the figure is drawn from it,
and the JavaScript is tested against it.
"""

from __future__ import annotations

import itertools
import math

WORDS = ("great", "cast", "plot", "dull")
LENGTH = 5
START = {"great": 0.10, "cast": 0.40, "plot": 0.40, "dull": 0.10}
FOLLOWING = {
    "great": {"great": 0.10, "cast": 0.40, "plot": 0.40, "dull": 0.10},
    "cast": {"great": 0.15, "cast": 0.15, "plot": 0.40, "dull": 0.30},
    "plot": {"great": 0.15, "cast": 0.40, "plot": 0.15, "dull": 0.30},
    "dull": {"great": 0.05, "cast": 0.40, "plot": 0.40, "dull": 0.15},
}

Review = tuple[str, ...]


def reviews() -> list[Review]:
    """Every review of the world."""
    return list(itertools.product(WORDS, repeat=LENGTH))


def reference_probability(review: Review) -> float:
    """How often the reference model writes a review."""
    probability = START[review[0]]
    for previous, word in itertools.pairwise(review):
        probability *= FOLLOWING[previous][word]
    return probability


def proxy_reward(review: Review) -> float:
    """The share of the word "great": what the policy is paid for."""
    return review.count("great") / LENGTH


def gold_reward(review: Review) -> float:
    """What was wanted: the review is positive, and the more it says the better."""
    return len(set(review)) / len(WORDS) if "great" in review else 0.0


def tilted_means(beta: float) -> tuple[float, float, float]:
    """Mean proxy, mean gold and KL to the reference (nats a review) of the best policy for `beta`.

    The policy that maximises E[proxy] − β KL(policy ‖ reference) is the reference times
    exp(proxy / β), normalised. `beta` must be positive; infinity gives the reference itself.
    """
    weights = {review: reference_probability(review) for review in reviews()}
    tilted = {
        review: weight * math.exp((proxy_reward(review) - 1) / beta)
        for review, weight in weights.items()
    }
    total = math.fsum(tilted.values())
    shares = {review: weight / total for review, weight in tilted.items()}
    proxy = math.fsum(share * proxy_reward(review) for review, share in shares.items())
    gold = math.fsum(share * gold_reward(review) for review, share in shares.items())
    divergence = math.fsum(
        share * math.log(share / weights[review]) for review, share in shares.items() if share > 0
    )
    return proxy, gold, divergence
