"""What models say of completions: log-probabilities and values of the sampled tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nbkit.generate.weights import causal
from nbkit.logprobs import entropy, token_logprobs
from nbkit.parallel import Parallel
from nbkit.parallel.scoring import scores_tokens
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import LanguageModel
from nbkit.text.scalar_models import ScalarModel, SharedActorCritic
from nbkit.trainers.shares import own_parts, spread_over

if TYPE_CHECKING:
    from nbkit.trainers.grpo.config import GRPOConfig
    from nbkit.trainers.rlhf.config import RLHFConfig

Policy = LanguageModel | SharedActorCritic
# What gives logits: a policy, or a function such as a policy without its adapters.
Scorer = Policy | Callable[..., Any]


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
    policy: Scorer, batch: Aligned, temperature: float, *, with_entropy: bool = False
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
        inputs = model_inputs(batch.ids, batch.attention)
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


@torch.no_grad()
def scored_tokens(
    policy: Scorer,
    value: ScalarModel | None,
    ids: Tensor,
    attention: Tensor,
    mask: Tensor,
    config: "GRPOConfig | RLHFConfig",
    *,
    parallel: Parallel | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and values (R, T) of sampled tokens, in micro-batches.

    Args:
        policy: a language model, or a ``SharedActorCritic``.
        value: a value model; None: the policy's own values, or zeros where it has none.
        ids: (R, P+T).
        attention: (R, P+T).
        mask: (R, T).
        config: temperature, micro_tokens, micro_rows.
        parallel: of the policy: each rank scores its share of the rows, and all get the whole.
            None: one device.

    """
    spread = spread_over(parallel, policy)  # type: ignore[arg-type]  # a function brings its own
    logprobs = torch.zeros(mask.shape, device=ids.device)
    values = torch.zeros(mask.shape, device=ids.device)
    for rows in own_parts(attention, spread, config.micro_tokens, config.micro_rows):
        if rows is None:  # the other ranks need this one's shards
            part = align(ids[:1], attention[:1], mask[:1])
            policy_outputs(policy, part, config.temperature)
            if value is not None:
                value_outputs(value, part)
            continue
        part = align(ids[rows], attention[rows], mask[rows])
        logp, own, _ = policy_outputs(policy, part, config.temperature)
        logprobs[rows] = part.full(logp).to(logprobs.dtype)
        found = own if value is None else value_outputs(value, part)
        if found is not None:
            values[rows] = part.full(found).to(values.dtype)
    return spread.sum(logprobs), spread.sum(values)
