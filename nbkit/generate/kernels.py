# ruff: noqa: N803
# mypy: disallow-untyped-defs=False
"""Decode attention on a GPU in Triton: flash-decoding over the real length of every row.

A decode step has one query a row, so the work is reading the cache. The padded form reads all the
columns that the cache has room for. This one reads columns 0 … length-1 of each row, once, for all
query heads of a group, with a running maximum and sum (Dao et al., arXiv:2205.14135). Where rows
are few, the columns of a row are split over several programs and the parts are joined by a second
kernel (Dao, Haziza, Massa and Sizov, "Flash-Decoding", 2023).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LEAST_ROWS = 16  # of a matrix product on tensor cores; a group of query heads is padded to it


@triton.jit
def _split_attention(query, keys, values, positions, out, partial, biggest, total,
                     scale, slot_stride, head_stride, heads,
                     GROUP: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr,
                     BLOCK: tl.constexpr, SPLITS: tl.constexpr):  # fmt: skip
    """One program a (row, key-value head, split): softmax-weighted sum over its columns."""
    row = tl.program_id(0).to(tl.int64)
    kv = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(positions + row).to(tl.int32) + 1
    share = tl.cdiv(tl.cdiv(length, BLOCK), SPLITS) * BLOCK
    start = split * share
    end = tl.minimum(start + share, length)
    member = tl.arange(0, PADDED)
    width = tl.arange(0, WIDTH)
    inside_group = member < GROUP
    head = row * heads + kv * GROUP + member
    q = tl.load(query + head[:, None] * WIDTH + width[None, :],
                mask=inside_group[:, None], other=0.0)  # fmt: skip
    m = tl.full((PADDED,), -float("inf"), tl.float32)
    s = tl.zeros((PADDED,), tl.float32)
    mixed = tl.zeros((PADDED, WIDTH), tl.float32)
    first = row * slot_stride + kv * head_stride
    for column in range(start, end, BLOCK):
        columns = column + tl.arange(0, BLOCK)
        inside = columns < end
        offsets = first + columns[:, None] * WIDTH + width[None, :]
        k = tl.load(keys + offsets, mask=inside[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(inside[None, :], score, -float("inf"))
        new = tl.maximum(m, tl.max(score, 1))  # finite: a block holds at least one real column
        weight = tl.exp(score - new[:, None])
        shrink = tl.exp(m - new)
        v = tl.load(values + offsets, mask=inside[:, None], other=0.0)
        s = s * shrink + tl.sum(weight, 1)
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        m = new
    if SPLITS == 1:
        tl.store(out + head[:, None] * WIDTH + width[None, :],
                 (mixed / s[:, None]).to(out.dtype.element_ty),
                 mask=inside_group[:, None])  # fmt: skip
    else:
        place = head * SPLITS + split
        tl.store(partial + place[:, None] * WIDTH + width[None, :], mixed,
                 mask=inside_group[:, None])  # fmt: skip
        tl.store(biggest + place, m, mask=inside_group)
        tl.store(total + place, s, mask=inside_group)


@triton.jit
def _join_splits(partial, biggest, total, out, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    """One program a (row, query head). An empty split has m = -inf and weighs nothing."""
    head = tl.program_id(0).to(tl.int64)
    split = tl.arange(0, SPLITS)
    width = tl.arange(0, WIDTH)
    m = tl.load(biggest + head * SPLITS + split)
    weight = tl.exp(m - tl.max(m, 0))
    parts = tl.load(partial + (head * SPLITS + split)[:, None] * WIDTH + width[None, :])
    s = tl.sum(tl.load(total + head * SPLITS + split) * weight, 0)
    mixed = tl.sum(parts * weight[:, None], 0) / s
    tl.store(out + head * WIDTH + width, mixed.to(out.dtype.element_ty))


def choose_splits(rows: int, kv_heads: int, length: int, block: int, processors: int) -> int:
    """Splits of a row, a power of two: about two programs a processor, a block of columns each."""
    wanted = max(1, (2 * processors) // max(rows * kv_heads, 1))
    possible = max(1, -(-length // block))
    return 1 << (min(wanted, possible, 32).bit_length() - 1)


def split_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    positions: Tensor,
    scale: float,
    *,
    splits: int = 1,
    block: int = 64,
    warps: int = 4,
    stages: int = 2,
) -> Tensor:
    """Attention of one token a row over the columns 0 … position of its slot.

    Args:
        query: (B, Hq, D) contiguous; D a power of two.
        keys: (slots, Hkv, S, D) of one layer, contiguous; slot b belongs to row b.
        values: like keys.
        positions: (B,) column of the newest token, already written.
        scale: multiplies q·k.
        splits: programs that share a row; a power of two.
        block: columns at one time; a power of two, at least 16.
        warps: of a program.
        stages: of the software pipeline over blocks.

    Returns:
        (B, Hq, D).

    """
    batch, heads, width = query.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    out = torch.empty_like(query)
    if splits == 1:
        partial = biggest = total = out
    else:
        partial = torch.empty(batch, heads, splits, width, dtype=torch.float32, device=query.device)
        biggest = torch.empty(batch, heads, splits, dtype=torch.float32, device=query.device)
        total = torch.empty_like(biggest)
    _split_attention[(batch, kv_heads, splits)](
        *(query, keys, values, positions, out, partial, biggest, total),
        *(scale, keys.stride(0), keys.stride(1), heads),
        GROUP=group,
        PADDED=max(LEAST_ROWS, triton.next_power_of_2(group)),
        WIDTH=width,
        BLOCK=block,
        SPLITS=splits,
        num_warps=warps,
        num_stages=stages,
    )
    if splits > 1:
        _join_splits[(batch * heads,)](
            partial, biggest, total, out, WIDTH=width, SPLITS=splits, num_warps=2
        )
    return out
