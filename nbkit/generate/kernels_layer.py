# ruff: noqa: N803
# mypy: disallow-untyped-defs=False
"""The small operations of a layer, fused in Triton: each reads its input once and launches once.

A decode step of a small model is bound by the number of kernels, not by what they compute. Between
two matrix products stand: residual addition and RMSNorm (one kernel), query and key norm, rotary
positions and the write into the cache (one), SiLU and the gate (one). Values are rounded to the
dtype of the model where the module rounds them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _add_rms_norm(residual, delta, weight, out, width, eps,
                  HAS_DELTA: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """residual += delta; out = residual / rms(residual) · weight. One program a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    place = row * width + columns
    x = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    if HAS_DELTA:
        x = x + tl.load(delta + place, mask=inside, other=0.0).to(tl.float32)
        rounded = x.to(residual.dtype.element_ty)
        tl.store(residual + place, rounded, mask=inside)
        x = rounded.to(tl.float32)
    square = tl.sum(x * x, 0) / width
    x = x * (1.0 / tl.sqrt(square + eps))
    x = x.to(out.dtype.element_ty).to(tl.float32)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, (x * w).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rotate_append(qkv, cosines, sines, q_norm, k_norm, query, keys, values, positions,
                   heads, kv_heads, slot_stride, head_stride, eps,
                   NORM: tl.constexpr, ROPE: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """One program a (row, head): norm and rotation of q and k; k and v go into the cache."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    width = tl.arange(0, WIDTH)
    other = (width + WIDTH // 2) % WIDTH
    start = (row * (heads + 2 * kv_heads) + head) * WIDTH
    x = tl.load(qkv + start + width).to(tl.float32)
    position = tl.load(positions + row).to(tl.int64)
    element = qkv.dtype.element_ty
    if head < heads + kv_heads:
        y = tl.load(qkv + start + other).to(tl.float32)
        if NORM:
            inverse = 1.0 / tl.sqrt(tl.sum(x * x, 0) / WIDTH + eps)
            q_weight = tl.load(q_norm + width).to(tl.float32)
            k_weight = tl.load(k_norm + width).to(tl.float32)
            q_other = tl.load(q_norm + other).to(tl.float32)
            k_other = tl.load(k_norm + other).to(tl.float32)
            x = (x * inverse).to(element).to(tl.float32)
            y = (y * inverse).to(element).to(tl.float32)
            x = x * tl.where(head < heads, q_weight, k_weight)
            y = y * tl.where(head < heads, q_other, k_other)
            x = x.to(element).to(tl.float32)
            y = y.to(element).to(tl.float32)
        if ROPE:
            c = tl.load(cosines + position * WIDTH + width).to(tl.float32)
            s = tl.load(sines + position * WIDTH + width).to(tl.float32)
            x = x * c + y * s
    kind = query.dtype.element_ty
    if head < heads:
        tl.store(query + (row * heads + head) * WIDTH + width, x.to(kind))
    elif head < heads + kv_heads:
        place = row * slot_stride + (head - heads) * head_stride + position * WIDTH
        tl.store(keys + place + width, x.to(kind))
    else:
        place = row * slot_stride + (head - heads - kv_heads) * head_stride + position * WIDTH
        tl.store(values + place + width, x.to(kind))


@triton.jit
def _silu_multiply(joined, out, inner, BLOCK: tl.constexpr):
    """out = silu(gate) · up, with (gate | up) side by side in a row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < inner
    place = row * 2 * inner + columns
    gate = tl.load(joined + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(joined + place + inner, mask=inside, other=0.0).to(tl.float32)
    kind = out.dtype.element_ty
    active = (gate / (1.0 + tl.exp(-gate))).to(kind).to(tl.float32)
    tl.store(out + row * inner + columns, (active * up).to(kind), mask=inside)


def add_rms_norm(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add delta (B, W) to the residual in place, and return its RMSNorm (B, W)."""
    rows, width = residual.shape
    out = torch.empty_like(residual)
    block = triton.next_power_of_2(width)
    _add_rms_norm[(rows,)](
        *(residual, residual if delta is None else delta, weight, out, width, eps),
        HAS_DELTA=delta is not None,
        BLOCK=block,
        num_warps=min(8, max(1, block // 512)),
    )
    return out


def rotate_append(
    qkv: Tensor,
    rope: tuple[Tensor, Tensor] | None,
    norms: tuple[Tensor, Tensor] | None,
    keys: Tensor,
    values: Tensor,
    positions: Tensor,
    heads: int,
    eps: float,
) -> Tensor:
    """Split the joined projection: rotated queries out, keys and values into the cache.

    Args:
        qkv: (B, (Hq + 2 Hkv) D) contiguous; D a power of two.
        rope: tables (length, D) of ``Decoder.rope_table``, or None.
        norms: weights (D,) of the query and the key norm, or None.
        keys: (slots, Hkv, S, D) of one layer; written at the position of each row.
        values: like keys.
        positions: (B,).
        heads: Hq.
        eps: of the norms.

    Returns:
        (B, Hq, D) queries.

    """
    kv_heads, width = keys.shape[1], keys.shape[3]
    query = torch.empty(qkv.shape[0], heads, width, dtype=qkv.dtype, device=qkv.device)
    _rotate_append[(qkv.shape[0], heads + 2 * kv_heads)](
        *(qkv, *(rope or (qkv, qkv)), *(norms or (qkv, qkv)), query, keys, values, positions),
        *(heads, kv_heads, keys.stride(0), keys.stride(1), eps),
        NORM=norms is not None,
        ROPE=rope is not None,
        WIDTH=width,
        num_warps=1,
    )
    return query


def silu_multiply(joined: Tensor, *, block: int = 1024) -> Tensor:
    """(B, 2I) of gate and up side by side -> silu(gate) · up, (B, I)."""
    rows, inner = joined.shape[0], joined.shape[1] // 2
    out = torch.empty(rows, inner, dtype=joined.dtype, device=joined.device)
    _silu_multiply[(rows, triton.cdiv(inner, block))](joined, out, inner, BLOCK=block, num_warps=4)
    return out
