"""DPO and its family: losses on preferences, a trainer on pairs and one that samples its pairs."""

from nbkit.trainers.dpo.config import KINDS, DPOConfig
from nbkit.trainers.dpo.online import OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.dpo.trainer import DPOTrainer

__all__ = [
    "KINDS",
    "DPOConfig",
    "DPOTrainer",
    "OnlineDPOConfig",
    "OnlineDPOTrainer",
]
