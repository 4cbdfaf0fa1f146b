"""Softmax statistics of large logits, chunk by chunk, forward and backward (`nbkit.logprobs`).

Both functions keep the logits themselves for the backward pass, and of their size nothing else. A
chunk of rows is exponentiated in one float32 buffer, which serves all chunks; the backward pass
does it again and writes the gradient straight into the dtype of the logits. A row whose incoming
gradient is 0 gets the gradient 0, even if its logits are NaN.

In what follows s = (x - max x) / temperature, e = exp(s) and z = sum e, so that p = e / z.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Numbers in a chunk: what stays in a CPU's cache; what keeps a GPU busy.
CHUNK_ELEMENTS = {"cpu": 2**19, "other": 2**24}


class ChunkedTokenLogprobs(torch.autograd.Function):
    """log softmax(logits / temperature)[token], (..., V) and (...) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
        """log p[token] = s[token] - log z."""
        places = tokens.reshape(-1, 1)
        largest, total, out = (statistic(logits) for _ in range(3))
        for rows, chunk, buffer in row_chunks(logits):
            largest[rows] = chunk.amax(1, keepdim=True)
            shifted = shift(chunk, largest[rows], temperature, buffer)
            out[rows] = shifted.gather(1, places[rows])
            total[rows] = shifted.exp_().sum(1, keepdim=True)
            # -inf is for a token whose logit is -inf, not for one that is merely far away.
            banned = chunk.gather(1, places[rows]) == -torch.inf
            out[rows] = torch.where(banned, out[rows], finite(out[rows] - total[rows].log()))
        ctx.save_for_backward(logits, tokens, largest, total)
        ctx.temperature = temperature
        return out.reshape(tokens.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """d log p[token] / d x = (1[token] - p) / temperature.

        In terms of e: (z 1[token] - e) / (z temperature).
        """
        logits, tokens, largest, total = ctx.saved_tensors
        temperature = ctx.temperature
        if torch.is_grad_enabled():
            return _plain_token_gradient(logits, tokens, temperature, grads[0]), None, None
        places, incoming = tokens.reshape(-1, 1), grads[0].reshape(-1, 1)
        scale = -incoming / (total * temperature)
        gradient, flat_gradient = empty_gradient(logits)
        for rows, chunk, buffer in row_chunks(logits):
            slope = shift(chunk, largest[rows], temperature, buffer).exp_()
            slope.scatter_add_(1, places[rows], -total[rows])
            torch.mul(slope, scale[rows], out=flat_gradient[rows])
        zero_rows(flat_gradient, incoming)
        return gradient, None, None


class ChunkedEntropy(torch.autograd.Function):
    """-sum p log p with p = softmax(logits / temperature), (..., V) -> (...)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        """H = log z - (sum e s) / z: a sum of two numbers that are not negative."""
        largest, total, out = (statistic(logits) for _ in range(3))
        for rows, chunk, buffer in row_chunks(logits):
            largest[rows] = chunk.amax(1, keepdim=True)
            shifted = finite(shift(chunk, largest[rows], temperature, buffer))
            exponential = shifted.exp()
            total[rows] = exponential.sum(1, keepdim=True)
            mean = exponential.mul_(shifted).sum(1, keepdim=True) / total[rows]
            out[rows] = total[rows].log() - mean
        ctx.save_for_backward(logits, largest, total, out)
        ctx.temperature = temperature
        return out.reshape(logits.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """d H / d x = -p (log p + H) / temperature, with log p = s - log z."""
        logits, largest, total, out = ctx.saved_tensors
        temperature = ctx.temperature
        if torch.is_grad_enabled():
            return _plain_entropy_gradient(logits, temperature, grads[0]), None
        incoming = grads[0].reshape(-1, 1)
        scale = -incoming / (total * temperature)
        offset = out - total.log()
        gradient, flat_gradient = empty_gradient(logits)
        for rows, chunk, buffer in row_chunks(logits):
            shifted = finite(shift(chunk, largest[rows], temperature, buffer))
            slope = shifted.exp().mul_(shifted.add_(offset[rows]))
            torch.mul(slope, scale[rows], out=flat_gradient[rows])
        zero_rows(flat_gradient, incoming)
        return gradient, None


def row_chunks(logits: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Views (rows, V) that cover (..., V) in order: the place among all rows, the view, a buffer.

    The buffer is the same memory every time, in the dtype of the results.
    """
    device = logits.device.type
    elements = CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["other"])
    count, vocabulary = logits.shape[:-1].numel(), logits.shape[-1]
    size = max(1, min(count, elements // vocabulary))
    buffer = logits.new_empty((size, vocabulary), dtype=result_dtype(logits))
    start = 0
    for block in _two_dimensional(logits.detach()):
        for chunk in block.split(size):
            rows = slice(start, start + chunk.shape[0])
            yield rows, chunk, buffer[: chunk.shape[0]]
            start = rows.stop


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


def statistic(logits: Tensor) -> Tensor:
    """Room for one number a row, (rows, 1)."""
    return logits.new_empty((logits.shape[:-1].numel(), 1), dtype=result_dtype(logits))


def shift(chunk: Tensor, largest: Tensor, temperature: float, buffer: Tensor) -> Tensor:
    """(chunk - largest) / temperature in the buffer.

    The largest logit goes first, so that a small temperature cannot overflow.
    """
    torch.sub(chunk, largest, out=buffer)
    return buffer if temperature == 1.0 else buffer.div_(temperature)


def finite(x: Tensor) -> Tensor:
    """-inf becomes the lowest finite number, in place: its product with 0 is 0 and not NaN."""
    return x.clamp_(min=torch.finfo(x.dtype).min)


def empty_gradient(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Room for the gradient, and the same memory as (rows, V)."""
    gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
    return gradient, gradient.view(-1, logits.shape[-1])


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
