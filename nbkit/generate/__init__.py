"""The sampling engine: `generate` for any Hugging Face decoder, on a CPU and on a GPU.

Read the modules in this order: sampling, cache, attention, weights, mirror, model, options,
session, runner, graph, continuous, engine, answers; then, for a GPU, kernels, kernels_layer,
kernels_sampler and fused.
"""

from nbkit.generate.answers import answer
from nbkit.generate.engine import clear, generate
from nbkit.generate.options import EngineOptions
from nbkit.generate.result import Generation

__all__ = ["EngineOptions", "Generation", "answer", "clear", "generate"]
