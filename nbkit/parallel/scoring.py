"""Log-probabilities from hidden states: the logits exist a few rows at a time, in both directions.

At a vocabulary of 152,000 the float32 logits of 8,192 tokens take 5 GB, and their gradient as much
again. Here the head and the softmax are one operation: rows are cut in chunks, the backward pass
computes each chunk's logits anew (about 2 of every 100 operations of a 7B model) and turns them
into gradients at once.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

CHUNK = 2048  # rows of logits that exist at one time


class LinearLogprobs(torch.autograd.Function):
    """log softmax(h Wᵀ / τ) at one token a row, without keeping h Wᵀ."""

    @staticmethod
    def forward(  # noqa: D102 (autograd's own name)
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        tokens: Tensor,
        temperature: float,
        compiled: bool,
    ) -> Tensor:
        rows, ids = hidden.flatten(0, 1), tokens.flatten()
        context.save_for_backward(rows, weight, ids)
        context.temperature, context.shape = temperature, hidden.shape
        context.compiled = compiled
        score = _made(chunk_logprobs, compiled)
        found = torch.empty(tokens.shape, dtype=_precise(weight), device=hidden.device)
        for part in chunks(len(rows)):
            found.view(-1)[part] = score(rows[part] @ weight.t(), ids[part], temperature)
        return found

    @staticmethod
    def backward(context: Any, *incoming: Tensor) -> tuple[Tensor | None, ...]:  # noqa: D102
        hidden, weight, tokens = context.saved_tensors
        derive = _made(chunk_gradient, context.compiled)
        hidden_gradient = torch.empty_like(hidden)
        precise, coming = _precise(weight), incoming[0].flatten()
        weight_gradient = torch.zeros(weight.shape, dtype=precise, device=weight.device)
        for rows in chunks(hidden.shape[0]):
            logits = hidden[rows] @ weight.t()
            gradient = derive(logits, tokens[rows], coming[rows], context.temperature)
            torch.mm(gradient, weight, out=hidden_gradient[rows])
            weight_gradient += gradient.t() @ hidden[rows]
        found = hidden_gradient.view(context.shape), weight_gradient.to(weight.dtype)
        return *found, None, None, None


def chunks(rows: int) -> Iterator[slice]:
    """Parts of at most ``CHUNK`` rows, of one size but for the last: a compiler sees few shapes."""
    number = max(1, -(-rows // CHUNK))
    size = -(-rows // number)
    for start in range(0, rows, size):
        yield slice(start, start + size)


def chunk_logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    """Log-probabilities (R,) of tokens (R,) under logits (R, V), in float32.

    Tokens are not looked at first, as ``nbkit.logprobs`` does: a GPU would be waited for.
    """
    scaled = logits.to(_precise(logits)) / temperature
    return scaled.gather(-1, tokens[:, None])[:, 0] - scaled.logsumexp(-1)


def chunk_gradient(logits: Tensor, tokens: Tensor, incoming: Tensor, temperature: float) -> Tensor:
    """The gradient (R, V) in the logits: d logp / d logits = (1[token] - p) / τ."""
    precise = _precise(logits)
    scale = (incoming / temperature)[:, None].to(precise)
    gradient = (logits.to(precise) / temperature).softmax(-1) * -scale
    return gradient.scatter_add(1, tokens[:, None], scale).to(logits.dtype)


@cache
def _made(function: Callable[..., Tensor], compiled: bool) -> Callable[..., Tensor]:
    return torch.compile(function, dynamic=False) if compiled else function


def linear_logprobs(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    *,
    temperature: float = 1.0,
    compiled: bool = False,
) -> Tensor:
    """Log-probability of each token under softmax(hidden Wᵀ / temperature).

    Args:
        hidden: (B, T, D), aligned: hidden[b, t] scores tokens[b, t].
        weight: (V, D) of the head.
        tokens: (B, T) ids.
        temperature: of the softmax.
        compiled: fuse what happens between the matrix products, with ``torch.compile``.

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
    # Autocast does not reach the backward pass of a function of one's own: without these casts
    # its products would be float32 there, an order of magnitude slower. The casts have gradients.
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    logp: Tensor = LinearLogprobs.apply(
        hidden.to(dtype), weight.to(dtype), tokens, temperature, compiled
    )
    return logp


def _precise(weight: Tensor) -> torch.dtype:
    return torch.float64 if weight.dtype == torch.float64 else torch.float32


def attach_scoring(model: Any, *, compiled: bool = False) -> Any:
    """Teach a causal language model of transformers a keyword: `model(..., score=ids)`.

    With it the forward pass returns the log-probabilities (B, T-1) of ids (B, T) from the second
    on instead of logits. It must happen inside ``forward``: under sharding the head's weight
    is whole only there. The trainers of PPO and GRPO score such a model so (``scores_tokens``), but
    not where they need whole distributions, for an entropy bonus.

    Args:
        model: with a body ``model.model`` and a head ``model.lm_head`` without bias; changed.
        compiled: see ``linear_logprobs``.

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
        weight, tokens = model.lm_head.weight, score[:, 1:]
        return linear_logprobs(
            hidden[:, :-1], weight, tokens, temperature=temperature, compiled=compiled
        )

    model.forward, model.scores_tokens = forward, True
    return model


def scores_tokens(model: object) -> bool:
    """Whether ``attach_scoring`` has taught the model, which a back-end may have wrapped."""
    return bool(getattr(getattr(model, "module", model), "scores_tokens", False))
