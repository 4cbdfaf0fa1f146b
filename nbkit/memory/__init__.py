"""How many bytes a training set-up takes, counted before it runs.

Every term is an array that really exists in this package's trainers with models of transformers;
``benchmarks/memory.py`` measures the peaks on a GPU beside it. Bytes throughout; GB = 10^9 bytes.
"""

from nbkit.memory.four_models import FourModels, four_models
from nbkit.memory.peaks import Memory, generation_peak, inference_peak, training_peak
from nbkit.memory.setup import BF16, FP32, MIXED, Precision, Training, static_memory
from nbkit.memory.shape import SHAPES, ModelShape, config_arguments
from nbkit.memory.zero import Bytes, traffic_bytes, zero_bytes

__all__ = [
    "BF16",
    "FP32",
    "MIXED",
    "SHAPES",
    "Bytes",
    "FourModels",
    "Memory",
    "ModelShape",
    "Precision",
    "Training",
    "config_arguments",
    "four_models",
    "generation_peak",
    "inference_peak",
    "static_memory",
    "traffic_bytes",
    "training_peak",
    "zero_bytes",
]
