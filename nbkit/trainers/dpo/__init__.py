"""DPO and its family: losses on preferences, one trainer."""

from nbkit.trainers.dpo.config import KINDS, DPOConfig
from nbkit.trainers.dpo.trainer import DPOTrainer, train

__all__ = [
    "KINDS",
    "DPOConfig",
    "DPOTrainer",
    "train",
]
