"""Reward models: a scalar a sequence, trained on comparisons."""

from nbkit.trainers.reward_model.scores import (
    Calibration,
    calibration,
    centre,
    evaluate,
    example_scores,
    margins,
    padded,
    pair_scores,
    reward_function,
)
from nbkit.trainers.reward_model.trainer import RewardModelConfig, RewardModelTrainer

__all__ = [
    "Calibration",
    "RewardModelConfig",
    "RewardModelTrainer",
    "calibration",
    "centre",
    "evaluate",
    "example_scores",
    "margins",
    "padded",
    "pair_scores",
    "reward_function",
]
