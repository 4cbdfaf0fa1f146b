"""Softmax statistics of large logits, chunk by chunk, forward and backward (`nbkit.logprobs`).

Both functions keep the logits themselves for the backward pass and nothing else of their size. The
backward pass computes the softmax of a chunk again and writes the gradient straight into the dtype
of the logits. A row whose incoming gradient is 0 gets the gradient 0, even if its logits are NaN.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Numbers in a chunk: small enough for a CPU's cache, large enough to fill a GPU.
CHUNK_ELEMENTS = {"cpu": 2**19, "other": 2**25}


class ChunkedTokenLogprobs(torch.autograd.Function):
    """log softmax(logits / temperature)[token], (..., V) and (...) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        """Saves the logits and the tokens."""
        ctx.save_for_backward(logits, tokens)
        ctx.temperature = temperature
        flat_tokens = tokens.reshape(-1, 1)
        out = logits.new_empty(flat_tokens.shape, dtype=result_dtype(logits))
        for rows, chunk in row_chunks(logits):
            logp = log_softmax(chunk, temperature, out.dtype).gather(1, flat_tokens[rows])
            # -inf is for a token whose logit is -inf, not for one that is merely far away.
            banned = chunk.gather(1, flat_tokens[rows]) == -torch.inf
            lowest = torch.finfo(out.dtype).min
            out[rows] = torch.where(banned, logp, logp.clamp(min=lowest))
        return out.reshape(tokens.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """d logp / d logits = (1[token] - softmax) / temperature."""
        logits, tokens = ctx.saved_tensors
        temperature = ctx.temperature
        if torch.is_grad_enabled():
            return _plain_token_gradient(logits, tokens, temperature, grads[0]), None, None
        scale = (grads[0] / temperature).reshape(-1, 1)
        flat_tokens = tokens.reshape(-1, 1)
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
        flat_gradient = gradient.view(-1, logits.shape[-1])
        for rows, chunk in row_chunks(logits):
            slope = log_softmax(chunk, temperature, scale.dtype).exp_()
            slope.scatter_add_(1, flat_tokens[rows], slope.new_full(scale[rows].shape, -1.0))
            torch.mul(slope, -scale[rows], out=flat_gradient[rows])
        zero_rows(flat_gradient, scale)
        return gradient, None, None


class ChunkedEntropy(torch.autograd.Function):
    """-sum p log p with p = softmax(logits / temperature), (..., V) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        """Saves the logits and the entropies."""
        out = logits.new_empty(logits.shape[:-1].numel(), dtype=result_dtype(logits))
        for rows, chunk in row_chunks(logits):
            logp = finite(log_softmax(chunk, temperature, out.dtype))
            out[rows] = logp.mul_(logp.exp()).sum(1).abs()
        out = out.reshape(logits.shape[:-1])
        ctx.save_for_backward(logits, out)
        ctx.temperature = temperature
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """d H / d logits = -p (log p + H) / temperature."""
        logits, out = ctx.saved_tensors
        temperature = ctx.temperature
        if torch.is_grad_enabled():
            return _plain_entropy_gradient(logits, temperature, grads[0]), None
        scale = (grads[0] / temperature).reshape(-1, 1)
        flat_out = out.reshape(-1, 1)
        gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
        flat_gradient = gradient.view(-1, logits.shape[-1])
        for rows, chunk in row_chunks(logits):
            logp = finite(log_softmax(chunk, temperature, scale.dtype))
            slope = logp.exp()
            slope.mul_(logp.add_(flat_out[rows]))
            torch.mul(slope, -scale[rows], out=flat_gradient[rows])
        zero_rows(flat_gradient, scale)
        return gradient, None


def row_chunks(logits: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Views (rows, V) that cover (..., V) in order, each with its place among all rows."""
    device = logits.device.type
    elements = CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["other"])
    size = max(1, elements // logits.shape[-1])
    start = 0
    for block in _two_dimensional(logits):
        for chunk in block.split(size):
            yield slice(start, start + chunk.shape[0]), chunk
            start += chunk.shape[0]


def _two_dimensional(logits: Tensor) -> Iterator[Tensor]:
    """(rows, V) views of a tensor of any strides, without a copy."""
    if logits.ndim <= 2:
        yield logits.reshape(-1, logits.shape[-1])
        return
    try:
        yield logits.view(-1, logits.shape[-1])
    except RuntimeError:  # rows that no single stride reaches, as in logits[:, :-1]
        for part in logits.unbind(0):
            yield from _two_dimensional(part)


def result_dtype(logits: Tensor) -> torch.dtype:
    """float64 stays; everything else is computed in float32."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def log_softmax(chunk: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
    """log softmax(chunk / temperature) in `dtype`; a new tensor."""
    if temperature == 1.0:
        return torch.log_softmax(chunk, -1, dtype=dtype)
    shifted = chunk.to(dtype, copy=True)
    # The largest logit goes first, so that a small temperature cannot overflow.
    shifted.sub_(shifted.amax(-1, keepdim=True)).div_(temperature)
    return torch.log_softmax(shifted, -1)


def finite(logp: Tensor) -> Tensor:
    """-inf, whose product with probability 0 would be NaN, becomes the lowest finite number."""
    return logp.clamp_(min=torch.finfo(logp.dtype).min)


def zero_rows(gradient: Tensor, incoming: Tensor) -> None:
    """Zero the rows whose incoming gradient is 0: 0 * NaN is NaN."""
    gradient.index_fill_(0, (incoming == 0).nonzero()[:, 0], 0)


def _plain_token_gradient(
    logits: Tensor, tokens: Tensor, temperature: float, incoming: Tensor
) -> Tensor:
    """The same gradient in operations that autograd can differentiate again."""
    softmax = (logits.to(incoming.dtype) / temperature).softmax(-1)
    chosen = torch.zeros_like(softmax).scatter(-1, tokens[..., None], 1.0)
    scale = (incoming / temperature)[..., None]
    return (scale * (chosen - softmax)).to(logits.dtype)


def _plain_entropy_gradient(logits: Tensor, temperature: float, incoming: Tensor) -> Tensor:
    logp = (logits.to(incoming.dtype) / temperature).log_softmax(-1)
    p = logp.exp()
    minus_entropy = (p * logp).sum(-1, keepdim=True)
    scale = (incoming / temperature)[..., None]
    return (scale * p * (minus_entropy - logp)).to(logits.dtype)
