"""The models of RLHF behind one call: log-probabilities and values of the sampled tokens."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbkit.generate.weights import causal
from nbkit.logprobs import entropy, token_logprobs
from nbkit.masks import position_ids
from nbkit.parallel.scoring import scores_tokens
from nbkit.text.policies_value import ScalarModel, SharedActorCritic


@dataclass(frozen=True)
class Aligned:
    """Columns of a batch without those in which no row has a real token.

    Attributes:
        ids: (B, p+t) prompts, then t columns of completions.
        attention: (B, p+t) bool.
        mask: (B, t) bool.
        width: T, columns of completions in the batch that this was cut from.

    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    width: int

    @property
    def tokens(self) -> Tensor:
        """(B, t) ids of the completions."""
        return self.ids[:, -self.mask.shape[1] :]

    def full(self, x: Tensor) -> Tensor:
        """(B, t) -> (B, T), zeros behind."""
        return torch.nn.functional.pad(x, (0, self.width - x.shape[1]))


def align(ids: Tensor, attention: Tensor, mask: Tensor) -> Aligned:
    """Cut empty columns away.

    Args:
        ids: (B, P+T), prompts padded on the left, completions on the right.
        attention: (B, P+T) bool.
        mask: (B, T) bool, tokens that count.

    """
    width = mask.shape[1]
    start = ids.shape[1] - width
    first = int(attention.any(0).to(torch.uint8).argmax())
    length = max(1, int(attention[:, start:].sum(1).max()))
    used = slice(first, start + length)
    return Aligned(ids[:, used], attention[:, used], mask[:, :length], width)


def policy_outputs(
    policy: Any, batch: Aligned, temperature: float, *, with_entropy: bool = False
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Run the policy over a batch.

    Args:
        policy: a causal language model of transformers, or a ``SharedActorCritic``.
        batch: B rows, t columns.
        temperature: of the sampler.
        with_entropy: also the entropy of each distribution, with gradient.

    Returns:
        log-probabilities (B, t), 0 outside the mask; values (B, t) where the policy has them, else
        None; entropies (B, t) or None. The value at t is that of the state before token t.

    """
    keep = batch.mask.shape[1] + 1
    values = None
    if isinstance(policy, SharedActorCritic):
        logits, scalars = policy.logits_and_values(batch.ids, batch.attention, keep)
        values = torch.where(batch.mask, scalars[:, :-1], 0.0)
    else:
        # Around data parallelism the wrapper must be called: it sums the gradients.
        wrapped = isinstance(policy, nn.parallel.DistributedDataParallel)
        model = policy if wrapped else causal(policy)
        inputs = {
            "input_ids": batch.ids,
            "attention_mask": batch.attention.long(),
            "position_ids": position_ids(batch.attention),
            "use_cache": False,
        }
        if scores_tokens(model) and not with_entropy:
            every = model(**inputs, score=batch.ids, temperature=temperature)
            return torch.where(batch.mask, every[:, 1 - keep :], 0.0), None, None
        logits = model(**inputs, logits_to_keep=keep).logits
    logits = logits[:, :-1]
    logp = token_logprobs(logits, batch.tokens, temperature=temperature, mask=batch.mask)
    spread = entropy(logits / temperature) if with_entropy else None
    return logp, values, spread


def value_outputs(value: ScalarModel, batch: Aligned) -> Tensor:
    """Values (B, t) of the states before each token, 0 outside the mask."""
    steps = batch.mask.shape[1]
    scalars = value(batch.ids, batch.attention)[:, -steps - 1 : -1]
    return torch.where(batch.mask, scalars, 0.0)
