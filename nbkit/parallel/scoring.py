"""Log-probabilities from hidden states: the logits exist a few rows at a time, in both directions.

At a vocabulary of 152,000 the float32 logits of 8,192 tokens take 5 GB, and their gradient as much
again. Here the head and the softmax are one operation: rows are cut in chunks, the backward pass
computes each chunk's logits anew (about 2 of every 100 operations of a 7B model) and turns them
into gradients at once.
"""

from typing import Any

import torch
from torch import Tensor

from nbkit.logprobs import token_logprobs

CHUNK = 2048  # rows of logits that exist at one time


class LinearLogprobs(torch.autograd.Function):
    """log softmax(h Wᵀ / τ) at one token a row, without keeping h Wᵀ."""

    @staticmethod
    def forward(  # noqa: D102 (autograd's own name)
        context: Any, hidden: Tensor, weight: Tensor, tokens: Tensor, temperature: float
    ) -> Tensor:
        rows, ids = hidden.flatten(0, 1), tokens.flatten()
        context.save_for_backward(rows, weight, ids)
        context.temperature, context.shape = temperature, hidden.shape
        found = torch.empty(tokens.shape, dtype=_precise(weight), device=hidden.device)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            logp = token_logprobs(rows[part] @ weight.t(), ids[part], temperature=temperature)
            found.view(-1)[part] = logp
        return found

    @staticmethod
    def backward(context: Any, *incoming: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        hidden, weight, tokens = context.saved_tensors
        hidden_gradient = torch.empty_like(hidden)
        precise, coming = _precise(weight), incoming[0].flatten()
        weight_gradient = torch.zeros(weight.shape, dtype=precise, device=weight.device)
        for start in range(0, hidden.shape[0], CHUNK):
            rows = slice(start, start + CHUNK)
            logits = hidden[rows] @ weight.t()
            scale = (coming[rows] / context.temperature)[:, None].to(precise)
            # d logp / d logits = (1[token] - p) / τ
            gradient = (logits.to(precise) / context.temperature).softmax(-1).mul_(-scale)
            gradient.scatter_add_(1, tokens[rows, None], scale)
            gradient = gradient.to(hidden.dtype)
            torch.mm(gradient, weight, out=hidden_gradient[rows])
            weight_gradient += gradient.t() @ hidden[rows]
        return hidden_gradient.view(context.shape), weight_gradient.to(weight.dtype), None, None


def linear_logprobs(
    hidden: Tensor, weight: Tensor, tokens: Tensor, *, temperature: float = 1.0
) -> Tensor:
    """Log-probability of each token under softmax(hidden Wᵀ / temperature).

    Args:
        hidden: (B, T, D), aligned: hidden[b, t] scores tokens[b, t].
        weight: (V, D) of the head.
        tokens: (B, T) ids.
        temperature: of the softmax.

    Returns:
        (B, T) float32 (float64 for float64), differentiable once in hidden and weight.

    Raises:
        ValueError: shapes that do not fit.

    """
    if hidden.shape[:2] != tokens.shape or hidden.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"hidden (B,T,D), weight (V,D) and tokens (B,T) must fit; got {tuple(hidden.shape)}, "
            f"{tuple(weight.shape)} and {tuple(tokens.shape)}"
        )
    # Under autocast the hidden states are bfloat16 and the weight is not; the casts have gradients.
    logp: Tensor = LinearLogprobs.apply(hidden, weight.to(hidden.dtype), tokens, temperature)
    return logp


def _precise(weight: Tensor) -> torch.dtype:
    return torch.float64 if weight.dtype == torch.float64 else torch.float32


def attach_scoring(model: Any) -> Any:
    """Teach a causal language model of transformers a keyword: `model(..., score=ids)`.

    With it the forward pass returns the log-probabilities (B, T-1) of ids (B, T) from the second
    on instead of logits. It must happen inside ``forward``: under sharding the head's weight
    is whole only there.

    Args:
        model: with a body ``model.model`` and a head ``model.lm_head`` without bias; changed.

    Returns:
        the model.

    """
    plain = model.forward

    def forward(
        *args: Any, score: Tensor | None = None, temperature: float = 1.0, **kw: Any
    ) -> Any:
        if score is None:
            return plain(*args, **kw)
        hidden = model.model(*args, **kw).last_hidden_state
        return linear_logprobs(
            hidden[:, :-1], model.lm_head.weight, score[:, 1:], temperature=temperature
        )

    model.forward = forward
    return model
