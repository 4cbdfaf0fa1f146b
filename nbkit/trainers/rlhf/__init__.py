"""PPO and RLOO for language models: policy, reference, reward and value model."""

from nbkit.trainers.rlhf.config import RLHFConfig
from nbkit.trainers.rlhf.trainer import RLHFTrainer

__all__ = [
    "RLHFConfig",
    "RLHFTrainer",
]
