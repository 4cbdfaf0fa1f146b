"""Softmax statistics of large logits in one pass on a GPU, written in Triton (`nbkit.logprobs`).

The same functions as `nbkit._chunked`, for float16, bfloat16 and float32 logits on CUDA: the
forward pass reads the logits once, the backward pass reads them once more and writes the gradient
in their dtype. Everything in between stays in registers, in float32.

Each row keeps a running maximum m and sums relative to it (Milakov and Gimelshein,
arXiv:1805.02867, algorithm 3): s = sum exp((x - m)/T), and for the entropy
w = sum exp((x - m)/T) (x - m)/T, so that log Z = m/T + log s and H = log s - w/s.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nbkit._chunked import _plain_entropy_gradient, _plain_token_gradient

BLOCK = 4096
WARPS = 8


@triton.jit
def _row_statistics(logits, row_max, log_sum, weighted, stride_b, stride_t, steps, vocabulary,
                    temperature, BLOCK: tl.constexpr):  # fmt: skip
    """One program a row: m, log s and w/s."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + (row // steps) * stride_b + (row % steps) * stride_t
    biggest = -float("inf")
    total = 0.0
    product = 0.0
    for offset in range(0, vocabulary, BLOCK):
        columns = offset + tl.arange(0, BLOCK)
        x = tl.load(start + columns, mask=columns < vocabulary, other=-float("inf")).to(tl.float32)
        new = tl.maximum(biggest, tl.max(x, 0))
        # Until a finite logit is seen, distances are measured from 0: inf - inf is NaN.
        anchor = tl.where(new == -float("inf"), 0.0, new)
        shift = tl.where(biggest == -float("inf"), 0.0, (biggest - anchor) / temperature)
        rescale = tl.where(biggest == -float("inf"), 0.0, tl.exp(shift))
        distance = (x - anchor) / temperature
        weight = tl.exp(distance)
        product = rescale * (product + shift * total) + tl.sum(
            tl.where(weight == 0.0, 0.0, weight * distance), 0
        )
        total = rescale * total + tl.sum(weight, 0)
        biggest = new
    tl.store(row_max + row, biggest)
    tl.store(log_sum + row, tl.log(total))
    tl.store(weighted + row, product / total)


@triton.jit
def _token_gradient(logits, tokens, row_max, log_sum, incoming, gradient, stride_b, stride_t,
                    steps, vocabulary, temperature, BLOCK: tl.constexpr):  # fmt: skip
    """d logp / d logits = (1[token] - p) / T, times the incoming gradient; 0 where that is 0."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < vocabulary
    start = logits + (row // steps) * stride_b + (row % steps) * stride_t
    x = tl.load(start + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(incoming + row) / temperature
    p = tl.exp((x - tl.load(row_max + row)) / temperature - tl.load(log_sum + row))
    slope = scale * (tl.where(columns == tl.load(tokens + row), 1.0, 0.0) - p)
    slope = tl.where(scale == 0.0, 0.0, slope)
    tl.store(gradient + row * vocabulary + columns, slope, mask=inside)


@triton.jit
def _entropy_gradient(logits, entropies, row_max, log_sum, incoming, gradient, stride_b, stride_t,
                      steps, vocabulary, temperature, BLOCK: tl.constexpr):  # fmt: skip
    """d H / d logits = -p (log p + H) / T, times the incoming gradient; 0 where that is 0."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < vocabulary
    start = logits + (row // steps) * stride_b + (row % steps) * stride_t
    x = tl.load(start + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(incoming + row) / temperature
    logp = (x - tl.load(row_max + row)) / temperature - tl.load(log_sum + row)
    p = tl.exp(logp)
    slope = tl.where(p == 0.0, 0.0, -scale * p * (logp + tl.load(entropies + row)))
    slope = tl.where(scale == 0.0, 0.0, slope)
    tl.store(gradient + row * vocabulary + columns, slope, mask=inside)


class FusedTokenLogprobs(torch.autograd.Function):
    """log softmax(logits / temperature)[token], (..., V) and (...) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        """Saves the logits, the tokens and two numbers a row."""
        row_max, log_sum, _ = _statistics(logits, temperature)
        chosen = logits.gather(-1, tokens[..., None])[..., 0].float().reshape(-1)
        logp = (chosen - row_max) / temperature - log_sum
        # -inf is for a token whose logit is -inf, not for one that is merely far away.
        logp = torch.where(chosen == -torch.inf, logp, logp.clamp(min=torch.finfo(logp.dtype).min))
        ctx.save_for_backward(logits, tokens, row_max, log_sum)
        ctx.temperature = temperature
        return logp.reshape(tokens.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """One kernel; in plain operations where the gradient is differentiated again."""
        logits, tokens, row_max, log_sum = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _plain_token_gradient(logits, tokens, ctx.temperature, grads[0]), None, None
        rows = tokens.reshape(-1).contiguous()
        gradient = _gradient(
            _token_gradient, logits, rows, row_max, log_sum, grads[0], ctx.temperature
        )
        return gradient, None, None


class FusedEntropy(torch.autograd.Function):
    """-sum p log p with p = softmax(logits / temperature), (..., V) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        """Saves the logits and three numbers a row."""
        row_max, log_sum, weighted = _statistics(logits, temperature)
        entropies = (log_sum - weighted).abs()
        ctx.save_for_backward(logits, entropies, row_max, log_sum)
        ctx.temperature = temperature
        return entropies.reshape(logits.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """One kernel; in plain operations where the gradient is differentiated again."""
        logits, entropies, row_max, log_sum = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _plain_entropy_gradient(logits, ctx.temperature, grads[0]), None
        gradient = _gradient(
            _entropy_gradient, logits, entropies, row_max, log_sum, grads[0], ctx.temperature
        )
        return gradient, None


def _statistics(logits: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """m, log s and w/s of every row, each float32 and flat."""
    view, steps = _rows(logits)
    count = view.shape[0] * steps
    out = [torch.empty(count, device=logits.device, dtype=torch.float32) for _ in range(3)]
    if count:
        strides = (view.stride(0), view.stride(1), steps, logits.shape[-1], temperature)
        _row_statistics[(count,)](view, *out, *strides, BLOCK=BLOCK, num_warps=WARPS)
    return out[0], out[1], out[2]


def _gradient(
    kernel: Any,
    logits: Tensor,
    per_row: Tensor,
    row_max: Tensor,
    log_sum: Tensor,
    incoming: Tensor,
    temperature: float,
) -> Tensor:
    view, steps = _rows(logits)
    vocabulary = logits.shape[-1]
    gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
    scale = incoming.reshape(-1).to(torch.float32).contiguous()
    if gradient.numel():
        grid = (scale.numel(), triton.cdiv(vocabulary, BLOCK))
        strides = (view.stride(0), view.stride(1), steps, vocabulary, temperature)
        arguments = (view, per_row, row_max, log_sum, scale, gradient, *strides)
        kernel[grid](*arguments, BLOCK=BLOCK, num_warps=WARPS)
    return gradient


def _rows(logits: Tensor) -> tuple[Tensor, int]:
    """A (B,T,V) view whose last stride is 1, and T; copies only what no two strides reach."""
    shape = (-1, logits.shape[-2] if logits.ndim > 1 else 1, logits.shape[-1])
    view = logits if logits.ndim == 3 else logits.reshape(shape)
    if view.stride(-1) != 1:
        view = view.contiguous()
    return view, view.shape[1]
