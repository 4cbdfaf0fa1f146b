"""Pairs of answers as tensors, and what a model says of them.

A batch of B pairs is one forward pass over 2B rows: the chosen answers, then the rejected ones,
each behind its own copy of the prompt. Padding stands on the right, so that a row's positions do
not depend on its neighbours.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nbkit.data.encode import EncodedPair
from nbkit.logprobs import next_token_logprobs
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import LanguageModel


class PairBatch(NamedTuple):
    """B pairs, rows 0 to B-1 the chosen answers, rows B to 2B-1 the rejected ones.

    Attributes:
        ids: (2B, T) prompt, answer, padding.
        attention: (2B, T) bool, false on padding.
        mask: (2B, T) bool, true on the tokens of an answer, its EOS included.

    """

    ids: Tensor
    attention: Tensor
    mask: Tensor


class PairScores(NamedTuple):
    """Log-probabilities of B pairs under one model.

    Attributes:
        chosen: (B,) summed over the answer, in nats.
        rejected: (B,) likewise.
        chosen_tokens: (B,) lengths of the answers, EOS included.
        rejected_tokens: (B,) likewise.

    """

    chosen: Tensor
    rejected: Tensor
    chosen_tokens: Tensor
    rejected_tokens: Tensor

    def rows(self, index: Tensor) -> "PairScores":
        """Some of the pairs."""
        return PairScores(*(field[index] for field in self))


def check_pairs(pairs: Sequence[EncodedPair]) -> None:
    """Refuse pairs that have nothing to compare, by number.

    Raises:
        ValueError: no pairs, an empty prompt or answer, two equal answers.

    """
    if not pairs:
        raise ValueError("pairs: an empty list has nothing to learn from")
    for number, pair in enumerate(pairs):
        for name in ("prompt", "chosen", "rejected"):
            if not len(getattr(pair, f"{name}_ids")):
                raise ValueError(f"pairs[{number}]: its {name} has no token; leave the pair out")
        if list(pair.chosen_ids) == list(pair.rejected_ids):
            raise ValueError(f"pairs[{number}]: both answers are the same; leave the pair out")


def pair_batch(
    pairs: Sequence[EncodedPair], pad_id: int, device: torch.device | str | None = None
) -> PairBatch:
    """Stack pairs as one batch.

    Args:
        pairs: B of them.
        pad_id: fills the rows on the right; the masks come from lengths, so it may be any id.
        device: of the tensors.

    """
    rows = [(p.prompt_ids, p.chosen_ids) for p in pairs]
    rows += [(p.prompt_ids, p.rejected_ids) for p in pairs]
    longest = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), longest), pad_id)
    attention = torch.zeros(len(rows), longest, dtype=torch.bool)
    mask = torch.zeros_like(attention)
    for i, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor([*prompt, *answer])
        attention[i, :end] = True
        mask[i, len(prompt) : end] = True
    return PairBatch(*(x.to(device) for x in (ids, attention, mask)))


def sequence_logprobs(logits: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability of each answer: the sum over the tokens that count.

    Args:
        logits: (B, T, V); `logits[:, t]` scores `ids[:, t+1]`.
        ids: (B, T).
        mask: (B, T), aligned with `ids`; its first column is not read.

    Returns:
        sums (B,) in nats, and the number of tokens (B,).

    """
    logp = next_token_logprobs(logits, ids, mask=mask)
    return logp.sum(1), mask[:, 1:].sum(1)


def pair_scores(model: LanguageModel, batch: PairBatch) -> PairScores:
    """What a model says of a batch: one forward pass over both answers of each pair."""
    logits = model(**model_inputs(batch.ids, batch.attention)).logits
    sums, counts = sequence_logprobs(logits, batch.ids, batch.mask)
    (chosen, rejected), (longer, shorter) = sums.chunk(2), counts.chunk(2)
    return PairScores(chosen, rejected, longer, shorter)


@torch.no_grad()
def score_pairs(
    model: LanguageModel,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    *,
    batch_size: int = 64,
    device: torch.device | None = None,
) -> PairScores:
    """What a frozen model says of many pairs; in parts, without gradient.

    Args:
        model: in evaluation mode.
        pairs: at least one.
        pad_id: fills short rows.
        batch_size: pairs of one forward pass.
        device: where the model computes; None: where its weights lie. The two differ where weights
            are offloaded.

    """
    device = device or next(model.parameters()).device
    parts = [
        pair_scores(model, pair_batch(pairs[start : start + batch_size], pad_id, device))
        for start in range(0, len(pairs), batch_size)
    ]
    return PairScores(*(torch.cat(fields) for fields in zip(*parts, strict=True)))


def refused_pairs(pairs: Sequence[EncodedPair], norm: float) -> dict[str, Any] | None:
    """The pairs of a batch as plain data, if its gradient's norm is not finite; else None."""
    if math.isfinite(norm):
        return None
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    return {
        "gradient_norm": norm,
        **{name: [list(getattr(pair, name)) for pair in pairs] for name in names},
    }
