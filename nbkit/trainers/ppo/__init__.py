"""PPO for control: one network for policy and value, environments, diagnostics."""

from nbkit.trainers.ppo.config import PPOConfig
from nbkit.trainers.ppo.evaluation import evaluate
from nbkit.trainers.ppo.trainer import PPOTrainer
from nbkit.trainers.ppo.update import ppo_loss

__all__ = [
    "PPOConfig",
    "PPOTrainer",
    "evaluate",
    "ppo_loss",
]
