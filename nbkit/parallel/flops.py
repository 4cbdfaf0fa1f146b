"""Model FLOPs utilisation: what a training step must compute, over what the device could.

FLOPs per token = 6 N + 6 L H Q T. N counts the weights that stand in a matrix product (the head,
not the lookup of embeddings): two operations a weight forward, four backward. Attention adds
12 L H Q T for all pairs of positions (Chowdhery et al., arXiv:2204.02311, appendix B), with H heads
of width Q, whose product may differ from the model's width; a causal mask needs half. Operations
that checkpointing repeats are not counted: they are a cost, not work.
"""

import re
from typing import Any

# Dense bfloat16 matrix products a second, by the words of the device's name. From NVIDIA's data
# sheets, which print the rates with sparsity, twice as high: H100 (SXM, NVL; that of 2022: PCIe),
# H200 (SXM, NVL), A100, and the B200 of HGX.
PEAK_FLOPS = {
    "H100": 989e12,
    "H100 NVL": 835e12,
    "H100 PCIe": 756e12,
    "H200": 989e12,
    "H200 NVL": 835e12,
    "A100": 312e12,
    "B200": 2250e12,
}


def matrix_weights(config: Any) -> int:
    """Weights of a Qwen2 or Llama shape that stand in matrix products."""
    width, layers = config.hidden_size, config.num_hidden_layers
    head = head_width(config)
    queries, keys = config.num_attention_heads * head, config.num_key_value_heads * head
    attention = width * queries * 2 + width * keys * 2
    mlp = 3 * width * config.intermediate_size
    return layers * (attention + mlp) + config.vocab_size * width


def head_width(config: Any) -> int:
    """The width of one head of attention."""
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def flops_per_token(config: Any, length: int) -> float:
    """Operations of forward and backward pass for one token of a sequence of `length`."""
    queries = config.num_attention_heads * head_width(config)
    return 6.0 * matrix_weights(config) + 6.0 * (config.num_hidden_layers * queries * length)


def peak_flops(device_name: str) -> float | None:
    """The device's peak, or None where it is not known: another device, or a part of one (MIG).

    Args:
        device_name: as ``torch.cuda.get_device_name()`` gives it; of several words that fit, the
            longest count, since an "H100 PCIe" is an "H100" too.

    """
    if re.search(r"\bMIG\b", device_name):
        return None
    fitting = [key for key in PEAK_FLOPS if re.search(rf"\b{key}\b", device_name, re.IGNORECASE)]
    return PEAK_FLOPS[max(fitting, key=len)] if fitting else None
