"""Log-probabilities of tokens, and the entropy, without a second copy of the logits.

At a vocabulary of 152,000 the logits of one sequence of 4,096 tokens take 1.2 GB in bfloat16, and a
float32 log-softmax of them 2.5 GB more, twice over once its gradient is there. Here only a chunk of
rows is ever float32, forward and backward; the gradient is written in the dtype of the logits. On a
GPU with Triton the rows stay in registers instead, which is faster still.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from nbkit._chunked import ChunkedEntropy, ChunkedTokenLogprobs
from nbkit._inputs import bool_mask, check_floating, check_integers, check_number


def token_logprobs(
    logits: Tensor, tokens: Tensor, *, temperature: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """Log-probability of each token under the logits that stand at its place.

    Args:
        logits: (B,T,V), or (..., V); already aligned: logits[b, t] scores tokens[b, t].
        tokens: (B,T) ids, 0 to V-1 where the mask is 1.
        temperature: the logits are divided by it *before* the softmax, as the sampler does;
            dividing the log-probability by it is another (and wrong) number.
        mask: (B,T); where it is 0 the result is 0 and the token may be anything, such as -100.

    Returns:
        (B,T), float64 for float64 logits, else float32; differentiable (twice) in the logits.

    Raises:
        ValueError: shapes that do not fit, a temperature that is not positive, a token that counts
            but is not in the vocabulary.
    """
    _check_logits(logits, temperature)
    check_integers("tokens", tokens)
    if tokens.shape != logits.shape[:-1]:
        raise ValueError(
            f"tokens must have the shape of logits without V, {tuple(logits.shape[:-1])}; "
            f"got {tuple(tokens.shape)}"
        )
    counted = bool_mask(mask, tokens, like_name="tokens")
    vocabulary = logits.shape[-1]
    if bool((counted & ((tokens < 0) | (tokens >= vocabulary))).any()):
        raise ValueError(
            f"tokens (shape {tuple(tokens.shape)}) holds ids outside 0..{vocabulary - 1}; mask out "
            "labels such as -100"
        )
    chosen = torch.where(counted, tokens, 0)
    logp: Tensor = _function(logits, "TokenLogprobs").apply(logits, chosen, temperature)
    return logp if mask is None else torch.where(counted, logp, 0.0)


def next_token_logprobs(
    logits: Tensor, ids: Tensor, *, temperature: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """Log-probabilities of a sequence under its own logits: logits[:, t] scores ids[:, t+1].

    Args:
        logits: (B,T,V) of the model that read `ids`.
        ids: (B,T).
        temperature: as in `token_logprobs`.
        mask: (B,T), aligned with `ids`: 1 for the tokens whose log-probability counts. Its first
            column is not read, because nothing scores the first token.

    Returns:
        (B,T-1): element t belongs to ids[:, t+1] and to mask[:, t+1].

    Raises:
        ValueError: as `token_logprobs`; or no second token.
    """
    check_floating("logits", logits, ndim=3)
    check_integers("ids", ids, ndim=2)
    if ids.shape != logits.shape[:2] or ids.shape[1] < 2:
        raise ValueError(
            f"ids must be (B,T) with T > 1 beside logits (B,T,V) of shape {tuple(logits.shape)}; "
            f"got {tuple(ids.shape)}"
        )
    counted = bool_mask(mask, ids, like_name="ids")
    # The whole logits go in, their last row unused: a slice would cost a copy of them, and its
    # gradient a second one.
    behind = torch.nn.functional.pad(ids[:, 1:], (0, 1))
    behind_counted = torch.nn.functional.pad(counted[:, 1:], (0, 1))
    return token_logprobs(logits, behind, temperature=temperature, mask=behind_counted)[:, :-1]


def entropy(logits: Tensor, *, temperature: float = 1.0, mask: Tensor | None = None) -> Tensor:
    """Entropy in nats of softmax(logits / temperature).

    Args:
        logits: (..., V).
        temperature: the logits are divided by it before the softmax.
        mask: (...); where it is 0 the result is 0.

    Returns:
        (...), float64 for float64 logits, else float32; differentiable (twice) in the logits.

    Raises:
        ValueError: shapes that do not fit or a temperature that is not positive.
    """
    _check_logits(logits, temperature)
    result: Tensor = _function(logits, "Entropy").apply(logits, temperature)
    if mask is None:
        return result
    return torch.where(bool_mask(mask, result, like_name="logits without V"), result, 0.0)


def _check_logits(logits: Tensor, temperature: float) -> None:
    check_floating("logits", logits)
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits must be (..., V) with V > 0; got shape {tuple(logits.shape)}")
    check_number("temperature", temperature, 1e-30, 1e30)  # what float32 can divide by


def _function(logits: Tensor, name: str) -> Any:
    """The fused form on a GPU with Triton, the chunked one elsewhere and for float64."""
    if logits.is_cuda and logits.dtype != torch.float64 and _has_triton():
        from nbkit import _fused  # imports Triton, which machines without a GPU lack

        return {"TokenLogprobs": _fused.FusedTokenLogprobs, "Entropy": _fused.FusedEntropy}[name]
    return {"TokenLogprobs": ChunkedTokenLogprobs, "Entropy": ChunkedEntropy}[name]


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
