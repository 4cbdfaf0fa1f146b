"""The sampling engine: `generate` for any Hugging Face decoder, on a CPU and on a GPU.

Read the modules in this order: sampling, cache, attention, weights, mirror, model, decode (the
ladder from the naive loop), options, session, runner, graph, continuous, engine; then, for a GPU,
kernels, kernels_layer, kernels_sampler and fused.
"""

from nbkit.generate.engine import clear, generate
from nbkit.generate.options import EngineOptions
from nbkit.generate.result import Generation

__all__ = ["EngineOptions", "Generation", "clear", "generate"]
