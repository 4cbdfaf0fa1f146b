# ruff: noqa: N803
# mypy: disallow-untyped-defs=False
"""The sampler on a GPU in Triton: two kernels from the logits to the state of the next step.

The first reads the logits once. Each program takes a block of one row, adds the Gumbel noise of
``nbkit.generate.sampling`` (the same hash, computed where it is needed), and leaves the best token
and the block's share of the softmax sum. The second joins the blocks of a row, writes token and
log-probability to their place in the result, and moves the row on. Nothing goes to the host.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _mix(x):
    """`sampling._mix` on uint32, where shifts are logical and products wrap."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _gumbel(seed, position, ids):
    """`sampling.gumbel_noise` for one row and some tokens."""
    low = (seed & 0xFFFFFFFF).to(tl.uint32)
    high = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    step = position.to(tl.uint32)
    first = _mix(_mix(_mix(low ^ 0x9E3779B9) ^ high) ^ step)
    second = _mix(_mix(_mix(high ^ 0x85EBCA6B) ^ low) ^ step)
    bits = _mix(_mix(ids.to(tl.uint32) ^ first) ^ second) & 0x7FFFFFFF
    uniform = (bits.to(tl.int32).to(tl.float32) + 0.5) * 4.656612873077393e-10
    uniform = tl.minimum(uniform, 1.0 - 5.9604644775390625e-08)
    # -log(1 - u), by its series where 1 - u would lose the digits of a small u.
    series = uniform * (1.0 + uniform * (0.5 + uniform * (0.3333333333 + uniform * 0.25)))
    exponential = tl.where(uniform < 0.015625, series, -tl.log(1.0 - uniform))
    return -tl.log(exponential)


@triton.jit
def _block_best(logits, seeds, counts, threshold, score, token, chosen, biggest, total,
                vocabulary, blocks, temperature,
                GREEDY: tl.constexpr, FILTER: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """One program a (row, block of tokens)."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    ids = block * BLOCK + lane
    inside = ids < vocabulary
    x = tl.load(logits + row * vocabulary + ids, mask=inside, other=-float("inf")).to(tl.float32)
    if FILTER:
        x = tl.where(x >= tl.load(threshold + row).to(tl.float32), x, -float("inf"))
    place = row * blocks + block
    if GREEDY:
        noisy = x
    else:
        x = x / temperature
        noisy = x + _gumbel(tl.load(seeds + row), tl.load(counts + row), ids)
        m = tl.max(x, 0)
        anchor = tl.where(m == -float("inf"), 0.0, m)  # inf - inf is NaN
        tl.store(biggest + place, m)
        tl.store(total + place, tl.sum(tl.exp(x - anchor), 0))
    best = tl.argmax(noisy, 0)
    tl.store(score + place, tl.max(noisy, 0))
    tl.store(token + place, block * BLOCK + best)
    tl.store(chosen + place, tl.sum(tl.where(lane == best, x, 0.0), 0))


@triton.jit
def _advance(score, token, chosen, biggest, total, tokens, positions, counts, rows, limits, done,
             eos, out_tokens, out_logprobs, blocks, room,
             GREEDY: tl.constexpr, BLOCKS: tl.constexpr, EOS: tl.constexpr):  # fmt: skip
    """One program a row: the best of all blocks, and the row's next state."""
    row = tl.program_id(0).to(tl.int64)
    block = tl.arange(0, BLOCKS)
    inside = block < blocks
    place = row * blocks + block
    scores = tl.load(score + place, mask=inside, other=-float("inf"))
    best = tl.argmax(scores, 0)
    picked = tl.load(token + row * blocks + best)
    logprob = 0.0
    if not GREEDY:
        m = tl.load(biggest + place, mask=inside, other=-float("inf"))
        top = tl.max(m, 0)
        sums = tl.load(total + place, mask=inside, other=0.0)
        log_total = top + tl.log(tl.sum(sums * tl.exp(m - top), 0))
        logprob = tl.load(chosen + row * blocks + best) - log_total
    live = tl.load(done + row) == 0
    count = tl.load(counts + row)
    where = tl.load(rows + row) * room + count
    tl.store(out_tokens + where, picked.to(tl.int64), mask=live)
    tl.store(out_logprobs + where, logprob, mask=live)
    ends = tl.load(eos + tl.arange(0, EOS)).to(tl.int32)
    hit = tl.max((ends == picked).to(tl.int32), 0)
    full = (count + 1 >= tl.load(limits + row)).to(tl.int32)
    tl.store(tokens + row, picked.to(tl.int64), mask=live)
    tl.store(positions + row, tl.load(positions + row) + 1, mask=live)
    tl.store(counts + row, count + 1, mask=live)
    tl.store(done + row, tl.maximum(hit, full), mask=live)


def draw_and_advance(
    logits: Tensor,
    threshold: Tensor | None,
    temperature: float,
    eos: Tensor,
    state: dict[str, Tensor],
    *,
    block: int = 4096,
    warps: int = 8,
) -> None:
    """Draw a token a row and write it into the state, all on the device.

    Args:
        logits: (B, V) contiguous.
        threshold: (B, 1) of ``filter_threshold``, or None.
        temperature: 0 is greedy.
        eos: ids that end a row, padded with -1 to a power of two.
        state: tensors of ``Session``: tokens, positions, counts, seeds, rows, limits (B,) int64,
            done (B,) int32, out_tokens int64 and out_logprobs float32, (rows, room).
        block: tokens a program; a power of two.
        warps: of a program.

    """
    batch, vocabulary = logits.shape
    blocks = triton.cdiv(vocabulary, block)
    floats = torch.empty(4, batch, blocks, dtype=torch.float32, device=logits.device)
    score, chosen, biggest, total = floats
    token = torch.empty(batch, blocks, dtype=torch.int32, device=logits.device)
    greedy = temperature == 0
    parts = (score, token, chosen, biggest, total)
    cut = logits if threshold is None else threshold.contiguous()  # a view of sorted logits
    _block_best[(batch, blocks)](
        *(logits, state["seeds"], state["counts"], cut),
        *(*parts, vocabulary, blocks, float(temperature)),
        GREEDY=greedy,
        FILTER=threshold is not None,
        BLOCK=block,
        num_warps=warps,
    )
    moved = [state[name] for name in ("tokens", "positions", "counts", "rows", "limits", "done")]
    _advance[(batch,)](
        *(*parts, *moved, eos, state["out_tokens"], state["out_logprobs"]),
        *(blocks, state["out_tokens"].shape[1]),
        GREEDY=greedy,
        BLOCKS=triton.next_power_of_2(blocks),
        EOS=eos.numel(),
        num_warps=1,
    )
