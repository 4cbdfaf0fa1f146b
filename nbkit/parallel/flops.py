"""Model FLOPs utilisation: what a training step must compute, over what the device could.

FLOPs per token = 6 N + 6 L d T. N counts the weights that stand in a matrix product (the head,
not the lookup of embeddings): two operations a weight forward, four backward. Attention adds
12 L d T for all pairs of positions (Chowdhery et al., arXiv:2204.02311, appendix B); a causal
mask needs half. Operations that checkpointing repeats are not counted: they are a cost, not work.
"""

from typing import Any

# Dense bfloat16 matrix products a second, from the makers' data sheets.
PEAK_FLOPS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "B200": 2250e12}


def matrix_weights(config: Any) -> int:
    """Weights of a Qwen2 or Llama shape that stand in matrix products."""
    width, layers = config.hidden_size, config.num_hidden_layers
    head = getattr(config, "head_dim", None) or width // config.num_attention_heads
    queries, keys = config.num_attention_heads * head, config.num_key_value_heads * head
    attention = width * queries * 2 + width * keys * 2
    mlp = 3 * width * config.intermediate_size
    return layers * (attention + mlp) + config.vocab_size * width


def flops_per_token(config: Any, length: int) -> float:
    """Operations of forward and backward pass for one token of a sequence of `length`."""
    return 6.0 * matrix_weights(config) + 6.0 * (
        config.num_hidden_layers * config.hidden_size * length
    )


def peak_flops(device_name: str) -> float | None:
    """The device's peak, or None where it is not known."""
    return next((peak for key, peak in PEAK_FLOPS.items() if key in device_name), None)
