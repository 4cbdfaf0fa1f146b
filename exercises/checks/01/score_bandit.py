"""A softmax over the arms of a bandit: cases of two exercises, and the lists of their oracles."""

import math

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case


def probabilities(logits: list[float]) -> list[float]:
    """The softmax, in lists."""
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    return [w / math.fsum(weights) for w in weights]


def case(name: str, logits: list[float], rewards: list[float]) -> Case:
    """A bandit with these logits and rewards."""
    inputs = {"logits": logits, "rewards": rewards}
    return Case(name, {k: torch.tensor(v, dtype=torch.float64) for k, v in inputs.items()})


def cases(draw: Draw) -> Case:
    """A few arms with rewards of both signs."""
    arms = draw.dimension(low=2)
    return Case(f"{arms} arms", {"logits": draw.normal(arms), "rewards": draw.normal(arms)})
