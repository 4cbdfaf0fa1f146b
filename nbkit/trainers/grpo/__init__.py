"""GRPO and its family: group advantages, seven losses, one trainer."""

from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.trainer import GRPOTrainer
from nbkit.trainers.grpo.update import grpo_loss
from nbkit.trainers.grpo.variants import VARIANTS, variant

__all__ = [
    "VARIANTS",
    "GRPOConfig",
    "GRPOTrainer",
    "grpo_loss",
    "variant",
]
