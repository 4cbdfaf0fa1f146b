"""Attention of one new token over the cache, and of a whole prompt over itself.

Both are written with ``scaled_dot_product_attention`` and run anywhere. The query heads that share
a key-value head are laid out as if they were several query positions, so that keys and values are
read once and never repeated. The GPU form of the first is in ``nbkit.generate.kernels``.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def prompt_attention(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Causal attention of whole sequences.

    Sequences are padded on the right. A real token never looks at what comes after it, so the
    causal mask is the only one that is needed.

    Args:
        query: (B, T, Hq, D).
        key: (B, T, Hkv, D).
        value: (B, T, Hkv, D).
        scale: multiplies q·k.

    Returns:
        (B, T, Hq, D).

    """
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    grouped = query.shape[2] != key.shape[2]
    if grouped and not query.is_cuda:
        repeats = query.shape[2] // key.shape[2]
        k, v, grouped = (
            k.repeat_interleave(repeats, 1),
            v.repeat_interleave(repeats, 1),
            False,
        )
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    return out.transpose(1, 2)


def length_mask(positions: Tensor, length: int) -> Tensor:
    """(B, 1, 1, length) bool: the columns 0 … position of each row, its newest token included."""
    columns = torch.arange(length, device=positions.device)
    return (columns <= positions[:, None])[:, None, None, :]


def decode_attention(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    """Attention of one token a row over its cache.

    Args:
        query: (B, Hq, D).
        keys: (B, Hkv, S, D), the newest token included.
        values: (B, Hkv, S, D).
        mask: (B, 1, 1, S) of ``length_mask`` (or 0 and -inf to add); None: all columns.
        scale: multiplies q·k.

    Returns:
        (B, Hq, D).

    """
    batch, heads, width = query.shape
    grouped = query.view(batch, keys.shape[1], heads // keys.shape[1], width)
    out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scale)
    return out.reshape(batch, heads, width)
