"""A decode step of Triton kernels and matrix products: nine launches a layer.

The same numbers as ``Decoder.step``, up to rounding. GPT-2 has LayerNorm and no gate; its small
operations stay plain, and attention and cache writes use the kernels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from nbkit.generate import kernels, kernels_layer, kernels_sampler
from nbkit.generate.attention import decode_attention, length_mask
from nbkit.generate.cache import StaticCache
from nbkit.generate.model import Decoder, linear
from nbkit.generate.options import EngineOptions

__all__ = ["decode_logits", "kernels_sampler", "supported"]


def supported(decoder: Decoder) -> bool:
    """Whether the kernels fit: heads of a power of two, at least 16 numbers."""
    width = decoder.shape.head_dim
    return width >= 16 and width & (width - 1) == 0


def decode_logits(
    decoder: Decoder,
    tokens: Tensor,
    positions: Tensor,
    cache: StaticCache,
    options: EngineOptions,
) -> Tensor:
    """Decode one token a row: tokens (B,), positions (B,) -> logits (B, V), cache written."""
    shape, weights = decoder.shape, decoder.weights
    small = options.layers == "triton" and shape.gated and shape.silu
    if not small and options.attention != "triton":
        return decoder.step(tokens, positions, cache)
    batch = tokens.shape[0]
    rope = None
    residual = F.embedding(tokens, weights.embedding)
    if weights.positions is not None:
        residual = residual + F.embedding(positions, weights.positions)
    else:
        rope = decoder.rope_table(cache.length)
    mask = None if options.attention == "triton" else length_mask(positions, cache.length)
    splits = options.splits or kernels.choose_splits(
        batch, shape.kv_heads, cache.length, options.block, processors(tokens.device)
    )
    delta: Tensor | None = None
    for number, layer in enumerate(weights.layers):
        if small:
            normed = kernels_layer.add_rms_norm(residual, delta, layer.norm[0], shape.eps)
        else:
            residual = residual if delta is None else residual + delta
            normed = decoder.norm(residual, layer.norm)
        keys, values = cache.keys[number], cache.values[number]
        norms = None
        if layer.q_norm is not None and layer.k_norm is not None:
            norms = layer.q_norm, layer.k_norm
        query = kernels_layer.rotate_append(
            *(linear(normed, layer.qkv), rope, norms, keys, values, positions),
            *(shape.heads, shape.eps),
        )
        if mask is None:
            mixed = kernels.split_attention(
                *(query, keys, values, positions, shape.scale),
                splits=splits,
                block=options.block,
                warps=options.warps,
                stages=options.stages,
            )
        else:
            mixed = decode_attention(query, keys[:batch], values[:batch], mask, shape.scale)
        delta = linear(mixed.view(batch, -1), layer.out)
        if small:
            normed = kernels_layer.add_rms_norm(residual, delta, layer.mlp_norm[0], shape.eps)
            joined = linear(normed, layer.up)
            delta = linear(kernels_layer.silu_multiply(joined), layer.down)
            continue
        residual = residual + delta
        inner = linear(decoder.norm(residual, layer.mlp_norm), layer.up)
        if shape.gated:
            gate, up = inner.chunk(2, -1)
            inner = shape.activation(gate) * up
        else:
            inner = shape.activation(inner)
        delta = linear(inner, layer.down)
    assert delta is not None
    if small:
        return linear(
            kernels_layer.add_rms_norm(residual, delta, weights.norm[0], shape.eps), weights.head
        )
    return linear(decoder.norm(residual + delta, weights.norm), weights.head)


def processors(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU; 1 elsewhere (the kernels run there under test)."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
